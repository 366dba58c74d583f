// A matrix product of 16-bit or 8-bit floats, or of TF32, where wgmma is (sm_90a): a group of four
// warps brings operands into a ring of stages, by bulk copies (one thread does) where they lie in
// memory as matrices; two groups multiply 64 rows each (or twice 64) with all columns. A block
// stays and computes one tile after another: the next one's operands come while results are
// finished. Where tiles are few and terms many, the blocks of a cluster share the terms of one tile
// each, and put their sums together by way of each other's shared memory. Where finishing takes
// long beside multiplying, the two groups take tiles in turns: one multiplies while the other
// finishes. Blocks may come in pairs, whose rows lie below each other: each brings half of the
// columns for both.
//
// Operands, and the function that results go to, are those of tc_product.h.
#pragma once

#include "tc_product_results.h"
#include "tc_product_together.h"

#ifndef __CUDA_ARCH_FEAT_SM90_ALL

/// The same without wgmma: on the host, and where a program meets another device than it was
/// planned for.
template <class Tile, class T, class Left, class Right, class Finish, class Rows>
TC_FN void tc_product_of_rows(const Left &left, const Right &right, const Finish &finish,
                              const Rows &rows, int columns, int terms) {
#ifdef TC_DEVICE
  if (threadIdx.x >= tc_product_threads)
    return;
#endif
  using alone = tc_product_alone<Tile>;
  const int tiles = rows.template tiles<alone>(columns);
  for (int tile = static_cast<int>(blockIdx.x); tile < tiles; tile += static_cast<int>(gridDim.x)) {
    tc_product_of_tile<alone, T>(rows.template place<alone>(tile, columns), left, right, finish,
                                 columns, terms);
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
    return stage(Tile::stages) +
           static_cast<unsigned>(warp) * tc_product_staged_bytes_of(tc_product_piece);
  }
  TC_MEMBER unsigned barrier(int i) const {
    return staged(tc_product_multiplying / 32) + static_cast<unsigned>(i) * 8;
  }
  /// Of the sections that rows are in.
  TC_MEMBER unsigned table() const { return barrier(0) + tc_product_barriers; }
  TC_MEMBER unsigned full(int stage) const { return barrier(stage); }
  TC_MEMBER unsigned free(int stage) const { return barrier(Tile::stages + stage); }
};

/// What blocks ask for the rows of tiles. Of sections a table in shared memory: of each, and of
/// what is behind the last one, how many tiles and rows come before it; then how many there are.
struct tc_product_table {
  static constexpr bool one_operand = false; // on the right
  const int2 *sections;                      // x: tiles; y: rows
  int count;                                 // of sections
  TC_MEMBER int matrices() const { return count + 1; }
  template <class Tile> TC_MEMBER int columns_of(int, int columns) const { return columns; }
  template <class Tile, int Rows = Tile::rows> TC_MEMBER int tiles(int) const {
    return sections[count + 1].x;
  }
  template <class Tile, int Rows = Tile::rows>
  TC_MEMBER tc_product_tile_place place(int tile, int columns) const {
    int section = 0, end = count + 1; // the last one that begins at `tile` or before is not empty
    while (end - section > 1) {
      const int middle = (section + end) / 2;
      (sections[middle].x <= tile ? section : end) = middle;
    }
    const int2 own = sections[section];
    return tc_product_section_place<Tile, Rows>(tile - own.x, section, own.y,
                                                sections[section + 1].y, columns, section == count);
  }
};
/// Before the first barrier of the block, by all of its threads.
template <class Tile>
TC_FN tc_product_batches tc_product_table_of(const tc_product_batches &batches, void *, int) {
  return batches;
}
template <class Tile>
TC_FN tc_product_table tc_product_table_of(const tc_product_sections &sections, void *memory,
                                           int columns) {
  static_assert(!Tile::pair && !Tile::turns && Tile::splits == 1,
                "how many tiles there are is known in the kernel alone");
  int2 *table = static_cast<int2 *>(memory);
  const int lane = static_cast<int>(threadIdx.x),
            across = (columns + Tile::columns - 1) / Tile::columns;
  int start = 0, tiles = 0; // of the sections before
  for (int first = 0; lane < 32 && first <= sections.count; first += 32) {
    const int section = first + lane;
    int end = section < sections.count ? sections.ends[section] : sections.rows;
    end = end < start ? start : end < sections.rows ? end : sections.rows;
    TC_UNROLL
    for (int step = 1; step < 32; step *= 2) { // no section ends before another one does
      const int before = __shfl_up_sync(0xffffffffu, end, step);
      end = lane >= step && before > end ? before : end;
    }
    const int above = __shfl_up_sync(0xffffffffu, end, 1), own_start = lane > 0 ? above : start;
    int own = (end - own_start + Tile::rows - 1) / Tile::rows * across, total = own;
    TC_UNROLL
    for (int step = 1; step < 32; step *= 2) {
      const int before = __shfl_up_sync(0xffffffffu, total, step);
      total += lane >= step ? before : 0;
    }
    if (section <= sections.count) {
      table[section] = make_int2(tiles + total - own, own_start);
      if (section == sections.count)
        table[section + 1] = make_int2(tiles + total, sections.rows);
    }
    start = __shfl_sync(0xffffffffu, end, 31);
    tiles += __shfl_sync(0xffffffffu, total, 31);
  }
  return {table, sections.count};
}

/// The tiles of a block, in the order that all blocks follow together; or every `each`-th of them
/// from `first` on. A pair's tiles lie below each other and count as one here.
template <class Tile, class Rows> struct tc_product_walk {
  const Rows &rows;
  int columns, tiles, blocks, each, tile;
  TC_MEMBER tc_product_walk(const Rows &rows, int columns, int first = 0, int each = 1)
      : rows(rows), columns(columns), tiles(rows.template tiles<Tile, Tile::unit_rows>(columns)),
        blocks(static_cast<int>(gridDim.x) / Tile::unit_blocks), each(each),
        tile(static_cast<int>(blockIdx.x) / Tile::unit_blocks + first * blocks) {}
  /// Whether the block has a tile behind the last one that next() gave.
  TC_MEMBER bool more() const { return tile - (each - 1) * blocks < tiles; }
  TC_MEMBER bool next(tc_product_tile_place &place) {
    if (tile >= tiles)
      return false;
    place = rows.template place<Tile, Tile::unit_rows>(tile, columns);
    if (Tile::pair)
      place.first_row += static_cast<int>(tc_cluster_rank()) * Tile::rows;
    tile += each * blocks;
    return true;
  }
};
/// The steps of a tile that are this block's.
template <class Tile> struct tc_product_share {
  int begin, end;
  TC_MEMBER explicit tc_product_share(int steps) {
    const int rank = Tile::splits > 1 ? static_cast<int>(tc_cluster_rank()) : 0;
    begin = steps * rank / Tile::splits;
    end = steps * (rank + 1) / Tile::splits;
  }
};

/// What makes a stage full. Runs that threads copy: an arrival of each thread once they are there;
/// runs that are computed or rounded, and stored: one of each thread; what bulk copies bring (and
/// round): one arrival and its bytes.
template <class Operand> constexpr bool tc_by_threads = !tc_is_mapped<Operand>;
template <class T, class Left, class Right> struct tc_product_arrivals {
  static constexpr bool rounds = tc_product_kind<T>::rounds;
  static constexpr bool copies =
      !rounds && ((tc_by_threads<Left> && Left::copied) || (tc_by_threads<Right> && Right::copied));
  static constexpr bool stores =
      !Left::copied || (rounds && (tc_by_threads<Left> || tc_by_threads<Right>));
  static constexpr bool bulk = tc_is_mapped<Left> || tc_is_mapped<Right>;
  static constexpr bool threads = copies || stores;
  static constexpr int count =
      ((copies ? 1 : 0) + (stores ? 1 : 0)) * tc_product_bringing + (bulk ? 1 : 0);
  /// Of those who bring, and of those who multiply.
  static constexpr int giving = threads ? 120 : 40, taking = threads ? 192 : 232;
};

/// One step of an operand, by one thread.
template <class T, int Extent, class Operand>
TC_FN void tc_operand_bulk(const Operand &operand, unsigned to, int batch, int row, int term,
                           unsigned barrier) {
  if constexpr (tc_is_windows<Operand>) {
    constexpr int rank = Operand::rank;
    int at[rank], position = row;
    TC_UNROLL
    for (int k = 0; k < rank; ++k) {
      at[k] = position % operand.positions[k] * operand.stride[k] - operand.padding[k];
      position /= operand.positions[k];
    }
    constexpr int unit = tc_product_kind<T>::terms / Operand::parts; // terms of a part
    TC_UNROLL
    for (int part = 0; part < Operand::parts; ++part) {
      int tap[rank], taps = (term + part * unit) / operand.channels;
      TC_UNROLL
      for (int k = 0; k < rank; ++k) {
        tap[k] = taps % operand.kernel[k] * operand.dilation[k];
        taps /= operand.kernel[k];
      }
      int channel = (term + part * unit) % operand.channels;
      if (Operand::parts > 1 && taps > 0) // behind the last tap: zeros, as behind the last channel
        channel = operand.channels;
      if constexpr (tc_is_batched<Operand>)
        channel += batch * static_cast<int>(operand.batch_stride);
      tc_bulk_copy_tap<rank>(to + part * (Extent * tc_product_line / Operand::parts), operand.map,
                             channel, at, position, tap, barrier);
    }
  } else if constexpr (Operand::deep) {
    if constexpr (tc_is_batched<Operand>)
      tc_bulk_copy(to, operand.map, term, row, batch, barrier);
    else
      tc_bulk_copy(to, operand.map, term, row, barrier);
  } else {
    TC_UNROLL
    for (int i = 0; i < Extent / 64; ++i)
      if constexpr (tc_is_batched<Operand>)
        tc_bulk_copy(to + i * tc_product_block, operand.map, row + i * 64, term, batch, barrier);
      else
        tc_bulk_copy(to + i * tc_product_block, operand.map, row + i * 64, term, barrier);
  }
}
/// This block's half of what it and the other one of its pair read, to both.
template <int Extent, class Operand>
TC_FN void tc_operand_bulk_pair(const Operand &operand, unsigned to, int batch, int row, int term,
                                unsigned barrier) {
  constexpr unsigned short both = 3;
  const int rank = static_cast<int>(tc_cluster_rank());
  if constexpr (Operand::deep) {
    constexpr int half = Extent / 2;
    to += rank * half * tc_product_line;
    if constexpr (tc_is_batched<Operand>)
      tc_bulk_copy_to(both, to, operand.map, term, row + rank * half, batch, barrier);
    else
      tc_bulk_copy_to(both, to, operand.map, term, row + rank * half, barrier);
  } else {
    for (int i = rank; i < Extent / 64; i += 2)
      if constexpr (tc_is_batched<Operand>)
        tc_bulk_copy_to(both, to + i * tc_product_block, operand.map, row + i * 64, term, batch,
                        barrier);
      else
        tc_bulk_copy_to(both, to + i * tc_product_block, operand.map, row + i * 64, term, barrier);
  }
}
/// Brings the steps of an operand that threads bring; of others nothing.
template <class T, int Extent, class Operand, bool ByThreads = tc_by_threads<Operand>>
struct tc_group_mover : tc_operand_mover<T, Extent, Operand, tc_product_bringing> {};
template <int Extent, class Operand>
struct tc_group_mover<tc_tf32, Extent, Operand, true>
    : tc_line_mover<Extent, Operand, 4, true, tc_product_bringing> {
  static_assert(Operand::deep && Operand::copied, "TF32 lies along the terms");
};
template <class T, int Extent, class Operand> struct tc_group_mover<T, Extent, Operand, false> {
  TC_MEMBER void start(const Operand &, int) {}
  TC_MEMBER void move(const Operand &, unsigned, int) const {}
};

/// Terms of each product that a step has, and bytes of columns that bulk copies bring for it: of
/// several products the terms that share a line.
template <class Tile, class T> TC_MEMBER constexpr int tc_product_step_terms() {
  return tc_product_kind<T>::terms / Tile::products;
}
template <class Tile> TC_MEMBER constexpr int tc_product_right_bytes() {
  return Tile::products > 1 ? Tile::each * tc_product_line : Tile::stage_bytes - Tile::left_bytes;
}

/// Whether the right operand may stay in shared memory from one tile to the next: bulk copies bring
/// it, and all of it is this block's.
template <class Tile, class Right, class Rows> TC_MEMBER constexpr bool tc_product_may_stay() {
  return tc_is_mapped<Right> && Rows::one_operand && !Tile::pair && Tile::splits == 1 &&
         Tile::products == 1;
}
template <class Tile, class T, class Left, class Right, class Rows>
TC_FN void tc_product_bring(const tc_product_places<Tile> &places, const Left &all_left,
                            const Right &all_right, const Rows &rows, int columns, int steps) {
  using arrivals = tc_product_arrivals<T, Left, Right>;
  if (!arrivals::threads && threadIdx.x != 0)
    return;
  tc_product_walk<Tile, Rows> walk(rows, columns);
  const tc_product_share<Tile> share(steps);
  tc_ring<Tile::stages> ring;
  tc_product_tile_place place;
  // Where all tiles have the same columns, and a stage the same step of each, the right operand
  // stays where the first tiles have put it.
  const bool stays = tc_product_may_stay<Tile, Right, Rows>() && columns <= Tile::columns &&
                     rows.matrices() == 1 && steps > 0 && Tile::stages % steps == 0;
  int filled = 0; // stages
  while (walk.next(place)) {
    if (place.is_empty)
      continue;
    const int matrix = place.matrix, first_row = place.first_row, first_column = place.first_column;
    const Left left = tc_operand_of(all_left, matrix);
    const Right right = tc_operand_of(all_right, matrix);
    tc_group_mover<T, Tile::rows, Left> left_mover;
    tc_group_mover<T, Tile::columns, Right> right_mover;
    left_mover.start(left, first_row);
    right_mover.start(right, first_column);
    for (int step = share.begin; step < share.end; ++step) {
      const unsigned stage = places.stage(ring.stage), full = places.full(ring.stage);
      const int term = step * tc_product_step_terms<Tile, T>();
      tc_barrier_wait(places.free(ring.stage), ring.parity ^ 1);
      if (arrivals::bulk && threadIdx.x == 0) {
        const bool is_there = stays && filled >= Tile::stages;
        ++filled;
        tc_barrier_expect(
            full, (tc_is_mapped<Left> ? Tile::left_bytes : 0) +
                      (tc_is_mapped<Right> && !is_there ? tc_product_right_bytes<Tile>() : 0));
        if constexpr (Tile::pair) {
          tc_operand_bulk_pair<Tile::columns>(right, stage + Tile::left_bytes, matrix, first_column,
                                              term, full);
        } else if constexpr (tc_is_mapped<Right>) {
          if (!is_there)
            tc_operand_bulk<T, Tile::columns>(right, stage + Tile::left_bytes, matrix, first_column,
                                              term, full);
        }
        if constexpr (tc_is_mapped<Left>)
          tc_operand_bulk<T, Tile::rows>(left, stage, matrix, first_row, term, full);
      }
      right_mover.move(right, stage + Tile::left_bytes, term);
      left_mover.move(left, stage, term);
      if (arrivals::copies)
        tc_barrier_arrive_after_copies(full);
      if (arrivals::stores)
        tc_barrier_arrive(full);
      ring.next();
    }
  }
  // Sums of other blocks come to where stages were: said once more by those who copied (who
  // multiplies has waited for it).
  if constexpr (Tile::splits > 1 && arrivals::copies)
    tc_async_wait_all();
}

/// Sums of the cluster's blocks together, in the order of blocks: those of the first group's rows
/// to block 0, of the second's to block 1, by way of `memory`, which operands have left. False for
/// who gave its sums away. A cluster has one tile.
template <class Tile, int N>
TC_FN bool tc_product_join(float (&sums)[Tile::row_tiles][N], unsigned memory, int group) {
  static_assert(tc_product_joined_bytes(Tile::rows, Tile::columns, Tile::splits) <=
                    Tile::stages * Tile::stage_bytes,
                "sums lie where stages were");
  const unsigned rank = tc_cluster_rank(), owner = static_cast<unsigned>(group);
  const unsigned thread = threadIdx.x % 128;
  constexpr unsigned row_bytes = 128 * 16; // four sums of each thread
  constexpr unsigned all_bytes = Tile::row_tiles * N / 4 * row_bytes;
  tc_cluster_arrive(); // nobody multiplies any more
  tc_cluster_wait();
  if (rank != owner) {
    unsigned to = tc_cluster_address(
        memory + (rank - (rank > owner ? 1u : 0u)) * all_bytes + thread * 16, owner);
    TC_UNROLL
    for (int m = 0; m < Tile::row_tiles; ++m)
      TC_UNROLL
    for (int i = 0; i < N; i += 4, to += row_bytes)
      tc_cluster_store(to, sums[m][i], sums[m][i + 1], sums[m][i + 2], sums[m][i + 3]);
  }
  tc_cluster_arrive();
  tc_cluster_wait();
  if (rank != owner)
    return false;
  for (int other = 0; other < Tile::splits - 1; ++other)
    TC_UNROLL
  for (int m = 0; m < Tile::row_tiles; ++m)
    TC_UNROLL
  for (int i = 0; i < N; i += 4) {
    float more[4];
    tc_shared_load(more, memory + static_cast<unsigned>(other) * all_bytes +
                             static_cast<unsigned>(m * N + i) / 4 * row_bytes + thread * 16);
    TC_UNROLL
    for (int j = 0; j < 4; ++j)
      sums[m][i + j] += more[j];
  }
  return true;
}

/// A warp no longer needs a stage: it may be filled by whoever fills it; of a pair by both blocks.
TC_FN void tc_product_free_alone(unsigned barrier) {
  if (threadIdx.x % 32 == 0)
    tc_barrier_arrive(barrier);
}
template <class Tile> TC_FN void tc_product_free(unsigned barrier) {
  const unsigned lane = threadIdx.x % 32;
  if constexpr (!Tile::pair)
    tc_product_free_alone(barrier);
  else if (lane < 2)
    tc_cluster_barrier_arrive(barrier, lane);
}

/// The left operand's lines from `address` on.
template <int Parts> TC_FN unsigned long long tc_product_left(unsigned address) {
  if constexpr (Parts == 1)
    return tc_wgmma_descriptor(address, tc_product_block);
  else
    return tc_wgmma_descriptor_of<tc_product_line / Parts>(address);
}
/// One step: this group's rows times all columns. Returns before it is done. `Parts` of the left
/// operand's lines stand behind each other, each for `Rows` rows.
template <class T, bool DeepLeft, bool DeepRight, int Parts, int Rows, int M, int N>
TC_FN void tc_product_start_step(float (&sums)[M][N], unsigned long long left,
                                 unsigned long long right, bool first) {
  static_assert(Parts == 1 || DeepLeft, "channels lie along a line");
  constexpr int line = tc_product_line / Parts;
  const auto place = [](int byte) {
    return static_cast<unsigned>(byte / line * Rows * line + byte % line);
  };
  tc_wgmma_start();
  TC_UNROLL
  for (int k = 0; k < tc_product_line / 32; ++k)
    TC_UNROLL
  for (int m = 0; m < M; ++m)
    tc_multiply_group<DeepLeft ? 0 : 1, DeepRight ? 0 : 1>(
        T{}, sums[m],
        tc_wgmma_further(left,
                         m * (tc_product_block / Parts) + (DeepLeft ? place(k * 32) : k * 2048u)),
        tc_wgmma_further(right, k * (DeepRight ? 32u : 2048u)), first && k == 0 ? 0 : 1);
  tc_wgmma_end_group();
}
/// Factors whose sums matrix units keep in fewer bits than f32 has: the sums of each step apart, at
/// most 128 columns at once, which threads then add. `next` waits for the next step's stage and
/// gives its number.
template <class Tile, class T, int M, int N, class Next>
TC_FN void tc_product_add_steps(const tc_product_places<Tile> &places, float (&sums)[M][N], int own,
                                int steps, const Next &next) {
  constexpr int halves = N > 64 ? 2 : 1, count = N / halves;
  constexpr bool twice = M == 1 && halves == 1; // registers for two steps' sums
  const auto start = [&](float(&parts)[count], int stage, int m, int half) {
    const unsigned at = places.stage(stage);
    const unsigned long long left =
        tc_wgmma_descriptor(at + (own + m) * tc_product_block, tc_product_block);
    const unsigned long long right = tc_wgmma_descriptor(
        at + Tile::left_bytes + half * count * 2 * tc_product_line, tc_product_block);
    tc_wgmma_start();
    TC_UNROLL
    for (int k = 0; k < tc_product_line / 32; ++k)
      tc_multiply_group<0, 0>(T{}, parts, tc_wgmma_further(left, k * 32u),
                              tc_wgmma_further(right, k * 32u), k);
    tc_wgmma_end_group();
  };
  const auto add = [&](float(&parts)[count], int m, int half) {
    TC_UNROLL
    for (int i = 0; i < count; ++i)
      sums[m][half * count + i] += parts[i];
  };
  if constexpr (twice) {
    float even[count], odd[count];
    const auto finish = [&](float(&parts)[count], int stage) {
      tc_wgmma_hold(parts);
      tc_product_free<Tile>(places.free(stage));
      add(parts, 0, 0);
    };
    int step = 0;
    for (; step + 1 < steps; step += 2) { // nothing may be under way from one turn to the next
      const int first = next();
      start(even, first, 0, 0);
      const int second = next();
      start(odd, second, 0, 0);
      tc_wgmma_wait<1>();
      finish(even, first);
      tc_wgmma_wait<0>();
      finish(odd, second);
    }
    if (step < steps) {
      const int last = next();
      start(even, last, 0, 0);
      tc_wgmma_wait<0>();
      finish(even, last);
    }
  } else {
    float parts[count];
    for (int step = 0; step < steps; ++step) {
      const int stage = next();
      TC_UNROLL
      for (int i = 0; i < M * halves; ++i) { // while the other group multiplies
        start(parts, stage, i / halves, i % halves);
        tc_wgmma_wait<0>();
        tc_wgmma_hold(parts);
        if (i == M * halves - 1)
          tc_product_free<Tile>(places.free(stage));
        add(parts, i / halves, i % halves);
      }
    }
  }
}

template <class Tile, class T, class Left, class Right, class Finish, class Rows>
TC_FN void tc_product_multiply(const tc_product_places<Tile> &places, const Finish &given,
                               const Rows &rows, int each_columns, int steps) {
  const int warp = tc_of_warp((static_cast<int>(threadIdx.x) - tc_product_bringing) / 32),
            group = warp / 4;
  // The tiles of 64 rows that a group multiplies, and the first of them in the block's tile.
  constexpr bool turns = Tile::turns;
  constexpr int row_tiles = turns ? Tile::rows / tc_product_group_rows : Tile::row_tiles;
  const int own = turns ? 0 : group * row_tiles;
  TC_DYN_SMEM(unsigned char, dynamic);
  float *staged =
      reinterpret_cast<float *>(dynamic + (places.staged(Finish::along_rows ? group * 4 : warp) -
                                           tc_shared_address(dynamic)));
  tc_product_walk<Tile, Rows> walk(rows, each_columns, turns ? group : 0, turns ? 2 : 1);
  const tc_product_share<Tile> all(steps);
  tc_ring<Tile::stages> ring;
  if (turns && group == 1) { // the first turn is the other group's
    ring.skip(steps);
    tc_group_arrive(tc_product_turn, tc_product_multiplying);
  }
  tc_product_tile_place place;
  while (walk.next(place)) {
    const int first_row = place.first_row, first_column = place.first_column;
    const int above = place.above, end = above + place.end_row; // of all results
    const int columns = rows.template columns_of<Tile>(place.matrix, each_columns);
    const auto finish = tc_product_finish<Tile>(given, place.end_row);
    using finishing = decltype(tc_product_finish<Tile>(given, 0));
    const int first_step = all.begin, last_step = place.is_empty ? first_step : all.end;
    if constexpr (turns) // stages are filled in the order of tiles, and parity knows two rounds
      tc_group_sync(tc_product_turn + group, tc_product_multiplying);
    const tc_product_rows_below own_rows{
        above + first_row + own * tc_product_group_rows + tc_product_first_row<Finish>(warp), end};
    constexpr int piece = tc_product_piece_of(Tile::columns);
    tc_product_fetched<finishing, piece> fetched;
    // Long before it is needed: it waits behind what the last tile stores.
    fetched.template fetch<false>(finish, own_rows, 0, first_column, columns);
    constexpr bool apart = tc_product_kind<T>::apart;
    constexpr int parts = tc_line_parts<Left>; // of the left operand's lines
    static_assert(parts == 1 || (!apart && Tile::products == 1), "one product of whole sums");
    float sums[row_tiles][Tile::columns / 2];
    const auto next_stage = [&] {
      const int stage = ring.stage;
      tc_barrier_wait(places.full(stage), ring.parity);
      if (tc_product_arrivals<T, Left, Right>::threads)
        tc_wgmma_see_shared();
      ring.next();
      return stage;
    };
    unsigned before = 0; // barrier of the stage that is still being multiplied
    if constexpr (apart) {
      tc_clear_sums(sums);
      tc_product_add_steps<Tile, T>(places, sums, own, last_step - first_step, next_stage);
    } else {
      constexpr bool eights = Tile::products == 8;
      if constexpr (eights || (Tile::products * Tile::each < Tile::columns && Tile::products > 1))
        tc_clear_sums(sums); // what no product adds to, too
      for (int step = first_step; step < last_step; ++step) {
        const int stage = next_stage();
        const unsigned at = places.stage(stage);
        if constexpr (eights) {
          tc_product_add_eights<Tile, T>(sums, at + own * tc_product_block, at + Tile::left_bytes);
          __syncwarp();
          tc_product_free<Tile>(places.free(stage));
        } else {
          if constexpr (Tile::products > 1)
            tc_product_start_products<Tile, T>(sums, at + own * tc_product_block,
                                               at + Tile::left_bytes, step == first_step);
          else
            tc_product_start_step<T, Left::deep, Right::deep, parts, Tile::rows>(
                sums, tc_product_left<parts>(at + own * (tc_product_block / parts)),
                tc_wgmma_descriptor(at + Tile::left_bytes, tc_product_block), step == first_step);
          if (step > first_step) {
            tc_wgmma_wait<1>();
            tc_product_free<Tile>(before);
          }
          before = places.free(stage);
        }
      }
    }
    if constexpr (turns) {
      ring.skip(steps);
      if (walk.more())
        tc_group_arrive(tc_product_turn + (group ^ 1), tc_product_multiplying);
    }
    tc_wgmma_wait<0>();
    if (!apart && Tile::products != 8 && last_step > first_step)
      tc_product_free<Tile>(before);
    if (all.end == all.begin)
      tc_clear_sums(sums);
    if constexpr (Tile::splits > 1) {
      TC_UNROLL
      for (int m = 0; m < row_tiles; ++m)
        tc_wgmma_hold(sums[m]);
      if (!tc_product_join<Tile>(sums, places.stage(0), group))
        return;
    }
    TC_UNROLL
    for (int m = 0; m < row_tiles; ++m)
      tc_wgmma_hold(sums[m]);
    tc_product_give<piece>(sums, staged, finish, fetched, own_rows, first_column, columns,
                           place.is_empty);
  }
}

template <class Tile, class T, class Left, class Right, class Finish, class Rows>
TC_FN void tc_product_of_rows(const Left &left, const Right &right, const Finish &finish,
                              const Rows &all_rows, int columns, int terms) {
  TC_DYN_SMEM(unsigned char, dynamic);
  const tc_product_places<Tile> places{(tc_shared_address(dynamic) + 1023u) & ~1023u};
  using arrivals = tc_product_arrivals<T, Left, Right>;
  if (threadIdx.x == 0) {
    if constexpr (tc_is_mapped<Left>)
      tc_bulk_prepare(left.map);
    if constexpr (tc_is_mapped<Right>)
      tc_bulk_prepare(right.map);
    for (int stage = 0; stage < Tile::stages; ++stage) {
      tc_barrier_init(places.full(stage), arrivals::count);
      tc_barrier_init(places.free(stage),
                      tc_product_multiplying / 32 * (Tile::pair ? 2 : 1) / (Tile::turns ? 2 : 1));
    }
    tc_barrier_fence_init();
  }
  const auto rows = tc_product_table_of<Tile>(
      all_rows, dynamic + (places.table() - tc_shared_address(dynamic)), columns);
  if constexpr (Tile::pair) {
    static_assert(tc_is_mapped<Right>, "bulk copies reach two blocks");
    tc_cluster_arrive();
    tc_cluster_wait();
  } else {
    __syncthreads();
  }
  static_assert(Tile::products == 1 || (tc_is_windows<Left> && tc_is_mapped<Right> && Right::deep),
                "bulk copies bring the lines of several products");
  constexpr int step_terms = tc_product_step_terms<Tile, T>();
  const int steps = (terms + step_terms - 1) / step_terms;
  if (threadIdx.x < tc_product_bringing) {
    tc_registers_give<arrivals::giving>();
    tc_product_bring<Tile, T>(places, left, right, rows, columns, steps);
  } else {
    tc_registers_take<arrivals::taking>();
    tc_product_multiply<Tile, T, Left, Right>(places, finish, rows, columns, steps);
    if constexpr (Tile::pair) { // the other block's copies and arrivals still come here
      tc_cluster_arrive();
      tc_cluster_wait();
    }
  }
}

#endif

/// A batch of products.
template <class Tile, class T, class Left, class Right, class Finish>
TC_FN void tc_product_by_groups(const Left &left, const Right &right, const Finish &finish,
                                int rows, int columns, int terms, int batches = 1) {
  tc_product_of_rows<Tile, T>(left, right, finish, tc_product_batches{rows, batches}, columns,
                              terms);
}
/// Rows in sections, a matrix for each.
template <class Tile, class T, class Left, class Right, class Finish>
TC_FN void tc_product_in_sections(const Left &left, const Right &right, const Finish &finish,
                                  const int *ends, int sections, int rows, int columns, int terms) {
  tc_product_of_rows<Tile, T>(left, right, finish, tc_product_sections{ends, sections, rows},
                              columns, terms);
}
