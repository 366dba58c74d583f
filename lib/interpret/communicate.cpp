#include "interpret/communicate.h"

#include "support/diagnostic.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace tsc::interpret {

namespace {

using ir::BufferView;
using ir::Library;

/// A buffer as one rank holds it, from the first element of a view on.
class Elements {
public:
  Elements(Machine &machine, const BufferView &view)
      : storage_(machine.memory(view.buffer)), first_(machine.value_of(view.layout.offset)) {}

  bool is_float() const { return storage_.is_float(); }
  double real(int64_t i) const { return storage_.floats[at(i)]; }
  int64_t integer(int64_t i) const { return storage_.integers[at(i)]; }
  void set_real(int64_t i, double value) { storage_.floats[at(i)] = value; }
  void set_integer(int64_t i, int64_t value) { storage_.integers[at(i)] = value; }
  void copy(int64_t to, const Elements &other, int64_t from, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      if (is_float())
        set_real(to + i, other.real(from + i));
      else
        set_integer(to + i, other.integer(from + i));
  }
  void clear(int64_t from, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      if (is_float())
        set_real(from + i, 0);
      else
        set_integer(from + i, 0);
  }

private:
  Storage &storage_;
  int64_t first_;

  size_t at(int64_t i) const {
    support::require(first_ + i >= 0 && first_ + i < storage_.size(), "interpret",
                     "an access outside of a buffer");
    return static_cast<size_t>(first_ + i);
  }
};

int64_t numel(const Machine &machine, const BufferView &view) {
  return machine.value_of(symbolic::numel(view.layout.sizes));
}

BufferView whole(const ir::Module &module, ir::BufferId id) {
  BufferView view;
  view.buffer = id;
  view.layout = module.buffer(id).layout;
  view.dtype = module.buffer(id).dtype;
  return view;
}

/// The result's tuple is memory of its own for each item: what the items see is written here.
void copy_in(const ir::Module &module, const ir::Operation &operation, const ir::Extern &call,
             Machine &machine) {
  const auto next = static_cast<size_t>(&operation - module.operations.data()) + 1;
  support::require(next < module.operations.size(), "interpret", "a tuple without items");
  Elements part(machine, whole(module, module.operations[next].outputs[0]));
  int64_t offset = 0;
  for (const BufferView &input : call.inputs) {
    const int64_t count = numel(machine, input);
    part.copy(offset, Elements(machine, input), 0, count);
    offset += count;
  }
}

void copy_out(const ir::Extern &call, Machine &machine) {
  const BufferView &gathered = call.inputs[0];
  const int64_t ranks = machine.value_of(gathered.layout.sizes[0]);
  const int64_t row = machine.value_of(gathered.layout.sizes[1]);
  int64_t column = 0;
  for (size_t i = 1; i < call.inputs.size(); ++i) {
    const int64_t count = numel(machine, call.inputs[i]) / ranks;
    Elements out(machine, call.inputs[i]);
    for (int64_t rank = 0; rank < ranks; ++rank)
      out.copy(rank * count, Elements(machine, gathered), rank * row + column, count);
    column += count;
  }
}

void chunk_concat(const ir::Extern &call, Machine &machine) {
  const int64_t ranks = call.group.size;
  const int64_t row = numel(machine, call.inputs.back()) / ranks;
  Elements out(machine, call.inputs.back());
  int64_t column = 0;
  for (size_t i = 0; i + 1 < call.inputs.size(); ++i) {
    const int64_t slices = machine.value_of(call.inputs[i].layout.sizes[0]);
    const int64_t size = slices == 0 ? 0 : numel(machine, call.inputs[i]) / slices;
    const int64_t chunk = (slices + ranks - 1) / ranks;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      const int64_t first = std::min(rank * chunk, slices);
      const int64_t present = std::min(chunk, slices - first);
      const int64_t at = rank * row + column;
      out.copy(at, Elements(machine, call.inputs[i]), first * size, present * size);
      out.clear(at + present * size, (chunk - present) * size);
    }
    column += chunk * size;
  }
}

/// Elements as 64 bits, whatever they are: what ranks give each other.
using Words = std::vector<int64_t>;

Words words_of(const Elements &elements, int64_t first, int64_t count) {
  Words words;
  words.reserve(static_cast<size_t>(count));
  for (int64_t i = first; i < first + count; ++i)
    words.push_back(elements.is_float() ? std::bit_cast<int64_t>(elements.real(i))
                                        : elements.integer(i));
  return words;
}

/// One collective as the rank of one machine does it.
class Rank {
public:
  Rank(const ir::Module &module, const ir::Operation &operation, Machine &machine,
       std::vector<int64_t> members, int64_t own)
      : call_(std::get<ir::Extern>(operation.kind)), machine_(machine),
        members_(std::move(members)), own_(own), given_(machine, call_.inputs[0]),
        count_(numel(machine, call_.inputs[0])),
        target_(call_.inputs.size() > 1 ? call_.inputs[1] : whole(module, operation.outputs[0])) {
    if (call_.inputs.size() == 1)
      machine.allocate(target_.buffer);
  }
  const std::vector<int64_t> &members() const { return members_; }
  int64_t own() const { return own_; }
  size_t ranks() const { return members_.size(); }

  /// What this rank gives the member at `position` of the group.
  Words piece(size_t position) const {
    if (call_.library == Library::broadcast && call_.root != own_)
      return {};
    if (call_.library == Library::reduce_scatter) {
      const int64_t part = count_ / static_cast<int64_t>(ranks());
      return words_of(given_, static_cast<int64_t>(position) * part, part);
    }
    if (call_.library != Library::all_to_all)
      return words_of(given_, 0, count_);
    int64_t first = 0;
    for (size_t i = 0; i < position; ++i)
      first += machine_.value_of(call_.sends[i]);
    return words_of(given_, first, machine_.value_of(call_.sends[position]));
  }
  /// How many elements it gets from there.
  int64_t expected(size_t position) const {
    if (call_.library == Library::broadcast)
      return call_.root == static_cast<int64_t>(position) ? count_ : 0;
    if (call_.library == Library::reduce_scatter)
      return count_ / static_cast<int64_t>(ranks());
    return call_.library == Library::all_to_all ? machine_.value_of(call_.receives[position])
                                                : count_;
  }

  /// Stores what all members gave.
  void store(const std::vector<Words> &given) {
    Elements out(machine_, target_);
    const bool reduces =
        call_.library == Library::reduce_scatter || call_.library == Library::all_reduce;
    int64_t at = 0;
    if (reduces)
      for (; at < static_cast<int64_t>(given[0].size()); ++at)
        out.is_float() ? put(out, at, reduced<double>(given, static_cast<size_t>(at)))
                       : put(out, at, reduced<int64_t>(given, static_cast<size_t>(at)));
    else
      for (const Words &words : given)
        for (const int64_t word : words)
          if (out.is_float())
            out.set_real(at++, std::bit_cast<double>(word));
          else
            out.set_integer(at++, word);
  }

private:
  const ir::Extern &call_;
  Machine &machine_;
  const std::vector<int64_t> members_;
  const int64_t own_; // position in the group
  const Elements given_;
  const int64_t count_;
  const BufferView target_;

  void put(Elements &, int64_t at, double value) {
    machine_.put(target_.buffer, machine_.value_of(target_.layout.offset) + at, value);
  }
  void put(Elements &out, int64_t at, int64_t value) {
    out.set_integer(at, wrap_to(target_.dtype, value));
  }

  template <class Number> Number reduced(const std::vector<Words> &given, size_t at) const {
    Number result = std::bit_cast<Number>(given[0][at]);
    for (size_t r = 1; r < given.size(); ++r)
      result = combine(result, std::bit_cast<Number>(given[r][at]));
    return call_.reduction == "avg" ? result / static_cast<Number>(given.size()) : result;
  }
  bool is(std::string_view name) const { return call_.reduction == name; }
  /// NaN stays.
  double combine(double a, double b) const {
    if (is("max"))
      return a > b || a != a ? a : b;
    if (is("min"))
      return a < b || a != a ? a : b;
    return is("product") ? a * b : a + b;
  }
  /// Integers wrap around; of bools the sum is "or", the product "and".
  int64_t combine(int64_t a, int64_t b) const {
    const auto x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    const bool is_bool = target_.dtype == DType::boolean;
    const bool first_is_less = target_.dtype == DType::u64 ? x < y : a < b;
    if (is("max") || (is_bool && is("sum")))
      return first_is_less ? b : a;
    if (is("min") || (is_bool && is("product")))
      return first_is_less ? a : b;
    const uint64_t bits = is("product") ? x * y
                          : is("band")  ? (x & y)
                          : is("bor")   ? (x | y)
                          : is("bxor")  ? (x ^ y)
                                        : x + y;
    return static_cast<int64_t>(bits);
  }
};

[[noreturn]] void misfit(const ir::Operation &operation, int64_t given, int64_t expected) {
  throw support::UserError(support::ExitCode::bad_input,
                           {.code = "TSC-R052",
                            .message = "a rank gives " + std::to_string(given) +
                                       " elements to one that has room for " +
                                       std::to_string(expected) + ", in " + operation.name,
                            .next_step = "give the ranks inputs whose parts fit each other"});
}

/// What the group's members give this rank: by connections, or, where all are machines here, from
/// them.
std::vector<Words> receive(const ir::Operation &operation, const Rank &rank,
                           const std::vector<Rank> &all, const Links &links) {
  std::vector<Words> received(rank.ranks());
  if (links.groups == nullptr) {
    for (size_t r = 0; r < rank.ranks(); ++r) {
      received[r] =
          all[static_cast<size_t>(rank.members()[r])].piece(static_cast<size_t>(rank.own()));
      const auto given = static_cast<int64_t>(received[r].size());
      if (given != rank.expected(r))
        misfit(operation, given, rank.expected(r));
    }
    return received;
  }
  const auto &call = std::get<ir::Extern>(operation.kind);
  Words given, taken;
  std::vector<int64_t> sends, receives;
  for (size_t r = 0; r < rank.ranks(); ++r) {
    const Words piece = rank.piece(r);
    given.insert(given.end(), piece.begin(), piece.end());
    sends.push_back(static_cast<int64_t>(piece.size()));
    receives.push_back(rank.expected(r));
  }
  taken.resize(static_cast<size_t>(std::accumulate(receives.begin(), receives.end(), int64_t{0})));
  tsc_engine::CollectiveCall exchange;
  exchange.kind = tsc_engine::CollectiveKind::all_to_all;
  exchange.dtype = tsc_engine::DType::i64;
  exchange.sends = sends.data();
  exchange.receives = receives.data();
  exchange.step = operation.name.c_str();
  links.groups->find(call.group.name.c_str())->run(exchange, given.data(), taken.data(), nullptr);
  auto from = taken.cbegin();
  for (size_t r = 0; r < rank.ranks(); ++r) {
    received[r].assign(from, from + receives[r]);
    from += receives[r];
  }
  return received;
}

void check_ranks(const ir::Operation &operation, const ir::Extern &call, size_t ranks) {
  if (call.group.size == 0 || call.group.size == static_cast<int64_t>(ranks))
    return;
  throw support::UserError(
      support::ExitCode::bad_input,
      {.code = "TSC-R126",
       .message = operation.name + " communicates among " + std::to_string(call.group.size) +
                  " ranks, and this run has " + std::to_string(ranks),
       .next_step = "run with --world-size " + std::to_string(call.group.size)});
}

void run_collective(const ir::Module &module, const ir::Operation &operation,
                    std::deque<Machine> &machines, const Links &links) {
  const auto &call = std::get<ir::Extern>(operation.kind);
  std::vector<Rank> all;
  for (size_t i = 0; i < machines.size(); ++i) {
    const int64_t number = links.groups == nullptr ? static_cast<int64_t>(i) : links.rank;
    std::vector<int64_t> members = links.table.members(call.group.name, number);
    check_ranks(operation, call, members.size());
    const int64_t own = std::find(members.begin(), members.end(), number) - members.begin();
    all.emplace_back(module, operation, machines[i], std::move(members), own);
  }
  std::vector<std::vector<Words>> received;
  for (const Rank &rank : all) // all of it, before anything is overwritten
    received.push_back(receive(operation, rank, all, links));
  for (size_t i = 0; i < all.size(); ++i)
    all[i].store(received[i]);
}

} // namespace

bool is_communication(const ir::Operation &operation) {
  const auto *call = std::get_if<ir::Extern>(&operation.kind);
  return call != nullptr && ir::is_between_ranks(call->library);
}

void communicate(const ir::Module &module, const ir::Operation &operation,
                 std::deque<Machine> &machines, const Links &links) {
  const auto &call = std::get<ir::Extern>(operation.kind);
  if (ir::is_collective(call.library))
    return run_collective(module, operation, machines, links);
  for (Machine &machine : machines) {
    if (call.library == Library::gather_copy_in) {
      for (size_t next = static_cast<size_t>(&operation - module.operations.data()) + 1;
           next < module.operations.size(); ++next) {
        const auto *item = std::get_if<ir::Extern>(&module.operations[next].kind);
        if (item == nullptr || item->library != Library::tuple_item)
          break;
        machine.allocate(module.operations[next].outputs[0]);
      }
      copy_in(module, operation, call, machine);
    } else if (call.library == Library::split_copy_out) {
      copy_out(call, machine);
    } else if (call.library == Library::chunk_concat) {
      chunk_concat(call, machine);
    } else if (call.library == Library::set_storage) {
      Elements(machine, call.inputs[0])
          .copy(0, Elements(machine, call.inputs[1]), 0, numel(machine, call.inputs[0]));
    }
  }
}

} // namespace tsc::interpret
