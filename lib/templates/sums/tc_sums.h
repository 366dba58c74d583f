// Sums of rows of a table by where they go: result row r is the sum of the source rows
// order[starts[r]] .. order[starts[r + 1] - 1], added in this order, which no other thread changes.
// Positions in `order` are cut into pieces of tc_sum_piece. Many rows may go to one place: where
// that is all of a piece, tc_sum_pieces adds the piece up, and tc_sum_rows then adds pieces. A sum
// of n rows takes 2 * tc_sum_piece + n / tc_sum_piece steps at most, which the threads of a block
// that have the same columns share where they are many; their sums are added in the threads' order.
//
// Elements are added as A: float, of doubles double. V: neighbouring columns that are one access.
#pragma once

#include "tsc_prelude.h"

static constexpr long long tc_sum_piece = 128;

/// Accesses of a thread that are `bytes` together, 4 at least.
template <class T, int V> TC_FN constexpr int tc_sums_ahead(int bytes) {
  const int count = bytes / (static_cast<int>(sizeof(T)) * V);
  return count < 4 ? 4 : count > 16 ? 16 : count;
}

/// The table that is summed up; `row` and `column`: its strides, in elements. V > 1: `column` is 1.
template <class T> struct tc_sum_source {
  const T *elements;
  const long long *order;
  long long row, column, columns;

  /// Adds the rows at positions [from, to) of `order`, their columns from `c` on. `Ahead`: loads
  /// under way, at most; each waits for its place in `order`, so that a sum takes as long as it has
  /// steps.
  template <int V, int Ahead, class A>
  TC_MEMBER void add(A (&sum)[V], long long from, long long to, long long c) const {
    for (; from + Ahead <= to; from += Ahead)
      add_some<V, Ahead>(sum, from, c);
    if constexpr (Ahead > 4)
      for (; from + 4 <= to; from += 4)
        add_some<V, 4>(sum, from, c);
    for (; from < to; ++from)
      add_some<V, 1>(sum, from, c);
  }

private:
  template <int V, int Count, class A>
  TC_MEMBER void add_some(A (&sum)[V], long long from, long long c) const {
    tc_vec<T, V> rows[Count];
    TC_UNROLL
    for (int k = 0; k < Count; ++k)
      rows[k] = load<V>(order[from + k], c);
    TC_UNROLL
    for (int k = 0; k < Count; ++k)
      add_one<V>(sum, rows[k]);
  }
  template <int V> TC_MEMBER tc_vec<T, V> load(long long at, long long c) const {
    return tc_load_vec<V>(elements + at * row + c * column);
  }
  template <int V, class A> TC_MEMBER static void add_one(A (&sum)[V], const tc_vec<T, V> &x) {
    TC_UNROLL
    for (int j = 0; j < V; ++j)
      sum[j] += static_cast<A>(tc_get(x.at[j]));
  }
};

/// Accumulated pieces [from, to) of so many columns, those from `c` on; as tc_sum_source::add.
template <int V, int Ahead, class A>
TC_FN void tc_sum_of_pieces(A (&sum)[V], const A *pieces, long long columns, long long from,
                            long long to, long long c) {
  for (; from + Ahead <= to; from += Ahead) {
    A held[Ahead][V];
    TC_UNROLL
    for (int k = 0; k < Ahead; ++k)
      TC_UNROLL
    for (int j = 0; j < V; ++j)
      held[k][j] = pieces[(from + k) * columns + c + j];
    TC_UNROLL
    for (int k = 0; k < Ahead; ++k)
      TC_UNROLL
    for (int j = 0; j < V; ++j)
      sum[j] += held[k][j];
  }
  for (; from < to; ++from)
    for (int j = 0; j < V; ++j)
      sum[j] += pieces[from * columns + c + j];
}

/// Piece `piece`, columns [c, c + V), if all of it goes to one row; `keys`: [count], sorted, the
/// row that each position goes to.
template <int V, class T, class K, class A>
TC_FN void tc_sum_piece_of(const tc_sum_source<T> &source, const K *keys, A *pieces,
                           long long piece, long long c) {
  const long long from = piece * tc_sum_piece, to = from + tc_sum_piece;
  if (keys[from] != keys[to - 1])
    return;
  A sum[V] = {};
  source.template add<V, tc_sums_ahead<T, V>(64)>(sum, from, to, c);
  TC_UNROLL
  for (int j = 0; j < V; ++j)
    pieces[piece * source.columns + c + j] = sum[j];
}

/// What goes to a row: rows of the source, whole pieces, and rows again.
struct tc_sum_steps {
  long long from, head, first, pieces, tail;
  TC_MEMBER long long count() const { return head + pieces + tail; }
};
TC_FN tc_sum_steps tc_sum_steps_of(long long from, long long to) {
  const long long first = (from + tc_sum_piece - 1) / tc_sum_piece, last = to / tc_sum_piece;
  if (first >= last)
    return {from, to - from, 0, 0, 0};
  return {from, first * tc_sum_piece - from, first, last - first, to - last * tc_sum_piece};
}
/// Steps [begin, end) of them, columns [c, c + V).
template <int V, class T, class A>
TC_FN void tc_sum_some(A (&sum)[V], const tc_sum_source<T> &source, const A *pieces,
                       const tc_sum_steps &steps, long long begin, long long end, long long c) {
  constexpr int ahead = tc_sums_ahead<T, V>(32);
  const auto within = [&](long long at, long long most) {
    return at < 0 ? 0 : at < most ? at : most;
  };
  source.template add<V, ahead>(sum, steps.from + within(begin, steps.head),
                                steps.from + within(end, steps.head), c);
  if (steps.pieces == 0)
    return;
  begin -= steps.head;
  end -= steps.head;
  tc_sum_of_pieces<V, 4>(sum, pieces, source.columns, steps.first + within(begin, steps.pieces),
                         steps.first + within(end, steps.pieces), c);
  begin -= steps.pieces;
  end -= steps.pieces;
  const long long behind = (steps.first + steps.pieces) * tc_sum_piece;
  source.template add<V, ahead>(sum, behind + within(begin, steps.tail),
                                behind + within(end, steps.tail), c);
}
template <int V, class R, class A> TC_FN void tc_sum_store(const A (&sum)[V], R *out) {
  tc_value<R> y[V];
  TC_UNROLL
  for (int j = 0; j < V; ++j)
    y[j] = static_cast<tc_value<R>>(sum[j]);
  tc_store_vec<V>(out, y);
}
/// Result row `r`, columns [c, c + V).
template <int V, class T, class A, class R>
TC_FN void tc_sum_row(const tc_sum_source<T> &source, const long long *starts, const A *pieces,
                      R *out, long long r, long long c) {
  const tc_sum_steps steps = tc_sum_steps_of(starts[r], starts[r + 1]);
  A sum[V] = {};
  tc_sum_some<V>(sum, source, pieces, steps, 0, steps.count(), c);
  tc_sum_store<V>(sum, out + r * source.columns + c);
}

/// The first position whose key is at least `key`, of `count` sorted ones.
template <class K> TC_FN long long tc_sum_start(const K *keys, long long count, long long key) {
  long long first = 0;
  while (count > 0) {
    const long long half = count / 2;
    const bool behind = static_cast<long long>(keys[first + half]) < key;
    first = behind ? first + half + 1 : first;
    count = behind ? count - half - 1 : half;
  }
  return first;
}

// What kernels call. starts: [rows + 1], row r having the key least + r. A block's x are threads
// side by side along the columns; block x of a grid is a piece, or as many rows as the block has y.
// Blocks beside each other in y share the columns.
template <class K>
TC_FN void tc_sum_starts(const K *keys, long long *starts, long long count, long long rows,
                         long long least) {
  const long long r = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (r <= rows)
    starts[r] = tc_sum_start(keys, count, least + r);
}
template <class K>
TC_FN void tc_sum_starts_alone(const K *keys, long long *starts, long long count, long long rows,
                               long long least) {
  for (long long r = 0; r <= rows; ++r)
    starts[r] = tc_sum_start(keys, count, least + r);
}
/// The threads of a block that have the same columns: the first one gets the sum of theirs. All of
/// a block call it. Dynamic shared memory: an A for each thread and column.
template <int V, class A> TC_FN void tc_sum_together(A (&sum)[V]) {
  TC_DYN_SMEM(A, shared);
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y),
            across = static_cast<int>(blockDim.x);
  __syncthreads(); // others may still read
  TC_UNROLL
  for (int j = 0; j < V; ++j)
    shared[(y * V + j) * across + x] = sum[j];
  __syncthreads();
  if (y > 0)
    return;
  for (int k = 1; k < static_cast<int>(blockDim.y); ++k)
    TC_UNROLL
  for (int j = 0; j < V; ++j)
    sum[j] += shared[(k * V + j) * across + x];
}
template <int V, class T, class K, class A>
TC_FN void tc_sum_pieces(const T *elements, const K *keys, const long long *order, A *pieces,
                         long long row, long long column, long long columns) {
  const tc_sum_source<T> source = {elements, order, row, column, columns};
  const long long piece = blockIdx.x, from = piece * tc_sum_piece;
  if (keys[from] != keys[from + tc_sum_piece - 1])
    return;
  const long long share = tc_sum_piece / blockDim.y, begin = from + threadIdx.y * share;
  const long long across = static_cast<long long>(blockDim.x) * V;
  for (long long first = blockIdx.y * across; first < columns; first += gridDim.y * across) {
    const long long c = first + threadIdx.x * V;
    A sum[V] = {};
    if (c < columns)
      source.template add<V, tc_sums_ahead<T, V>(64)>(sum, begin, begin + share, c);
    tc_sum_together<V>(sum);
    if (threadIdx.y == 0 && c < columns)
      TC_UNROLL
    for (int j = 0; j < V; ++j)
      pieces[piece * columns + c + j] = sum[j];
  }
}
template <int V, class T, class K, class A>
TC_FN void tc_sum_pieces_alone(const T *elements, const K *keys, const long long *order, A *pieces,
                               long long row, long long column, long long columns,
                               long long count) {
  const tc_sum_source<T> source = {elements, order, row, column, columns};
  for (long long piece = 0; piece < count / tc_sum_piece; ++piece)
    for (long long c = 0; c < columns; c += V)
      tc_sum_piece_of<V>(source, keys, pieces, piece, c);
}
/// `Together`: a block has one row, whose steps all of its threads share; else as many as it has y,
/// and only long ones are shared.
template <int V, class A, bool Together, class T, class R>
TC_FN void tc_sum_rows(const T *elements, const long long *order, const long long *starts,
                       const A *pieces, R *out, long long row, long long column, long long columns,
                       long long rows) {
  constexpr long long alone = 32; // steps of a thread; more are shared
  const tc_sum_source<T> source = {elements, order, row, column, columns};
  const int rows_of_block = Together ? 1 : static_cast<int>(blockDim.y);
  const long long first_row = static_cast<long long>(blockIdx.x) * rows_of_block,
                  r = first_row + threadIdx.y, across = static_cast<long long>(blockDim.x) * V;
  const auto steps_of = [&](long long at) { return tc_sum_steps_of(starts[at], starts[at + 1]); };
  const bool is_long = !Together && r < rows && steps_of(r).count() > alone;
  const bool some_long = Together || __syncthreads_or(is_long) != 0;
  for (long long first = blockIdx.y * across; first < columns; first += gridDim.y * across) {
    const long long c = first + threadIdx.x * V;
    if (!Together && r < rows && !is_long && c < columns)
      tc_sum_row<V>(source, starts, pieces, out, r, c);
    if (!some_long)
      continue;
    for (long long shared = first_row; shared < first_row + rows_of_block && shared < rows;
         ++shared) {
      const tc_sum_steps steps = steps_of(shared);
      const long long count = steps.count();
      if (!Together && count <= alone)
        continue;
      A sum[V] = {};
      if (c < columns)
        tc_sum_some<V>(sum, source, pieces, steps, count * threadIdx.y / blockDim.y,
                       count * (threadIdx.y + 1) / blockDim.y, c);
      tc_sum_together<V>(sum);
      if (threadIdx.y == 0 && c < columns)
        tc_sum_store<V>(sum, out + shared * columns + c);
    }
  }
}
template <int V, class A, class T, class R>
TC_FN void tc_sum_rows_alone(const T *elements, const long long *order, const long long *starts,
                             const A *pieces, R *out, long long row, long long column,
                             long long columns, long long rows) {
  const tc_sum_source<T> source = {elements, order, row, column, columns};
  for (long long r = 0; r < rows; ++r)
    for (long long c = 0; c < columns; c += V)
      tc_sum_row<V>(source, starts, pieces, out, r, c);
}
