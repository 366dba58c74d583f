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
  const piece *first = reinterpret_cast<const piece *>(p) - lane * u.count;
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
  piece *first = reinterpret_cast<piece *>(p) - lane * u.count;
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
