// Accesses of a warp whose lanes' runs lie one behind another, of several pieces each (16 bytes, or
// 8 or 4 where those do not divide a run): neighbouring lanes access neighbouring pieces, and these
// change lanes through shared memory. Lane by lane, an access of a piece would leave out what lies
// between, and touch as many sectors again for each part of the runs.
//
// `left`: runs from the lane's own on; the first lanes of a warp call these functions, as many as
// there are runs. `scratch`: the warp's, for each piece of a lane's run 32 slots; for an even
// number of them 36, of which one in nine is left out so that lanes meet different banks.
#pragma once

template <int Pieces> TC_FN int tc_across_slot(int piece) {
  return Pieces % 2 == 0 ? piece + piece / 8 : piece;
}

template <class T, int V> union tc_pieces {
  using piece = typename tc_chunk<static_cast<int>(sizeof(T)) * V>::type;
  static constexpr int count = static_cast<int>(sizeof(T) * V / sizeof(piece));
  piece at[count];
  tc_vec<T, V> vector;
};
template <class Left> TC_FN int tc_lanes_here(int lane, Left left) {
  return left < 32 - lane ? lane + static_cast<int>(left) : 32;
}
TC_FN void tc_sync_first_lanes(int lanes) {
  __syncwarp(lanes < 32 ? (1u << lanes) - 1u : 0xffffffffu);
}

/// Loads a lane's share of what the warp's runs hold; tc_take_across gives its run. p: the lane's
/// run, aligned to its pieces.
template <int V, class T, class Left> TC_FN tc_vec<T, V> tc_load_across(const T *p, Left left) {
  tc_pieces<T, V> u;
  const int lane = static_cast<int>(threadIdx.x & 31u), lanes = tc_lanes_here(lane, left);
  using piece = typename tc_pieces<T, V>::piece;
  const piece *first = tc_chunks_at<const piece>(p) - lane * u.count;
  TC_UNROLL
  for (int i = 0; i < u.count; ++i)
    u.at[i] = first[i * lanes + lane];
  return u.vector;
}
template <int V, class T, int Slots, class Left>
TC_FN tc_vec<T, V> tc_take_across(const tc_vec<T, V> &share, tc_bytes16 (&scratch)[Slots],
                                  Left left) {
  tc_pieces<T, V> u;
  const int lane = static_cast<int>(threadIdx.x & 31u), lanes = tc_lanes_here(lane, left);
  auto *slots = reinterpret_cast<typename tc_pieces<T, V>::piece *>(scratch);
  u.vector = share;
  TC_UNROLL
  for (int i = 0; i < u.count; ++i)
    slots[tc_across_slot<u.count>(i * lanes + lane)] = u.at[i];
  tc_sync_first_lanes(lanes);
  TC_UNROLL
  for (int i = 0; i < u.count; ++i)
    u.at[i] = slots[tc_across_slot<u.count>(lane * u.count + i)];
  tc_sync_first_lanes(lanes);
  return u.vector;
}

/// Rounds V values to T and stores them at p in global memory, aligned to its pieces.
template <int V, class T, int Slots, class Left>
TC_FN void tc_store_across(T *p, const tc_value<T> (&x)[V], tc_bytes16 (&scratch)[Slots],
                           Left left) {
  tc_pieces<T, V> u;
  const int lane = static_cast<int>(threadIdx.x & 31u), lanes = tc_lanes_here(lane, left);
  using piece = typename tc_pieces<T, V>::piece;
  piece *slots = reinterpret_cast<piece *>(scratch);
  u.vector = tc_packer<T, V>::apply(x);
  TC_UNROLL
  for (int i = 0; i < u.count; ++i)
    slots[tc_across_slot<u.count>(lane * u.count + i)] = u.at[i];
  tc_sync_first_lanes(lanes);
  TC_UNROLL
  for (int i = 0; i < u.count; ++i)
    u.at[i] = slots[tc_across_slot<u.count>(i * lanes + lane)];
  tc_sync_first_lanes(lanes);
  piece *first = tc_chunks_at<piece>(p) - lane * u.count;
  TC_UNROLL
  for (int i = 0; i < u.count; ++i)
    tc_put(first + i * lanes + lane, u.at[i]);
}

/// A lane's run into what the warp stores together (tc_store_lanes).
template <int V, class T, int Elements>
TC_FN void tc_put_lane(const tc_value<T> (&x)[V], T (&scratch)[Elements]) {
  tc_pieces<T, V> u;
  u.vector = tc_packer<T, V>::apply(x);
  auto *own = reinterpret_cast<typename tc_pieces<T, V>::piece *>(scratch) +
              static_cast<int>(threadIdx.x & 31u) * u.count;
  TC_UNROLL
  for (int i = 0; i < u.count; ++i)
    own[i] = u.at[i];
}
/// Stores the runs that groups of W neighbouring lanes have put, neighbouring lanes neighbouring
/// elements: what starts anywhere in memory is no vector, and lane by lane each element would be a
/// sector that is written again. The lane's run starts at element `at` of `count` behind `row`;
/// what lies outside is not stored. All lanes of the warp call it.
template <int V, int W, class T, int Elements, class Index, class Count>
TC_FN void tc_store_lanes(T *row, const T (&scratch)[Elements], Index at, Count count,
                          bool live = true) {
  const int lane = static_cast<int>(threadIdx.x & 31u), own = lane % W;
  __syncwarp(0xffffffffu);
  TC_UNROLL
  for (int i = 0; i < V; ++i) {
    const Index element = at + (i * W + own - own * V);
    if (live && element >= 0 && element < count)
      row[element] = scratch[(lane - own) * V + i * W + own];
  }
  __syncwarp(0xffffffffu);
}

/// Where element `at` of a warp's rows of N is kept, of an even number with one place left out
/// behind each row, so that lanes meet different banks.
template <int N> TC_FN int tc_own_slot(int at) { return N % 2 == 0 ? at + at / N : at; }
/// A run of the lane's own row of N elements, from element `at` on, into what the warp stores
/// together (tc_store_own).
template <int N, int V, class T, int Elements>
TC_FN void tc_put_own(const tc_value<T> (&x)[V], T (&scratch)[Elements], int at) {
  const tc_vec<T, V> run = tc_packer<T, V>::apply(x);
  TC_UNROLL
  for (int i = 0; i < V; ++i)
    scratch[tc_own_slot<N>(static_cast<int>(threadIdx.x & 31u) * N + at + i)] = run.at[i];
}
/// Where the first lane's row is; how many rows a warp's lanes have, of `left` from the lane's on.
template <class T> TC_FN T *tc_first_row(T *row) {
  return reinterpret_cast<T *>(
      __shfl_sync(0xffffffffu, reinterpret_cast<unsigned long long>(row), 0));
}
template <class Left> TC_FN int tc_rows_here(Left left) {
  const Left rows = left + static_cast<int>(threadIdx.x & 31u);
  return rows < 32 ? static_cast<int>(rows) : 32;
}
/// Whether a warp's rows go in whole pieces of 16 bytes: they are as many as lanes, and are kept
/// without gaps.
template <int N, class T> TC_FN bool tc_in_pieces(const T *first, int rows) {
  return N % 2 != 0 && rows == 32 && (reinterpret_cast<unsigned long long>(first) & 15u) == 0;
}
/// Stores the rows of N elements that a warp's lanes have put, which lie one behind another,
/// neighbouring lanes neighbouring elements. `row`: where the lane's own is stored; `left`: rows
/// from it on, not above 0 behind the last one. All lanes of the warp call it, once with a scratch.
template <int N, class T, int Elements, class Left>
TC_FN void tc_store_own(T *row, const T (&scratch)[Elements], Left left) {
  const int lane = static_cast<int>(threadIdx.x & 31u), rows = tc_rows_here(left);
  T *first = tc_first_row(row);
  __syncwarp(0xffffffffu);
  if (tc_in_pieces<N>(first, rows)) {
    constexpr int pieces = 2 * N * static_cast<int>(sizeof(T));
    TC_UNROLL
    for (int i = 0; i * 32 < pieces; ++i)
      if (const int at = i * 32 + lane; at < pieces)
        tc_put(reinterpret_cast<tc_bytes16 *>(first) + at,
               reinterpret_cast<const tc_bytes16 *>(scratch)[at]);
  } else {
    TC_UNROLL
    for (int i = 0; i < N; ++i)
      if (const int at = i * 32 + lane; at < rows * N)
        first[at] = scratch[tc_own_slot<N>(at)];
  }
}
/// The lane's own row of N elements, in runs, where rows lie one behind another: neighbouring lanes
/// load neighbouring elements. Lanes behind the last row get that. All lanes of the warp call it,
/// once with a scratch.
template <int N, int V, class T, int Elements, class Left>
TC_FN void tc_load_own(const T *row, T (&scratch)[Elements], Left left,
                       tc_vec<T, V> (&runs)[N / V]) {
  const int lane = static_cast<int>(threadIdx.x & 31u), rows = tc_rows_here(left);
  const T *first = tc_first_row(row);
  if (tc_in_pieces<N>(first, rows)) {
    constexpr int pieces = 2 * N * static_cast<int>(sizeof(T)), each = (pieces + 31) / 32;
    tc_bytes16 loaded[each];
    TC_UNROLL
    for (int i = 0; i < each; ++i)
      if (const int at = i * 32 + lane; at < pieces)
        loaded[i] = reinterpret_cast<const tc_bytes16 *>(first)[at];
    TC_UNROLL
    for (int i = 0; i < each; ++i)
      if (const int at = i * 32 + lane; at < pieces)
        reinterpret_cast<tc_bytes16 *>(scratch)[at] = loaded[i];
  } else {
    T loaded[N];
    TC_UNROLL
    for (int i = 0; i < N; ++i)
      if (const int at = i * 32 + lane; at < rows * N)
        loaded[i] = first[at];
    TC_UNROLL
    for (int i = 0; i < N; ++i)
      if (const int at = i * 32 + lane; at < rows * N)
        scratch[tc_own_slot<N>(at)] = loaded[i];
  }
  __syncwarp(0xffffffffu);
  const int own = lane < rows ? lane : rows > 0 ? rows - 1 : 0;
  TC_UNROLL
  for (int i = 0; i < N; ++i)
    runs[i / V].at[i % V] = scratch[tc_own_slot<N>(own * N + i)];
}
/// The same of a row that is one run.
template <int N, class T, int Elements, class Left>
TC_FN void tc_load_own(const T *row, T (&scratch)[Elements], Left left, tc_vec<T, N> &run) {
  tc_vec<T, N> runs[1];
  tc_load_own<N>(row, scratch, left, runs);
  run = runs[0];
}
