// A convolution in steps of one as a product (sm_90a): blocks of positions whose inputs, with the
// halo that windows reach around them, are brought into shared memory once, by one bulk copy for
// each slab of channels, and stay there for all taps. wgmma reads the lines of each tap from where
// they lie: an operand that begins some lines further, since words are permuted by where they are
// in shared memory and not by where the operand begins. All weights stay in shared memory, too.
//
// A block of the grid takes one block of positions after another. One thread brings them; two
// groups of four warps take them in turns, each with stages of its own: while one finishes its
// results the other multiplies.
#pragma once

#include "tc_product_groups.h"

/// Three extents, innermost first.
template <int W, int H, int D> struct tc_halo_extents {
  static constexpr int w = W, h = H, d = D, all = W * H * D;
};
/// `Line`: bytes of a position's channels, those of a slab. `Columns`: outputs that a block of the
/// grid has; `Positions`, `Kernel`, `Dilation`: tc_halo_extents. `Square`: 64 rows of a product are
/// 8 x 8 positions, else neighbouring lines of shared memory. `WholeRuns`: results are finished 8
/// rows at once, which are neighbouring positions.
template <int Channels, int Line, int Columns, int Stages, class Positions, class Kernel,
          class Dilation, bool Square, bool WholeRuns = false>
struct tc_halo_tile {
  static constexpr int channels = Channels, line = Line, columns = Columns, stages = Stages;
  static constexpr int slab = tc_halo_slab_channels(Line), slabs = (Channels + slab - 1) / slab;
  /// Steps of 16 terms: of a whole slab, of the last one.
  static constexpr int steps = slab / 16, last_steps = (Channels - (slabs - 1) * slab + 15) / 16;
  using positions = Positions;
  using kernel = Kernel;
  using dilation = Dilation;
  static constexpr bool square = Square;
  using box = tc_halo_extents<tc_halo_pitch(Positions::w, Kernel::w, Dilation::w, WholeRuns),
                              tc_halo_reach(Positions::h, Kernel::h, Dilation::h),
                              tc_halo_reach(Positions::d, Kernel::d, Dilation::d)>;
  /// Of 64 rows each: in a plane, in all.
  static constexpr int plane_pieces =
      tc_halo_plane_pieces(Positions::w, Positions::h, box::w, Square);
  static constexpr int pieces = plane_pieces * Positions::d;
  static constexpr int stage_bytes = tc_halo_stage_bytes(Line, box::all);
  static constexpr int slab_weights = Kernel::all * Columns * Line; // bytes
  static constexpr int weights_bytes = slabs * slab_weights;
  static constexpr int shared_bytes = tc_halo_bytes(Line, box::all, Stages, weights_bytes, Columns);
};

/// Windows in steps of one, for a kernel that brings what they slide over: `padding` before the
/// first element, how many positions there are of each dimension, and how many samples.
template <class Operand> struct tc_halo_operand : Operand {
  const tc_tensor_map *map;
  int positions[3], padding[3], samples;
};

#ifndef __CUDA_ARCH_FEAT_SM90_ALL

/// The same without wgmma: on the host, and where a program meets another device than it was
/// planned for.
template <class Tile, class T, class Left, class Right, class Finish>
TC_FN void tc_product_by_halo(const Left &left, const Right &right, const Finish &finish, int rows,
                              int columns, int terms) {
  tc_product_by_groups<
      tc_product_tile<tc_halo_plain_rows, tc_halo_plain_columns, tc_halo_plain_stages, 0>, T>(
      left, right, finish, rows, columns, terms);
}

#else

/// Where things lie in shared memory, bytes.
template <class Tile> struct tc_halo_places {
  unsigned start;
  TC_MEMBER unsigned stage(int group, int i) const {
    return start + static_cast<unsigned>(group * Tile::stages + i) * Tile::stage_bytes;
  }
  TC_MEMBER unsigned weights() const { return stage(2, 0); }
  TC_MEMBER unsigned staged(int warp) const {
    return weights() + Tile::weights_bytes +
           static_cast<unsigned>(warp) *
               tc_product_staged_bytes_of(tc_product_piece_of(Tile::columns));
  }
  TC_MEMBER unsigned barrier(int i) const {
    return staged(tc_product_multiplying / 32) + static_cast<unsigned>(i) * 8;
  }
  TC_MEMBER unsigned weights_full() const { return barrier(0); }
  TC_MEMBER unsigned full(int group, int stage) const {
    return barrier(1 + group * Tile::stages + stage);
  }
  TC_MEMBER unsigned free(int group, int stage) const {
    return barrier(1 + (2 + group) * Tile::stages + stage);
  }
};

/// A block of positions: where it begins, innermost dimension first, and of which sample.
struct tc_halo_place {
  int w, h, d, sample;
};
/// The blocks of positions that a block of the grid takes; all of one part of the columns.
template <class Tile> struct tc_halo_walk {
  int across, down, deep, count, first, each, first_column;
  template <class Left>
  TC_MEMBER tc_halo_walk(const Left &left, int columns)
      : across((left.positions[0] + Tile::positions::w - 1) / Tile::positions::w),
        down((left.positions[1] + Tile::positions::h - 1) / Tile::positions::h),
        deep((left.positions[2] + Tile::positions::d - 1) / Tile::positions::d),
        count(across * down * deep * left.samples) {
    const int parts = (columns + Tile::columns - 1) / Tile::columns;
    first = static_cast<int>(blockIdx.x) / parts;
    each = static_cast<int>(gridDim.x) / parts;
    first_column = static_cast<int>(blockIdx.x) % parts * Tile::columns;
  }
  TC_MEMBER tc_halo_place place(int block) const {
    const int plane = block / across, volume = plane / down;
    return {block % across * Tile::positions::w, plane % down * Tile::positions::h,
            volume % deep * Tile::positions::d, volume / deep};
  }
};

template <class Tile, class Left, class Right>
TC_FN void tc_halo_bring(const tc_halo_places<Tile> &places, const Left &left, const Right &right,
                         const tc_halo_walk<Tile> &walk) {
  if (threadIdx.x != 0)
    return;
  const auto bring_weights = [&] {
    tc_barrier_expect(places.weights_full(), Tile::weights_bytes);
    for (int slab = 0; slab < Tile::slabs; ++slab)
      for (int tap = 0; tap < Tile::kernel::all; ++tap)
        tc_bulk_copy(places.weights() + slab * Tile::slab_weights +
                         tap * Tile::columns * Tile::line,
                     right.map, slab * Tile::slab, tap, walk.first_column, places.weights_full());
  };
  tc_ring<Tile::stages> rings[2];
  bool first = true;
  for (int block = walk.first, group = 0; block < walk.count; block += walk.each, group ^= 1) {
    const tc_halo_place at = walk.place(block);
    const int begin[3] = {at.w - left.padding[0], at.h - left.padding[1], at.d - left.padding[2]};
    TC_UNROLL
    for (int own = 0; own < 2; ++own) // rings are registers
      if (own == group)
        for (int slab = 0; slab < Tile::slabs; ++slab, rings[own].next()) {
          const int stage = rings[own].stage;
          tc_barrier_wait(places.free(own, stage), rings[own].parity ^ 1);
          tc_barrier_expect(places.full(own, stage), Tile::box::all * Tile::line);
          tc_bulk_copy_box(places.stage(own, stage), left.map, slab * Tile::slab, begin, at.sample,
                           places.full(own, stage));
          if (first) // a stage may wait until they are there
            bring_weights();
          first = false;
        }
  }
}

/// Where results of a warp's 16 rows of each piece are: -1 where there are none.
template <class Tile> struct tc_halo_rows {
  tc_halo_place at;
  int positions[3], first; // of the piece: the warp's
  TC_MEMBER int of(int piece, int row) const {
    const int inside = first + row, part = piece % Tile::plane_pieces,
              d = piece / Tile::plane_pieces;
    int w, h;
    if constexpr (Tile::square) {
      constexpr int across = Tile::positions::w / 8;
      w = part % across * 8 + inside % 8;
      h = part / across * 8 + inside / 8;
    } else {
      const int line = part * 64 + inside;
      w = line % Tile::box::w;
      h = line / Tile::box::w;
    }
    const bool is_there = w < Tile::positions::w && h < Tile::positions::h &&
                          at.w + w < positions[0] && at.h + h < positions[1] &&
                          at.d + d < positions[2];
    return is_there
               ? ((at.sample * positions[2] + at.d + d) * positions[1] + at.h + h) * positions[0] +
                     at.w + w
               : -1;
  }
  TC_MEMBER bool has(int row) const { return row >= 0; }
};

/// The first line of a piece, of those that a copy brings.
template <class Tile> TC_MEMBER constexpr int tc_halo_piece_line(int piece) {
  const int part = piece % Tile::plane_pieces,
            above = piece / Tile::plane_pieces * (Tile::box::w * Tile::box::h);
  return above + (Tile::square ? part / (Tile::positions::w / 8) * 8 * Tile::box::w +
                                     part % (Tile::positions::w / 8) * 8
                               : part * 64);
}
/// The taps of one slab, `Steps` times 16 terms each, added to the sums of all pieces once its
/// stage is full. Those of a row are still being added when it returns. `before`: the barrier of
/// the stage that is still being multiplied, or 0.
template <class Tile, class T, int Steps, int M, int N>
TC_FN void tc_halo_start(float (&sums)[M][N], const tc_halo_places<Tile> &places, int group,
                         tc_ring<Tile::stages> &ring, int slab, unsigned &before) {
  constexpr int line = Tile::line, plane = Tile::box::w * Tile::box::h, width = Tile::kernel::w,
                together = width <= 8 ? width : 1; // taps
  tc_barrier_wait(places.full(group, ring.stage), ring.parity);
  unsigned long long right =
      tc_wgmma_descriptor_lines<line>(places.weights() + slab * Tile::slab_weights, 8 * line);
  const unsigned long long left = tc_wgmma_descriptor_lines<line>(
      places.stage(group, ring.stage), (Tile::square ? Tile::box::w : 8) * line);
#pragma unroll 1
  for (int d = 0; d < Tile::kernel::d; ++d)
#pragma unroll 1
    for (int h = 0; h < Tile::kernel::h; ++h)
#pragma unroll 1
      for (int row = 0; row < width; row += together) {
        const unsigned long long first =
            tc_wgmma_further(left, static_cast<unsigned>((d * Tile::dilation::d * plane +
                                                          h * Tile::dilation::h * Tile::box::w +
                                                          row * Tile::dilation::w) *
                                                         line));
        tc_wgmma_start();
        TC_UNROLL
        for (int w = 0; w < together; ++w)
          TC_UNROLL
        for (int k = 0; k < Steps; ++k)
          TC_UNROLL
        for (int m = 0; m < M; ++m)
          tc_multiply_group<0, 0>(
              T{}, sums[m],
              tc_wgmma_further(first, (tc_halo_piece_line<Tile>(m) + w * Tile::dilation::w) * line +
                                          k * 32),
              tc_wgmma_further(right, w * Tile::columns * line + k * 32), 1);
        tc_wgmma_end_group();
        right = tc_wgmma_further(right, together * Tile::columns * line);
        tc_wgmma_wait<1>();
        if (before != 0)
          tc_product_free_alone(before);
        before = 0;
      }
  before = places.free(group, ring.stage);
  ring.next();
}

template <class Tile, class T, class Left, class Finish>
TC_FN void tc_halo_multiply(const tc_halo_places<Tile> &places, const Left &left,
                            const Finish &finish, const tc_halo_walk<Tile> &walk, int columns) {
  const int warp = tc_of_warp((static_cast<int>(threadIdx.x) - tc_product_bringing) / 32),
            group = warp / 4;
  TC_DYN_SMEM(unsigned char, dynamic);
  float *staged =
      reinterpret_cast<float *>(dynamic + (places.staged(Finish::along_rows ? group * 4 : warp) -
                                           tc_shared_address(dynamic)));
  tc_ring<Tile::stages> ring;
  bool first = true;
  for (int block = walk.first + group * walk.each; block < walk.count; block += 2 * walk.each) {
    const tc_halo_rows<Tile> rows{walk.place(block),
                                  {left.positions[0], left.positions[1], left.positions[2]},
                                  tc_product_first_row<Finish>(warp)};
    constexpr int piece = tc_product_piece_of(Tile::columns);
    tc_product_fetched<Finish, piece> fetched;
    // Long before it is needed: it waits behind what the last block stores.
    fetched.template fetch<false>(finish, rows, 0, walk.first_column, columns);
    if (first)
      tc_barrier_wait(places.weights_full(), 0);
    first = false;
    float sums[Tile::pieces][Tile::columns / 2];
    unsigned before = 0; // barrier of the stage that is still being multiplied
    tc_clear_sums(sums);
    for (int slab = 0; slab < Tile::slabs - 1; ++slab)
      tc_halo_start<Tile, T, Tile::steps>(sums, places, group, ring, slab, before);
    tc_halo_start<Tile, T, Tile::last_steps>(sums, places, group, ring, Tile::slabs - 1, before);
    tc_wgmma_wait<0>();
    tc_product_free_alone(before);
    TC_UNROLL
    for (int m = 0; m < Tile::pieces; ++m)
      tc_wgmma_hold(sums[m]);
    tc_product_give<piece>(sums, staged, finish, fetched, rows, walk.first_column, columns, false);
  }
}

template <class Tile, class T, class Left, class Right, class Finish>
TC_FN void tc_product_by_halo(const Left &left, const Right &right, const Finish &finish, int,
                              int columns, int) {
  TC_DYN_SMEM(unsigned char, dynamic);
  const tc_halo_places<Tile> places{(tc_shared_address(dynamic) + 1023u) & ~1023u};
  if (threadIdx.x == 0) {
    tc_bulk_prepare(left.map);
    tc_bulk_prepare(right.map);
    tc_barrier_init(places.weights_full(), 1);
    for (int group = 0; group < 2; ++group)
      for (int stage = 0; stage < Tile::stages; ++stage) {
        tc_barrier_init(places.full(group, stage), 1);
        tc_barrier_init(places.free(group, stage), 4); // a group's warps
      }
    tc_barrier_fence_init();
  }
  __syncthreads();
  const tc_halo_walk<Tile> walk(left, columns);
  if (threadIdx.x < tc_product_bringing) {
    tc_registers_give<40>();
    tc_halo_bring<Tile>(places, left, right, walk);
  } else {
    tc_registers_take<232>();
    tc_halo_multiply<Tile, T>(places, left, finish, walk, columns);
  }
}

#endif
