// A matrix product of 16-bit floats where wgmma is (sm_90a): two groups of four warps bring
// operands into a ring of stages, two multiply 64 rows each (or twice 64) with all columns. A block
// stays and computes one tile after another: the next one's operands come while results are
// finished.
//
// Operands, and the function that results go to, are those of tc_product.h.
#pragma once

#include "tc_pipeline.h"
#include "tc_product.h"

#ifndef __CUDA_ARCH_FEAT_SM90_ALL

/// The same without wgmma: on the host, and where a program meets another device than it was
/// planned for.
template <class Tile, class T, class Left, class Right, class Finish>
TC_FN void tc_product_by_groups(const Left &left, const Right &right, const Finish &finish,
                                int rows, int columns, int terms) {
#ifdef TC_DEVICE
  if (threadIdx.x >= tc_product_threads)
    return;
#endif
  const int tiles =
      ((rows + Tile::rows - 1) / Tile::rows) * ((columns + Tile::columns - 1) / Tile::columns);
  for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
    tc_product_of_tile<Tile, T>(tile, left, right, finish, rows, columns, terms);
#ifdef TC_DEVICE
    __syncthreads(); // shared memory is written again
#endif
  }
}

#else

/// Where things lie in shared memory.
template <class Tile> struct tc_product_places {
  unsigned start;
  TC_MEMBER unsigned stage(int i) const {
    return start + static_cast<unsigned>(i) * Tile::stage_bytes;
  }
  /// Results of a warp that multiplies.
  TC_MEMBER unsigned staged(int warp) const {
    return stage(Tile::stages) + static_cast<unsigned>(warp) * tc_product_staged_bytes;
  }
  TC_MEMBER unsigned barrier(int i) const {
    return staged(tc_product_multiplying / 32) + static_cast<unsigned>(i) * 8;
  }
  TC_MEMBER unsigned full(int stage) const { return barrier(stage); }
  TC_MEMBER unsigned free(int stage) const { return barrier(Tile::stages + stage); }
};

/// The tiles of a block, in the order that all blocks follow together.
template <class Tile> struct tc_product_walk {
  int row_tiles, column_tiles, tile;
  TC_MEMBER tc_product_walk(int rows, int columns)
      : row_tiles((rows + Tile::rows - 1) / Tile::rows),
        column_tiles((columns + Tile::columns - 1) / Tile::columns),
        tile(static_cast<int>(blockIdx.x)) {}
  TC_MEMBER bool next(int &first_row, int &first_column) {
    if (tile >= row_tiles * column_tiles)
      return false;
    tc_product_place(tile, row_tiles, column_tiles, first_row, first_column);
    first_row *= Tile::rows;
    first_column *= Tile::columns;
    tile += static_cast<int>(gridDim.x);
    return true;
  }
};

/// Runs of the left operand that are computed are stored, others are copied: a stage is full when
/// both have arrived.
template <class Left>
constexpr int tc_product_arrivals = Left::copied ? tc_product_bringing : 2 * tc_product_bringing;

template <class Tile, class T, class Left, class Right>
TC_FN void tc_product_bring(const tc_product_places<Tile> &places, const Left &left,
                            const Right &right, int rows, int columns, int steps) {
  tc_product_walk<Tile> walk(rows, columns);
  tc_ring<Tile::stages> ring;
  int first_row, first_column;
  while (walk.next(first_row, first_column)) {
    tc_operand_mover<T, Tile::rows, Left, tc_product_bringing> left_mover;
    tc_operand_mover<T, Tile::columns, Right, tc_product_bringing> right_mover;
    left_mover.start(left, first_row);
    right_mover.start(right, first_column);
    for (int step = 0; step < steps; ++step) {
      const unsigned stage = places.stage(ring.stage);
      const int term = step * tc_product_kind<T>::terms;
      tc_barrier_wait(places.free(ring.stage), ring.parity ^ 1);
      right_mover.move(right, stage + Tile::left_bytes, term);
      left_mover.move(left, stage, term);
      tc_barrier_arrive_after_copies(places.full(ring.stage));
      if constexpr (!Left::copied)
        tc_barrier_arrive(places.full(ring.stage));
      ring.next();
    }
  }
}

/// Where column `column` of row `row` is staged, floats: runs of 8 that a warp reads at once lie in
/// different banks.
TC_FN int tc_product_staged_at(int row, int column) {
  return row * tc_product_piece_pitch + (column ^ (column / 32 % 2 * 4));
}
/// Results of 16 rows by way of shared memory to `finish`, 64 columns at a time.
template <class Tile, bool Whole, int N, class Finish>
TC_FN void tc_product_give(const float (&sums)[N], float *staged, const Finish &finish,
                           int first_row, int first_column, int rows, int columns) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  TC_UNROLL
  for (int piece = 0; piece < Tile::columns / tc_product_piece; ++piece) {
    TC_UNROLL
    for (int i = 0; i < tc_product_piece / 8; ++i)
      TC_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int at = (piece * (tc_product_piece / 8) + i) * 4 + half * 2;
      *reinterpret_cast<float2 *>(staged +
                                  tc_product_staged_at(lane / 4 + half * 8, i * 8 + lane % 4 * 2)) =
          make_float2(sums[at], sums[at + 1]);
    }
    __syncwarp();
    TC_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int row = i * 4 + lane / 8, run = lane % 8 * 8;
      const float4 low = *reinterpret_cast<const float4 *>(staged + tc_product_staged_at(row, run)),
                   high = *reinterpret_cast<const float4 *>(staged +
                                                            tc_product_staged_at(row, run + 4));
      const int column = first_column + piece * tc_product_piece + run;
      if (!Whole && (first_row + row >= rows || column >= columns))
        continue;
      const float values[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
      finish(first_row + row, column, values);
    }
    __syncwarp();
  }
}

template <class Tile, class T, class Left, class Right, class Finish>
TC_FN void tc_product_multiply(const tc_product_places<Tile> &places, const Finish &finish,
                               int rows, int columns, int steps) {
  const int thread = static_cast<int>(threadIdx.x) - tc_product_bringing, warp = thread / 32,
            group = thread / 128;
  constexpr int row_tiles = Tile::row_tiles;
  const int own = group * row_tiles; // the group's first 64 rows in the tile
  TC_DYN_SMEM(unsigned char, dynamic);
  float *staged =
      reinterpret_cast<float *>(dynamic + (places.staged(warp) - tc_shared_address(dynamic)));
  tc_product_walk<Tile> walk(rows, columns);
  tc_ring<Tile::stages> ring;
  int first_row, first_column;
  while (walk.next(first_row, first_column)) {
    float sums[row_tiles][Tile::columns / 2];
    unsigned before = 0; // barrier of the stage that is still being multiplied
    for (int step = 0; step < steps; ++step) {
      tc_barrier_wait(places.full(ring.stage), ring.parity);
      tc_wgmma_see_shared();
      const unsigned at = places.stage(ring.stage);
      const unsigned long long left = tc_wgmma_descriptor(at + own * tc_product_block,
                                                          tc_product_block),
                               right = tc_wgmma_descriptor(at + Tile::left_bytes, tc_product_block);
      tc_wgmma_start();
      TC_UNROLL
      for (int k = 0; k < tc_product_kind<T>::terms / 16; ++k)
        TC_UNROLL
      for (int m = 0; m < row_tiles; ++m)
        tc_multiply_group<Left::deep ? 0 : 1, Right::deep ? 0 : 1>(
            T{}, sums[m],
            tc_wgmma_further(left, m * tc_product_block + k * (Left::deep ? 32u : 2048u)),
            tc_wgmma_further(right, k * (Right::deep ? 32u : 2048u)), step == 0 && k == 0 ? 0 : 1);
      tc_wgmma_end_group();
      if (step > 0) {
        tc_wgmma_wait<1>();
        if (thread % 32 == 0)
          tc_barrier_arrive(before);
      }
      before = places.free(ring.stage);
      ring.next();
    }
    tc_wgmma_wait<0>();
    if (steps > 0 && thread % 32 == 0)
      tc_barrier_arrive(before);
    if (steps == 0)
      tc_clear_sums(sums);
    const bool whole = first_row + Tile::rows <= rows && first_column + Tile::columns <= columns;
    TC_UNROLL
    for (int m = 0; m < row_tiles; ++m) {
      tc_wgmma_hold(sums[m]);
      const int row = first_row + (own + m) * tc_product_group_rows + warp % 4 * 16;
      if (whole)
        tc_product_give<Tile, true>(sums[m], staged, finish, row, first_column, rows, columns);
      else
        tc_product_give<Tile, false>(sums[m], staged, finish, row, first_column, rows, columns);
    }
  }
}

template <class Tile, class T, class Left, class Right, class Finish>
TC_FN void tc_product_by_groups(const Left &left, const Right &right, const Finish &finish,
                                int rows, int columns, int terms) {
  TC_DYN_SMEM(unsigned char, dynamic);
  const tc_product_places<Tile> places{(tc_shared_address(dynamic) + 1023u) & ~1023u};
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Tile::stages; ++stage) {
      tc_barrier_init(places.full(stage), tc_product_arrivals<Left>);
      tc_barrier_init(places.free(stage), tc_product_multiplying / 32);
    }
    tc_barrier_fence_init();
  }
  __syncthreads();
  const int steps = (terms + tc_product_kind<T>::terms - 1) / tc_product_kind<T>::terms;
  if (threadIdx.x < tc_product_bringing) {
    tc_registers_give<120>();
    tc_product_bring<Tile, T>(places, left, right, rows, columns, steps);
  } else {
    tc_registers_take<192>();
    tc_product_multiply<Tile, T, Left, Right>(places, finish, rows, columns, steps);
  }
}

#endif
