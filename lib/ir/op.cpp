// Names and small facts of the IR.
#include "ir/body.h"
#include "ir/ir.h"

#include "support/diagnostic.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstdlib>

namespace tsc::ir {

namespace {

struct OpFacts {
  std::string_view name;
  int operands;
  OpCost cost = OpCost::instruction;
  bool jumps = false;
};

constexpr std::array kOps = {
#define TSC_OP(name, operands, result, cost, continuity)                                           \
  OpFacts{#name, operands, OpCost::cost, std::string_view(#continuity) == "jumps"},
#include "ir/opcodes.def"
#undef TSC_OP
    OpFacts{"load", -1},         OpFacts{"constant", -1},
    OpFacts{"index_expr", -1},   OpFacts{"operand", -1},
    OpFacts{"view", -1},         OpFacts{"masked", -1},
    OpFacts{"store", -1},        OpFacts{"store_reduction", -1},
    OpFacts{"reduction", -1},    OpFacts{"scan", -1},
    OpFacts{"sort", -1},         OpFacts{"get_item", -1},
    OpFacts{"set_indirect", -1},
};
static_assert(kOps.size() == static_cast<size_t>(Op::set_indirect) + 1);

void replace(std::string &text, std::string_view placeholder, const std::string &by) {
  for (size_t at = 0; (at = text.find(placeholder, at)) != std::string::npos; at += by.size())
    text.replace(at, placeholder.size(), by);
}

/// As short as reads back the same. The engine's texts (engine/instance.cpp) are equal.
std::string number_text(double number) {
  char text[32];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, number);
    if (std::strtod(text, nullptr) == number)
      break;
  }
  return text;
}

} // namespace

std::string_view op_name(Op op) { return kOps[static_cast<size_t>(op)].name; }

bool is_random(Op op) {
  return op == Op::rand || op == Op::randn || op == Op::rand_exponential || op == Op::rand_bits;
}

OpCost op_cost(Op op) { return kOps[static_cast<size_t>(op)].cost; }
bool jumps(Op op) { return kOps[static_cast<size_t>(op)].jumps; }
int operand_count(Op op) { return kOps[static_cast<size_t>(op)].operands; }

Expr variable(size_t k) {
  // Tensors rarely have more dimensions; beyond, the symbol table answers.
  static const std::vector<Expr> first = [] {
    std::vector<Expr> result;
    for (size_t i = 0; i < 16; ++i)
      result.push_back(symbolic::symbol(symbolic::SymbolSort::dimension, i));
    return result;
  }();
  return k < first.size() ? first[k] : symbolic::symbol(symbolic::SymbolSort::dimension, k);
}

Expr operand_value(size_t k) { return symbolic::symbol(symbolic::SymbolSort::operand, k); }

std::string_view reduction_name(ReductionKind kind) {
  switch (kind) {
  case ReductionKind::sum:
    return "sum";
  case ReductionKind::prod:
    return "prod";
  case ReductionKind::max:
    return "max";
  case ReductionKind::min:
    return "min";
  case ReductionKind::any:
    return "any";
  case ReductionKind::all:
    return "all";
  case ReductionKind::xor_sum:
    return "xor_sum";
  case ReductionKind::argmax:
    return "argmax";
  case ReductionKind::argmin:
    return "argmin";
  case ReductionKind::welford_reduce:
    return "welford_reduce";
  case ReductionKind::welford_combine:
    return "welford_combine";
  case ReductionKind::online_softmax_reduce:
    return "online_softmax_reduce";
  }
  throw support::InternalError("ir", "reduction_name", "unknown kind of reduction");
}

std::string_view store_mode_name(StoreMode mode) {
  switch (mode) {
  case StoreMode::plain:
    return "";
  case StoreMode::atomic_add:
    return "atomic_add";
  case StoreMode::atomic_mul:
    return "atomic_mul";
  case StoreMode::atomic_max:
    return "atomic_max";
  case StoreMode::atomic_min:
    return "atomic_min";
  }
  throw support::InternalError("ir", "store_mode_name", "unknown mode of a store");
}

size_t tuple_size(ReductionKind kind) {
  switch (kind) {
  case ReductionKind::welford_reduce:
  case ReductionKind::welford_combine:
    return 3;
  case ReductionKind::online_softmax_reduce:
    return 2;
  default:
    return 1;
  }
}

bool has_subgraphs(Library library) {
  return library == Library::conditional || library == Library::while_loop;
}

bool is_between_ranks(Library library) { return library >= Library::gather_copy_in; }

bool is_collective(Library library) {
  return library >= Library::all_gather && library <= Library::all_to_all;
}

std::string failure_text(const DataCheck &check, int64_t value, int64_t extent) {
  graph::Assertion assertion = check.assertion;
  replace(assertion.message, "{value}", std::to_string(value));
  replace(assertion.message, "{size}", std::to_string(extent));
  replace(assertion.message, "{float32}",
          number_text(double{std::bit_cast<float>(static_cast<uint32_t>(value))}));
  replace(assertion.message, "{float64}", number_text(std::bit_cast<double>(value)));
  return graph::to_string(assertion);
}

const DataCheck &Module::check_of(uint32_t id) const {
  static const DataCheck kPlain;
  return id == kNone ? kPlain : checks.at(id);
}

const Windows *Module::windows_of(const Operation &operation) const {
  const Windows *found = nullptr;
  for (const Windows &row : windows)
    if (std::find(operation.origins.begin(), operation.origins.end(), row.origin) !=
        operation.origins.end()) {
      if (found != nullptr)
        return nullptr;
      found = &row;
    }
  return found;
}

BufferId Module::storage_of(BufferId id) const {
  while (true) {
    const Buffer &buffer = buffers[id];
    const BufferId next = buffer.mutates != kNone ? buffer.mutates : buffer.view_of;
    if (next == kNone)
      return id;
    id = next;
  }
}

symbolic::Ranges LoopBody::ranges(const Module &module) const {
  symbolic::Ranges ranges = module.ranges;
  for (size_t i = 0; i < variables.size(); ++i)
    ranges.set_size(variables[i], sizes[i]);
  for (const BodyOp &op : ops)
    if (op.op == Op::set_indirect)
      ranges.set_size(op.symbol, op.extent);
  return ranges;
}

} // namespace tsc::ir
