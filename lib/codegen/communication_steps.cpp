#include "codegen/communication_steps.h"

#include "support/diagnostic.h"
#include "tensor/rank_reductions.h"

#include <algorithm>
#include <array>
#include <utility>

namespace tsc::codegen {

namespace {

using ir::BufferId;
using ir::BufferView;
using ir::Library;
using symbolic::Expr;

/// Each rank's part is copied by steps of its own.
int64_t rank_count(Expr ranks, const ir::Operation &operation) {
  support::require(ranks.is_integer(), "codegen",
                   "the number of ranks of " + operation.name + " is not known");
  return ranks.value();
}

class Builder {
public:
  Builder(const ir::Module &module, const ir::Operation &operation, const MemoryOf &memory)
      : module_(module), operation_(operation), call_(std::get<ir::Extern>(operation.kind)),
        memory_(memory) {}

  std::vector<program::Step> run() {
    switch (call_.library) {
    case Library::gather_copy_in:
      copy_in();
      break;
    case Library::all_gather:
    case Library::reduce_scatter:
    case Library::all_reduce:
    case Library::broadcast:
    case Library::all_to_all:
      collective();
      break;
    case Library::split_copy_out:
      copy_out();
      break;
    case Library::chunk_concat:
      chunks();
      break;
    case Library::set_storage:
      copy(call_.inputs[1], 0, call_.inputs[0], 0, numel(call_.inputs[0]));
      break;
    case Library::tuple_item: // written by what yields the tuple
    case Library::wait:
    case Library::resize_storage:
      break;
    default:
      support::require(false, "codegen", "no library runs " + call_.kernel);
    }
    return std::move(steps_);
  }

private:
  const ir::Module &module_;
  const ir::Operation &operation_;
  const ir::Extern &call_;
  const MemoryOf &memory_;
  std::vector<program::Step> steps_;

  static Expr numel(const BufferView &view) { return symbolic::numel(view.layout.sizes); }

  program::Operand operand(const BufferView &view, Expr offset, bool written) {
    return {memory_(view.buffer, written), view.layout.offset + offset};
  }
  std::string name(const char *what) const { return std::string(what) + "_" + operation_.name; }
  static Expr bytes(const BufferView &view, Expr count) {
    return count * Expr(static_cast<int64_t>(tensor::size_in_bytes(view.dtype)));
  }

  /// `count` elements; offsets are in elements of the views. What continues the step before on both
  /// sides becomes part of it.
  void copy(const BufferView &from, Expr from_offset, const BufferView &to, Expr to_offset,
            Expr count) {
    if (count.is_integer(0))
      return;
    program::Copy next{operand(from, from_offset, false), operand(to, to_offset, true),
                       bytes(to, count)};
    program::Copy *last =
        steps_.empty() ? nullptr : std::get_if<program::Copy>(&steps_.back().kind);
    const auto continues = [&](const program::Operand &a, const program::Operand &b) {
      return a.buffer == b.buffer && bytes(to, b.offset - a.offset) == last->bytes;
    };
    if (last != nullptr && continues(last->from, next.from) && continues(last->to, next.to))
      last->bytes = last->bytes + next.bytes;
    else
      steps_.push_back({std::move(next), name("copy")});
  }

  /// The inputs, one after the other, into the first item of the tuple.
  void copy_in() {
    const std::optional<BufferView> part = item(0);
    if (!part)
      return; // nobody wants it
    Expr offset = 0;
    for (const BufferView &input : call_.inputs) {
      copy(input, 0, *part, offset, numel(input));
      offset = offset + numel(input);
    }
  }

  /// The buffer that names result `number` of this call.
  std::optional<BufferView> item(size_t number) const {
    for (ir::OperationId id = ir::OperationId(&operation_ - module_.operations.data()) + 1;
         id < module_.operations.size(); ++id) {
      const auto *getter = std::get_if<ir::Extern>(&module_.operations[id].kind);
      if (getter == nullptr || getter->library != Library::tuple_item ||
          getter->inputs[0].buffer != operation_.outputs[0])
        break; // the items of a call follow it
      if (getter->item == number)
        return whole(module_.operations[id].outputs[0]);
    }
    return std::nullopt;
  }
  BufferView whole(BufferId id) const {
    BufferView view;
    view.buffer = id;
    view.layout = module_.buffer(id).layout;
    view.dtype = module_.buffer(id).dtype;
    return view;
  }

  void collective() {
    using Kind = program::Collective::Kind;
    static constexpr std::array kKinds = {
        std::pair{Library::all_gather, "all_gather"},
        std::pair{Library::reduce_scatter, "reduce_scatter"},
        std::pair{Library::all_reduce, "all_reduce"}, std::pair{Library::broadcast, "broadcast"},
        std::pair{Library::all_to_all, "all_to_all"}}; // in the order of Kind
    const auto kind = std::find_if(kKinds.begin(), kKinds.end(),
                                   [&](const auto &entry) { return entry.first == call_.library; });
    program::Collective step;
    step.kind = static_cast<Kind>(kind - kKinds.begin());
    const BufferView to = call_.inputs.size() > 1 ? call_.inputs[1] : whole(operation_.outputs[0]);
    const auto reduction =
        std::find(tensor::kRankReductions.begin(), tensor::kRankReductions.end(), call_.reduction);
    if (reduction != tensor::kRankReductions.end())
      step.reduction =
          static_cast<tsc_engine::Reduction>(reduction - tensor::kRankReductions.begin());
    step.dtype = to.dtype;
    step.ranks = call_.group.size;
    step.group = call_.group.name;
    step.from = operand(call_.inputs[0], 0, false);
    step.to = operand(to, 0, true);
    if (step.kind != Kind::all_to_all)
      step.count = step.kind == Kind::reduce_scatter ? numel(to) : numel(call_.inputs[0]);
    step.sends = call_.sends;
    step.receives = call_.receives;
    step.root = call_.root;
    step.node = operation_.origins.empty() ? "" : module_.origins[operation_.origins[0]].node;
    steps_.push_back({std::move(step), name(kind->second)});
  }

  /// Columns of [ranks, columns] into the tensors that they belong to, rank by rank.
  void copy_out() {
    const BufferView &gathered = call_.inputs[0];
    const int64_t ranks = rank_count(gathered.layout.sizes[0], operation_);
    const Expr row = gathered.layout.sizes[1];
    Expr column = 0;
    for (size_t i = 1; i < call_.inputs.size(); ++i) {
      const Expr count = symbolic::floor_div(numel(call_.inputs[i]), Expr(ranks));
      for (int64_t rank = 0; rank < ranks; ++rank)
        copy(gathered, Expr(rank) * row + column, call_.inputs[i], Expr(rank) * count, count);
      column = column + count;
    }
  }

  /// Row r of the result: chunk r of each tensor, rounded up to whole slices, missing ones zero.
  void chunks() {
    const BufferView &out = call_.inputs.back();
    const int64_t ranks = call_.group.size;
    const Expr row = symbolic::floor_div(numel(out), Expr(ranks));
    Expr column = 0;
    for (size_t i = 0; i + 1 < call_.inputs.size(); ++i) {
      const BufferView &tensor = call_.inputs[i];
      const int64_t slices = rank_count(tensor.layout.sizes[0], operation_);
      std::vector<Expr> slice(tensor.layout.sizes.begin() + 1, tensor.layout.sizes.end());
      const Expr size = symbolic::numel(slice);
      const int64_t chunk = (slices + ranks - 1) / ranks;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const int64_t first = std::min(rank * chunk, slices);
        const int64_t present = std::min(chunk, slices - first);
        const Expr at = Expr(rank) * row + column;
        copy(tensor, Expr(first) * size, out, at, Expr(present) * size);
        const Expr missing = Expr(chunk - present) * size;
        if (!missing.is_integer(0))
          steps_.push_back(
              {program::Fill{operand(out, at + Expr(present) * size, true), bytes(out, missing)},
               name("zeros")});
      }
      column = column + Expr(chunk) * size;
    }
  }
};

} // namespace

std::vector<program::Step> communication_steps(const ir::Module &module,
                                               const ir::Operation &operation,
                                               const MemoryOf &memory) {
  return Builder(module, operation, memory).run();
}

} // namespace tsc::codegen
