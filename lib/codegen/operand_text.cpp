#include "codegen/operand_text.h"

#include "codegen/expression.h"
#include "codegen/plan_steps.h"
#include "scheduler/result_loops.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

namespace tsc::codegen {

namespace {

using ir::Op;

constexpr int kLanes = 4; // that have a step's terms of a column
/// Runs of neighbours, and of pairs (scheduler::term_of_pairs); 8 where terms do not divide: lanes
/// meet in banks.
constexpr std::pair<bool, int> kOrders[] = {
    {false, 16}, {false, 32}, {false, 8}, {true, 16}, {true, 32}};
constexpr int64_t kAccess = 16; // bytes
constexpr size_t kMostValues = 4096;

bool is_load(const Value &value) { return value.op == Op::load; }

/// The largest of a value that is an integer and never negative, as far as its dtype or a mask
/// says.
std::optional<int64_t> most_of(const KernelGraph &graph, ValueId id) {
  const Value &value = graph[id];
  if (value.op == Op::bitwise_and)
    for (const ValueId arg : value.args)
      if (const auto *mask = std::get_if<int64_t>(&graph[arg].constant);
          mask && graph[arg].op == Op::constant && *mask >= 0)
        return *mask;
  if (value.op == Op::bitwise_right_shift && graph[value.args[1]].op == Op::constant)
    if (const auto *by = std::get_if<int64_t>(&graph[value.args[1]].constant);
        by && *by >= 0 && *by < 32)
      if (const auto most = most_of(graph, value.args[0]))
        return *most >> *by;
  if (value.dtype == DType::u8)
    return 255;
  return std::nullopt;
}

/// 8-bit floats that the GPU converts; all types of floats hold them exactly.
bool converts_pairs(DType dtype) { return dtype == DType::f8e4m3fn || dtype == DType::f8e5m2; }

/// What pairs of integers of few bits hold exactly (tc_small_pair).
int64_t most_of_pairs(DType dtype) { return dtype == DType::f16 ? 1023 : 127; }

/// Values as text, in order.
class Lines {
public:
  Lines(const KernelGraph &graph, std::map<ValueId, std::string> loaded,
        std::function<std::string(const Value &)> memory_of)
      : graph_(graph), texts_(std::move(loaded)), memory_of_(std::move(memory_of)) {}

  std::string text;

  void define(ValueId id, const std::string &said) {
    const std::string name = "t" + std::to_string(next_++);
    text += "    const " + std::string(value_type(graph_[id].dtype)) + " " + name + " = " + said +
            ";\n";
    texts_[id] = name;
  }
  /// Two elements' values as a pair of `dtype`: what is computed in that type alike for both is
  /// computed for both at once.
  std::string pair(ValueId a, ValueId b, DType dtype) {
    const std::string type = std::string(storage_type(dtype)) + "{}, ";
    const Value &first = graph_[a], &second = graph_[b];
    if (const auto known = pairs_.find({a, b}); known != pairs_.end())
      return known->second;
    std::string said;
    const bool alike = a != b && first.op == second.op && first.dtype == dtype &&
                       second.dtype == dtype && first.args.size() == second.args.size();
    const auto are_of = [&](const Value &value) {
      return std::all_of(value.args.begin(), value.args.end(),
                         [&](ValueId arg) { return graph_[arg].dtype == dtype; });
    };
    const auto is_small = [&](const Value &value) {
      const auto most = most_of(graph_, value.args[0]);
      return !tensor::is_floating(graph_[value.args[0]].dtype) && most &&
             *most <= most_of_pairs(dtype);
    };
    const std::string small = alike && first.op == Op::to_dtype
                                  ? pair_of_integers(first.args[0], second.args[0], type, dtype)
                                  : "";
    if (!small.empty())
      said = small;
    else if (const std::string fused = fused_pair(a, b, dtype); !fused.empty())
      said = fused;
    else if (const std::string bytes = alike && first.op == Op::to_dtype && dtype == DType::f16
                                           ? pair_of_bytes(first.args[0], second.args[0], type)
                                           : "";
             !bytes.empty())
      said = bytes;
    else if (alike && first.op == Op::to_dtype && is_small(first) && is_small(second))
      said =
          "tc_small_pair(" + type + integer(first.args[0]) + ", " + integer(second.args[0]) + ")";
    else if (alike && are_of(first) && are_of(second) &&
             (first.op == Op::add || first.op == Op::sub || first.op == Op::mul))
      said = "tc_pair_" + std::string(ir::op_name(first.op)) + "(" + type +
             pair(first.args[0], second.args[0], dtype) + ", " +
             pair(first.args[1], second.args[1], dtype) + ")";
    else
      said = "tc_pack(" + type + needed(a) + ", " + needed(b) + ")";
    const std::string name = "p" + std::to_string(pairs_.size());
    text += "    const unsigned " + name + " = " + said + ";\n";
    pairs_[{a, b}] = name;
    return name;
  }
  /// Defines a value, and before it what it is computed from.
  std::string needed(ValueId id) {
    const Value &value = graph_[id];
    if (value.op == Op::constant || has(id))
      return use(id);
    for (const ValueId arg : value.args)
      if (graph_[arg].op != Op::set_indirect) // look_up has been there
        needed(arg);
    if (value.guard != ir::kNone)
      needed(value.guard);
    if (value.op == Op::index_expr)
      define(id, "static_cast<" + std::string(value_type(value.dtype)) + ">(" +
                     symbolic::print_cpp(value.index, graph_.ranges) + ")");
    else if (is_load(value)) {
      const std::string load = "tc_get(" + memory_of_(value) + "[" +
                               symbolic::print_cpp(value.index, graph_.ranges) + "])";
      define(id, value.guard == ir::kNone ? load
                                          : use(value.guard) + " ? " + load + " : " +
                                                std::string(value_type(value.dtype)) + "{}");
    } else
      define(id, computed(id));
    return use(id);
  }
  /// Defines the symbol of a run-time index; `number`: of its check among the kernel's.
  void look_up(const Value &index, bool wraps, size_t number) {
    const std::string extent = symbolic::print_cpp(index.extent, graph_.ranges);
    text += "    const long long " + index.symbol.spelling() + " = tc_check_index(" +
            needed(index.args[0]) + ", " +
            (wraps ? symbolic::print_cpp(Expr(0) - index.extent, graph_.ranges) : "0") + ", " +
            extent + ", " + kFailure + ", " + kCheck + " + " + std::to_string(number) + ");\n";
  }
  std::string use(ValueId id) const {
    const Value &value = graph_[id];
    if (value.op == Op::constant)
      return literal(value.constant, value.dtype);
    return texts_.at(id);
  }
  bool has(ValueId id) const { return texts_.count(id) != 0; }
  std::string computed(ValueId id) const {
    const Value &value = graph_[id];
    if (value.op == Op::to_dtype && tensor::is_floating(value.dtype) && value.dtype != DType::f64 &&
        !tensor::is_floating(graph_[value.args[0]].dtype))
      if (const std::string exact = small_float(value.args[0], value.dtype); !exact.empty())
        return exact;
    if (value.op == Op::to_dtype && tensor::is_floating(value.dtype) && value.dtype != DType::f64 &&
        converts_pairs(graph_[value.args[0]].dtype) && !tensor::is_float8(value.dtype))
      return use(value.args[0]);
    std::vector<ArgumentText> arguments;
    for (const ValueId arg : value.args)
      arguments.push_back({use(arg), graph_[arg].dtype});
    return operation_text(value, arguments);
  }
  /// What loads of a vector's integers are, where it is whole words: the vector and the byte in it.
  std::map<ValueId, std::pair<std::string, int>> places;
  /// The same of 8-bit floats, of vectors of pairs.
  std::map<ValueId, std::pair<std::string, int>> float_places;

private:
  const KernelGraph &graph_;
  std::map<ValueId, std::string> texts_;
  std::map<std::pair<ValueId, ValueId>, std::string> pairs_;
  std::function<std::string(const Value &)> memory_of_;
  size_t next_ = 0;

  std::string integer(ValueId id) { return "static_cast<unsigned>(" + needed(id) + ")"; }

  /// Integers of few bits x, as floats of 32 bits, times a number of `dtype` and another one added,
  /// then rounded to `dtype`: a fused operation of pairs, which rounds once; "": something else.
  std::string fused_pair(ValueId a, ValueId b, DType dtype) {
    const auto first = scaled(a, dtype), second = scaled(b, dtype);
    if (!first || !second)
      return "";
    const std::string type = std::string(storage_type(dtype)) + "{}, ";
    if (first->more != second->more)
      return "";
    const std::string x =
        pair_of_integers(first->integer, second->integer, type, dtype, first->more);
    if (x.empty())
      return "";
    return "tc_pair_fma(" + type + x + ", " + pair(first->factor, second->factor, dtype) + ", " +
           pair(first->summand, second->summand, dtype) + ")";
  }
  /// (integer + more) * factor + summand.
  struct Scaled {
    ValueId integer = ir::kNone, factor = ir::kNone, summand = ir::kNone;
    int64_t more = 0;
  };
  std::optional<Scaled> scaled(ValueId id, DType dtype) const {
    constexpr int64_t kMost = 64; // that is exact beside numbers of 4 bits
    const auto is_float = [&](ValueId which, Op op) {
      return graph_[which].op == op && graph_[which].dtype == DType::f32;
    };
    const auto is_held = [&](ValueId which) { // exactly, by `dtype`
      return is_float(which, Op::to_dtype) && graph_[graph_[which].args[0]].dtype == dtype;
    };
    if (graph_[id].op == Op::to_dtype && graph_[id].dtype == dtype)
      id = graph_[id].args[0];
    if (!is_float(id, Op::add))
      return std::nullopt;
    for (const size_t product : {size_t{0}, size_t{1}}) {
      const ValueId scaled = graph_[id].args[product], summand = graph_[id].args[1 - product];
      for (const size_t x : {size_t{0}, size_t{1}}) {
        if (!is_float(scaled, Op::mul) || !is_held(graph_[scaled].args[1 - x]) || !is_held(summand))
          continue;
        Scaled result{graph_[scaled].args[x], graph_[scaled].args[1 - x], summand, 0};
        if (is_float(result.integer, Op::add)) {
          const Value &sum = graph_[result.integer];
          const auto *more = std::get_if<double>(&graph_[sum.args[1]].constant);
          if (graph_[sum.args[1]].op != Op::constant || !more || std::fabs(*more) > kMost ||
              *more != std::floor(*more))
            continue;
          result.more = static_cast<int64_t>(*more);
          result.integer = sum.args[0];
        }
        if (!is_float(result.integer, Op::to_dtype) || !nibble_of(graph_[result.integer].args[0]))
          continue;
        result.integer = graph_[result.integer].args[0];
        return result;
      }
    }
    return std::nullopt;
  }

  /// What an integer is, if its operations are of numbers (places in a word that follow from an
  /// element's place).
  std::optional<int64_t> number(ValueId id) const {
    constexpr int64_t kMost = 1 << 20, kMostShift = 31; // far from where dtypes end
    const Value &value = graph_[id];
    if (tensor::is_floating(value.dtype))
      return std::nullopt;
    std::optional<int64_t> result;
    if (value.op == Op::constant) {
      if (const auto *known = std::get_if<int64_t>(&value.constant))
        result = *known;
    } else if (value.op == Op::index_expr) {
      result = value.index.as_integer();
    } else if (value.op == Op::to_dtype) {
      result = number(value.args[0]);
    } else if (value.args.size() == 2) {
      const auto a = number(value.args[0]), b = number(value.args[1]);
      if (!a || !b)
        return std::nullopt;
      if (value.op == Op::add)
        result = *a + *b;
      else if (value.op == Op::mul)
        result = *a * *b;
      else if (value.op == Op::bitwise_and)
        result = *a & *b;
      else if (value.op == Op::bitwise_right_shift && *b <= kMostShift)
        result = *a >> *b;
    }
    return result && *result >= 0 && *result <= kMost ? result : std::nullopt;
  }
  /// The vector, and which four bits of it: of a load that is shifted and masked so.
  std::optional<std::pair<std::string, int>> nibble_of(ValueId id) const {
    constexpr int64_t kBits = 4, kMask = 15;
    const Value &value = graph_[id];
    if (value.op == Op::to_dtype && !tensor::is_floating(value.dtype) &&
        value.dtype != DType::boolean && !tensor::is_floating(graph_[value.args[0]].dtype))
      return nibble_of(value.args[0]); // any integer holds it
    int64_t shift = 0;
    ValueId shifted = id;
    bool masked = false;
    if (value.op == Op::bitwise_and)
      for (const size_t i : {size_t{0}, size_t{1}})
        if (!masked && number(value.args[i]) == kMask) {
          shifted = value.args[1 - i];
          masked = true;
        }
    if (graph_[shifted].op == Op::bitwise_right_shift) {
      const auto by = number(graph_[shifted].args[1]);
      if (!by)
        return std::nullopt;
      shift = *by;
      shifted = graph_[shifted].args[0];
    }
    const auto place = places.find(shifted);
    if (place == places.end() || shift < 0 || shift % kBits != 0)
      return std::nullopt;
    const auto bits = 8 * static_cast<int64_t>(tensor::size_in_bytes(graph_[shifted].dtype));
    const bool last = shift == bits - kBits;
    if (shift >= bits || (!masked && !(last && !tensor::is_signed(graph_[shifted].dtype))))
      return std::nullopt;
    return std::pair(place->second.first,
                     place->second.second * 2 + static_cast<int>(shift / kBits));
  }
  /// Two neighbouring 8-bit floats as a pair of f16, which the GPU converts at once.
  std::string pair_of_bytes(ValueId a, ValueId b, const std::string &type) const {
    const auto first = float_places.find(a), second = float_places.find(b);
    if (first == float_places.end() || second == float_places.end() ||
        first->second.first != second->second.first || first->second.second % 2 != 0 ||
        second->second.second != first->second.second + 1)
      return "";
    return "tc_float8_pair<" + std::to_string(first->second.second) + ">(" + type +
           first->second.first + ")";
  }

  /// Two integers of one word as a pair: what takes fewer instructions than one after the other;
  /// "": nothing does.
  std::string pair_of_integers(ValueId a, ValueId b, const std::string &type, DType dtype,
                               int64_t more = 0) const {
    constexpr int kNibbles = 8, kBytes = 4; // of a word
    const auto said = [&](const char *how, int first, int second, const std::string &vector) {
      return how + std::string("<") + std::to_string(first) + ", " + std::to_string(second) +
             (more != 0 ? ", " + std::to_string(more) : "") + ">(" + type + vector + ")";
    };
    const auto first = nibble_of(a), second = nibble_of(b);
    if (first && second && first->first == second->first &&
        first->second / kNibbles == second->second / kNibbles)
      return said("tc_nibble_pair", first->second, second->second, first->first);
    const auto low = places.find(a), high = places.find(b);
    if (dtype == DType::f16 && low != places.end() && high != places.end() &&
        tensor::size_in_bytes(graph_[a].dtype) == 1 && graph_[a].dtype == graph_[b].dtype &&
        graph_[a].dtype != DType::boolean && low->second.first == high->second.first &&
        low->second.second / kBytes == high->second.second / kBytes)
      return said("tc_byte_pair", low->second.second, high->second.second, low->second.first);
    return "";
  }

  /// An integer of few bits as a float, without the unit that converts, of which there are few. All
  /// types of floats hold 8 bits exactly.
  std::string small_float(ValueId id, DType as) const {
    if (const auto byte = places.find(id);
        byte != places.end() && tensor::size_in_bytes(graph_[id].dtype) == 1)
      return "tc_float_of<" + std::to_string(byte->second.second) + ">(" + byte->second.first + ")";
    const auto most = most_of(graph_, id);
    const int64_t exact = tensor::is_reduced_float(as) ? 256 : (1 << 23) - 1;
    return most && *most <= exact ? "tc_small_float(" + use(id) + ")" : "";
  }
};

} // namespace

std::optional<OperandText> OperandText::make(const ir::Module &module, const KernelGraph &graph,
                                             const std::vector<Expr> &place, Expr term,
                                             int64_t terms, int most_words, bool may_pair) {
  if (graph.stores.size() != 1 ||
      std::any_of(graph.values.begin(), graph.values.end(), [](const Value &value) {
        return value.op == Op::set_indirect && value.guard != ir::kNone;
      }))
    return std::nullopt;
  const ValueId stored = graph.stores[0];
  std::optional<OperandText> best;
  for (const auto &[paired, run] : kOrders) {
    if (terms % (paired ? kLanes * run : run) != 0 || (run == 8 && best) || (paired && !may_pair))
      continue;
    KernelGraph split = graph;
    const Expr within = unused_variable(split);
    split.element_variables = place;
    split.element_variables.insert(split.element_variables.end(), {term, within});
    split.element_sizes.resize(place.size());
    split.element_sizes.insert(split.element_sizes.end(), {Expr(terms / run), Expr(run)});
    split.ranges.set_size(term, Expr(terms / run));
    split.ranges.set_size(within, Expr(run));
    const Expr at =
        paired ? scheduler::term_of_pairs(term, within, run) : term * Expr(run) + within;
    for (Value &value : split.values)
      value.index =
          symbolic::simplify(symbolic::substitute(value.index, {{term, at}}), split.ranges);
    std::optional<Unrolled> unrolled = unroll(split, place.size() + 1, kMostValues);
    if (!unrolled) // shorter runs may be few enough values
      continue;
    OperandText text;
    text.run_ = run;
    text.paired_ = paired;
    text.place_ = place;
    text.term_ = term;
    text.graph_ = std::move(unrolled->graph);
    const std::vector<ValueId> &stores = unrolled->copies[stored];
    if (stores.size() != static_cast<size_t>(run))
      break;
    for (const ValueId store : stores)
      text.results_.push_back(text.graph_[store].args[0]);
    text.find_used(module);
    text.find_loads(module, most_words);
    const bool better = !best || text.widest_ > best->widest_;
    if (better)
      best = std::move(text);
    if (best->widest_ >= kAccess)
      break;
  }
  return best;
}

void OperandText::find_used(const ir::Module &module) {
  constexpr int64_t kFar = (int64_t{1} << 31) - 1;
  used_.assign(graph_.values.size(), false);
  for (const ValueId result : results_)
    used_[result] = true;
  for (ValueId id = static_cast<ValueId>(graph_.values.size()); id-- > 0;) {
    const Value &value = graph_[id];
    if (value.op == Op::set_indirect)
      lookups_.insert(lookups_.begin(), id);
    if (value.op == Op::load &&
        symbolic::bounds(module.buffer(value.buffer).layout.storage_size(), graph_.ranges).high >
            kFar)
      wide_ = true;
    if (!used_[id] || value.op == Op::set_indirect)
      continue;
    for (const ValueId arg : value.args)
      used_[arg] = true;
    if (value.guard != ir::kNone)
      used_[value.guard] = true;
  }
}

void OperandText::find_loads(const ir::Module &module, int most_words) {
  // Loads of one buffer, by how far they are from the first one.
  std::vector<std::map<int64_t, ValueId>> families;
  for (ValueId id = 0; id < graph_.values.size(); ++id) {
    const Value &value = graph_[id];
    if (!used_[id] || !is_load(value) || value.guard != ir::kNone)
      continue;
    bool found = false;
    for (auto &family : families) {
      const Value &first = graph_[family.at(0)];
      if (first.buffer != value.buffer)
        continue;
      const auto apart = symbolic::simplify(value.index - first.index, graph_.ranges).as_integer();
      if (apart && family.count(*apart) == 0) {
        family[*apart] = id;
        found = true;
        break;
      }
    }
    if (!found)
      families.push_back({{0, id}});
  }
  for (const auto &family : families)
    for (auto at = family.begin(); at != family.end();) {
      const auto size = static_cast<int64_t>(
          tensor::size_in_bytes(module.buffer(graph_[at->second].buffer).dtype));
      int64_t width = std::max<int64_t>(1, kAccess / size);
      const auto fits = [&] {
        for (int64_t i = 0; i < width; ++i)
          if (family.count(at->first + i) == 0)
            return false;
        return symbolic::known_multiple_of(graph_[at->second].index, width, graph_.ranges);
      };
      while (width > 1 && !fits())
        width /= 2;
      Load load;
      load.name = "v" + std::to_string(loads_.size());
      for (int64_t i = 0; i < width; ++i, ++at)
        load.elements.push_back(at->second);
      load.is_word = width * size == kAccess && words_ < most_words;
      words_ += load.is_word ? 1 : 0;
      widest_ = std::max(widest_, width * size);
      loads_.push_back(std::move(load));
    }
}

bool OperandText::is_copy(DType factor) const {
  std::vector<ValueId> elements;
  for (const Load &load : loads_)
    elements.insert(elements.end(), load.elements.begin(), load.elements.end());
  return words_ == static_cast<int>(loads_.size()) && elements == results_ &&
         graph_[results_[0]].dtype == factor;
}

bool OperandText::has_conditions() const {
  for (ValueId id = 0; id < graph_.values.size(); ++id)
    if (used_[id] && is_load(graph_[id]) && graph_[id].guard != ir::kNone)
      return true;
  return false;
}

std::vector<uint32_t> OperandText::checks() const {
  std::vector<uint32_t> checks;
  for (const ValueId id : lookups_)
    if (std::find(checks.begin(), checks.end(), graph_[id].check) == checks.end())
      checks.push_back(graph_[id].check);
  return checks;
}

std::string OperandText::parameters() const {
  const std::string type = wide_ ? "long long " : "int ";
  std::string text;
  for (const Expr variable : place_)
    text += type + variable.spelling() + ", ";
  return text + type + term_.spelling();
}

double OperandText::instructions() const {
  return static_cast<double>(graph_.values.size()) / run_;
}

std::string OperandText::print(const ir::Module &module, const Parameters &parameters,
                               DType factor) const {
  const std::string count = std::to_string(run_);
  std::string places, taken, members, values;
  std::map<ValueId, std::string> texts;
  std::map<ValueId, std::pair<std::string, int>> integers, floats;
  const auto address = [&](ValueId id) {
    return parameters.name_of(module.storage_of(graph_[id].buffer)) + " + " +
           symbolic::print_cpp(graph_[id].index, graph_.ranges);
  };
  int word = 0;
  for (const Load &load : loads_) {
    const DType dtype = module.buffer(graph_[load.elements[0]].buffer).dtype;
    const std::string type(storage_type(dtype)), width = std::to_string(load.elements.size());
    if (load.is_word) {
      const std::string number = std::to_string(word++);
      places += "    at[" + number + "] = " + address(load.elements[0]) + ";\n";
      taken += "    const tc_vec<" + type + ", " + width + "> " + load.name + " = tc_operand_as<" +
               type + ">(words[" + number + "]);\n";
    } else {
      members += "    tc_vec<" + type + ", " + width + "> " + load.name + ";\n";
      values += (values.empty() ? "" : ", ") + std::string("tc_constant_vec<") + width + ">(" +
                address(load.elements[0]) + ")";
    }
    const std::string from = (load.is_word ? "" : "ahead.") + load.name;
    for (size_t i = 0; i < load.elements.size(); ++i) {
      texts[load.elements[i]] = "tc_get(" + from + ".at[" + std::to_string(i) + "])";
      if (const size_t size = tensor::size_in_bytes(dtype); !tensor::is_floating(dtype) &&
                                                            dtype != DType::boolean &&
                                                            load.elements.size() * size % 4 == 0)
        integers[load.elements[i]] = {from, static_cast<int>(i * size)};
      if (converts_pairs(dtype) && load.elements.size() % 2 == 0) {
        texts[load.elements[i]] = "tc_float_of<" + std::to_string(i) + ">(" + from + ")";
        floats[load.elements[i]] = {from, static_cast<int>(i)};
      }
    }
  }
  const std::string words = std::to_string(word), held = std::to_string(std::max(1, word));
  const auto memory_of = [&](const Value &value) {
    return parameters.name_of(module.storage_of(value.buffer));
  };
  std::string lookups;
  if (!lookups_.empty()) {
    Lines lines(graph_, {}, memory_of);
    for (const ValueId id : lookups_) {
      const auto number =
          std::find(parameters.checks.begin(), parameters.checks.end(), graph_[id].check) -
          parameters.checks.begin();
      lines.look_up(graph_[id], module.check_of(graph_[id].check).wraps,
                    static_cast<size_t>(number));
    }
    lookups = std::move(lines.text);
  }
  const auto function = [&](bool pairs) {
    Lines lines(graph_, texts, memory_of);
    lines.places = integers;
    lines.float_places = floats;
    std::string results;
    const size_t each = pairs ? 2 : 1;
    const std::string given = pairs ? "factors" : "values";
    for (size_t i = 0; i + each <= results_.size(); i += each)
      results +=
          "    " + given + "[" + std::to_string(i / each) + "] = " +
          (pairs ? lines.pair(results_[i], results_[i + 1], factor)
                 : converted(lines.needed(results_[i]), graph_[results_[i]].dtype, DType::f32)) +
          ";\n";
    return "  TC_MEMBER void " + given + "(const tc_operand_word (&words)[" + held +
           "], [[maybe_unused]] const narrow &ahead, " + this->parameters() + ", " +
           (pairs ? "unsigned" : "float") + " (&" + given + ")[" +
           std::to_string(results_.size() / each) + "]) const {\n" + taken + lines.text + results +
           "  }\n";
  };
  return "  static constexpr int run = " + count + ", words = " + words +
         ";\n  static constexpr bool paired = " + (paired_ ? "true" : "false") +
         ";\n  struct narrow {\n" + members + "  };\n  TC_MEMBER void places(" +
         this->parameters() + ", const void *(&at)[" + held + "]) const {\n" +
         (places.empty() ? "" : lookups) + places + "  }\n  TC_MEMBER narrow ahead(" +
         this->parameters() + ") const {\n" + (values.empty() ? "" : lookups) + "    return {" +
         values + "};\n  }\n#ifdef TC_DEVICE\n" + function(true) + "#else\n" + function(false) +
         "#endif\n";
}

} // namespace tsc::codegen
