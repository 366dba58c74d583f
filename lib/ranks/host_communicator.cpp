#include "ranks/host_communicator.h"

#include "tensor/host_tensor.h"

#include <algorithm>

namespace tsc::ranks {

namespace {

using tensor::HostTensor;
using tsc_engine::CollectiveCall;
using tsc_engine::CollectiveKind;
using tsc_engine::DType;
using tsc_engine::Reduction;
using Piece = Transport::Piece;
using Room = Transport::Room;

/// NaN stays.
template <class Sum> Sum larger(Sum a, Sum b) { return a > b || a != a ? a : b; }
template <class Sum> Sum smaller(Sum a, Sum b) { return a < b || a != a ? a : b; }

template <class Sum> Sum combine(Sum a, Sum b, Reduction reduction) {
  switch (reduction) {
  case Reduction::maximum:
    return larger(a, b);
  case Reduction::minimum:
    return smaller(a, b);
  case Reduction::product:
    return a * b;
  default:
    return a + b;
  }
}
/// Integers wrap around.
uint64_t combine_bits(uint64_t a, uint64_t b, Reduction reduction) {
  switch (reduction) {
  case Reduction::bit_and:
    return a & b;
  case Reduction::bit_or:
    return a | b;
  case Reduction::bit_xor:
    return a ^ b;
  default:
    return combine(a, b, reduction);
  }
}
int64_t combine_integers(int64_t a, int64_t b, Reduction reduction, DType dtype) {
  const bool is_signed_order =
      dtype != DType::u64 && (reduction == Reduction::maximum || reduction == Reduction::minimum);
  if (is_signed_order)
    return combine(a, b, reduction);
  return static_cast<int64_t>(
      combine_bits(static_cast<uint64_t>(a), static_cast<uint64_t>(b), reduction));
}
/// Of bools the sum is "or", the product "and".
Reduction reduction_of(const CollectiveCall &call) {
  if (call.dtype != DType::boolean)
    return call.reduction;
  return call.reduction == Reduction::sum       ? Reduction::maximum
         : call.reduction == Reduction::product ? Reduction::minimum
                                                : call.reduction;
}

/// One value of each rank, in the order of ranks, reduced.
template <class Sum>
Sum reduced(const std::vector<HostTensor> &ranks, int64_t position, Reduction reduction) {
  auto result = static_cast<Sum>(ranks[0].get_double(position));
  for (size_t r = 1; r < ranks.size(); ++r)
    result = combine(result, static_cast<Sum>(ranks[r].get_double(position)), reduction);
  return reduction == Reduction::average ? result / static_cast<Sum>(ranks.size()) : result;
}
int64_t reduced_integer(const std::vector<HostTensor> &ranks, int64_t position,
                        Reduction reduction) {
  const auto dtype = static_cast<DType>(ranks[0].dtype());
  int64_t result = ranks[0].get_int64(position);
  for (size_t r = 1; r < ranks.size(); ++r)
    result = combine_integers(result, ranks[r].get_int64(position), reduction, dtype);
  return reduction == Reduction::average ? result / static_cast<int64_t>(ranks.size()) : result;
}

HostTensor view_of(char *data, DType dtype, int64_t count) {
  return {static_cast<tensor::DType>(dtype),   {count}, {1}, nullptr,
          reinterpret_cast<std::byte *>(data), true};
}

void reduce_into(HostTensor &result, const std::vector<HostTensor> &given, Reduction reduction) {
  const bool is_floating = tensor::is_floating(result.dtype());
  const bool is_wide = result.dtype() == tensor::DType::f64;
  for (int64_t i = 0; i < result.numel(); ++i)
    if (!is_floating)
      result.set_int64(i, reduced_integer(given, i, reduction));
    else
      result.set_double(i, is_wide ? reduced<double>(given, i, reduction)
                                   : reduced<float>(given, i, reduction));
}

} // namespace

void HostCommunicator::reduce(const CollectiveCall &call, const char *from, bool scatter,
                              void *to) {
  const auto count = static_cast<size_t>(ranks());
  const size_t bytes = static_cast<size_t>(call.count) * tsc_engine::size_in_bytes(call.dtype);
  std::vector<char> given(bytes * count);
  std::vector<Piece> pieces;
  std::vector<Room> rooms;
  for (size_t r = 0; r < count; ++r) {
    pieces.push_back({from + (scatter ? r * bytes : 0), bytes});
    rooms.push_back({given.data() + r * bytes, bytes});
  }
  transport_.exchange(call, pieces, rooms);
  std::vector<HostTensor> tensors;
  for (size_t r = 0; r < count; ++r)
    tensors.push_back(view_of(given.data() + r * bytes, call.dtype, call.count));
  HostTensor result = view_of(static_cast<char *>(to), call.dtype, call.count);
  reduce_into(result, tensors, reduction_of(call));
}

void HostCommunicator::run(const CollectiveCall &call, const void *given, void *to,
                           tsc_engine::Stream) {
  const auto *from = static_cast<const char *>(given);
  auto *into = static_cast<char *>(to);
  const auto count = static_cast<size_t>(ranks());
  const size_t element = tsc_engine::size_in_bytes(call.dtype);
  const size_t bytes = static_cast<size_t>(call.count) * element;
  std::vector<Piece> pieces(count);
  std::vector<Room> rooms(count);
  switch (call.kind) {
  case CollectiveKind::all_gather:
    for (size_t r = 0; r < count; ++r) {
      pieces[r] = {from, bytes};
      rooms[r] = {into + r * bytes, bytes};
    }
    break;
  case CollectiveKind::reduce_scatter:
    return reduce(call, from, true, to);
  case CollectiveKind::all_reduce:
    return reduce(call, from, false, to);
  case CollectiveKind::broadcast:
    if (call.root == rank())
      std::fill(pieces.begin(), pieces.end(), Piece{from, bytes});
    rooms[static_cast<size_t>(call.root)] = {to, bytes};
    break;
  case CollectiveKind::all_to_all:
    for (size_t r = 0; r < count; ++r) {
      pieces[r] = {from, static_cast<size_t>(call.sends[r]) * element};
      rooms[r] = {into, static_cast<size_t>(call.receives[r]) * element};
      from += pieces[r].bytes;
      into += rooms[r].bytes;
    }
    break;
  case CollectiveKind::barrier:
    break;
  }
  transport_.exchange(call, pieces, rooms);
}

} // namespace tsc::ranks
