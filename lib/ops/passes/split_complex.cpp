#include "ops/passes/split_complex.h"

#include "ops/families/dead_nodes.h"
#include "ops/passes/clean_up.h"
#include "ops/passes/complex_borders.h"
#include "ops/passes/complex_products.h"
#include "ops/passes/complex_values.h"
#include "ops/table/complex_calls.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/rewrite.h"
#include "ops/table/shape_rules.h"

#include <algorithm>
#include <array>

namespace tsc::ops {

using graph::NodeId;
using graph::NodeKind;
using graph::NodeRef;

namespace {

/// Operators that move elements, or are linear in them: they are applied to each part. The
/// parameters that are complex; others are the same for both.
struct ByParts {
  std::string_view target;
  std::array<std::string_view, 2> values;
};
constexpr ByParts kByParts[] = {{"aten.view.default", {"self"}},
                                {"aten.permute.default", {"self"}},
                                {"aten.expand.default", {"self"}},
                                {"aten.unsqueeze.default", {"self"}},
                                {"aten.squeeze.dims", {"self"}},
                                {"aten.slice.Tensor", {"self"}},
                                {"aten.select.int", {"self"}},
                                {"aten.diagonal.default", {"self"}},
                                {"aten.unfold.default", {"self"}},
                                {"aten.clone.default", {"self"}},
                                {"aten.where.self", {"self", "other"}},
                                {"aten.full.default", {"fill_value"}},
                                {"aten.empty.memory_format", {}},
                                {"aten.empty_strided.default", {}},
                                {"aten.sum.dim_IntList", {"self"}},
                                {"aten.cumsum.default", {"self"}},
                                {"aten.cat.default", {"tensors"}},
                                {"aten.constant_pad_nd.default", {"self", "value"}},
                                {"aten.flip.default", {"self"}},
                                {"tsc.rotate.default", {"self"}},
                                {"aten.index.Tensor", {"self"}},
                                {"aten.gather.default", {"self"}},
                                {"aten.embedding.default", {"weight"}},
                                {"aten.index_put.default", {"self", "values"}},
                                {"aten.scatter.src", {"self", "src"}},
                                {"aten.scatter.value", {"self", "value"}},
                                {"aten.scatter_add.default", {"self", "src"}},
                                {"aten.slice_scatter.default", {"self", "src"}},
                                {"aten.select_scatter.default", {"self", "src"}},
                                {"tsc.windows.default", {"self"}},
                                {"tsc.overlaps.default", {"self"}},
                                {"tsc.covering_windows.default", {"self"}},
                                {"tsc.unfold_scatter.default", {"self", "src"}}};

std::string_view function_of(std::string_view target) {
  if (target.rfind("aten.", 0) != 0)
    return "";
  target.remove_prefix(5);
  return target.substr(0, target.find('.'));
}

bool is_complex(const std::optional<Value> &value) {
  const TensorMeta *meta = value ? value->tensor() : nullptr;
  return meta != nullptr && tensor::is_complex(meta->dtype);
}

class SplitComplex {
public:
  explicit SplitComplex(Graph graph)
      : rewrite_(std::move(graph), {"tsc.attention.default", "aten.convolution.default"}),
        values_(rewrite_.builder()) {}

  Graph run() {
    for (NodeId id = 0; id < rewrite_.source().nodes.size(); ++id) {
      const Node &old = rewrite_.source().node(id);
      if (old.kind == NodeKind::call_function) {
        try {
          visit(id, old);
        } catch (const support::UserError &error) {
          note(error, id);
        }
        continue;
      }
      if (old.kind == NodeKind::output)
        give_outputs();
      const bool complex = is_complex(old.value);
      rewrite_.copy(id);
      if (complex && old.kind != NodeKind::output)
        values_.add_input(rewrite_.replacement(id).node()->id);
    }
    if (!problems_.empty())
      throw support::UserError(exit_code_, std::move(problems_));
    return remove_dead_nodes(rewrite_.take());
  }

private:
  Rewrite rewrite_;
  ComplexValues values_;
  std::vector<support::Diagnostic> problems_;
  support::ExitCode exit_code_ = support::ExitCode::unsupported;
  const Value *value_ = nullptr; // of the node that is being visited

  GraphBuilder &builder() { return rewrite_.builder(); }
  const TensorMeta &result() const { return *value_->tensor(); }

  /// Its users are looked at as well: something stands for its value.
  void note(const support::UserError &error, NodeId id) {
    for (const support::Diagnostic &diagnostic : error.diagnostics())
      problems_.push_back(diagnostic);
    if (error.exit_code() != support::ExitCode::unsupported)
      exit_code_ = error.exit_code();
    const std::optional<Value> &value = rewrite_.source().node(id).value;
    const TensorMeta *meta = value ? value->tensor() : nullptr;
    if (meta == nullptr)
      throw support::UserError(exit_code_, std::move(problems_));
    rewrite_.replace(id, tensor::is_complex(meta->dtype) ? values_.add_parts({0.0, 0.0}, *meta)
                                                         : values_.filled(0.0, *meta));
  }

  void give_outputs() {
    std::vector<bool> done(rewrite_.source().nodes.size(), false);
    for (const graph::OutputSpec &output : rewrite_.source().outputs)
      graph::for_each_node(output.value, [&](NodeRef given) {
        const Node &old = rewrite_.source().node(given.id);
        if (done[given.id] || !is_complex(old.value) || old.kind != NodeKind::call_function)
          return;
        done[given.id] = true;
        const Argument memory = values_.made_memory(rewrite_.replacement(given.id));
        rewrite_.replace(given.id, builder().emit("aten.view_as_complex.default", {memory}));
      });
  }

  void visit(NodeId id, const Node &old) {
    const std::string target = old.target;
    const std::optional<Value> value = old.value;
    value_ = value ? &*value : nullptr;
    const NodeRef *viewed = old.args.empty() ? nullptr : old.args[0].node();
    const bool of_parts = viewed && target == "aten.select.int" &&
                          rewrite_.source().node(viewed->id).target == "aten.view_as_real.default";
    const Argument whole = of_parts ? rewrite_.source().node(viewed->id).args.at(0) : Argument();
    Node node = rewrite_.take_mapped(id);
    builder().set_source(node);
    const Operator &row = *find_operator(target);
    const Call call = rewrite_.call(node, row);
    if (of_parts && is_last_of_parts(call)) {
      const auto index = static_cast<size_t>(call.integer("index") & 1);
      const Argument complex = rewrite_.mapped(whole);
      rewrite_.replace(id, values_.part(complex, index, result().dtype));
      return;
    }
    if (target == "aten._neg_view.default" && !is_complex(value)) {
      rewrite_.replace(id, builder().call("aten.neg.default", {call["self"]}));
      return;
    }
    if (!is_complex(value) && !involves_complex(call)) {
      copy(id, std::move(node));
      return;
    }
    rewrite_.replace(id, split(call, row));
  }

  static bool is_last_of_parts(const Call &call) {
    const auto rank = static_cast<int64_t>(call.tensor("self").layout.rank());
    const int64_t dim = call.integer("dim");
    const int64_t *index = std::get_if<int64_t>(&call["index"].value);
    return (dim == -1 || dim == rank - 1) && index != nullptr;
  }

  /// Real: the strides of what it reads may have changed.
  void copy(NodeId id, Node node) {
    if (node.target == "aten.view.default") {
      rewrite_.replace(id, builder().call("aten.reshape.default", {node.args.at(0), node.args[1]}));
      return;
    }
    if (node.value)
      node.value = infer_value(builder().graph(), node, builder().shared_ranges());
    rewrite_.replace(id, NodeRef{builder().append(std::move(node))});
  }

  [[noreturn]] static void refuse(const Call &call) {
    call.refuse("TSC-O150", call.node().target + " of complex numbers is not supported",
                "compute with the parts (torch.view_as_real)");
  }

  RealMath math_of(const Call &call) {
    DType dtype = DType::f32;
    const auto look = [&](NodeRef used) {
      const std::optional<Value> &value = call.graph().node(used.id).value;
      if (value && value->tensor() && part_dtype(value->tensor()->dtype) == DType::f64)
        dtype = DType::f64;
    };
    const bool complex = is_complex(*value_);
    for (const Argument &argument : call.node().args)
      if (!complex)
        graph::for_each_node(argument, look);
    if (complex)
      dtype = part_dtype(result().dtype);
    const TensorMeta *meta = value_->tensor();
    return {builder(), dtype, meta != nullptr ? meta->device : tensor::Device{}};
  }
  static bool is_complex(const Value &value) { return ops::is_complex(std::optional(value)); }
  static bool is_complex(const std::optional<Value> &value) { return ops::is_complex(value); }

  Argument split(const Call &call, const Operator &row) {
    if (value_ == nullptr || value_->tensor() == nullptr)
      refuse(call);
    if (std::optional<Argument> view = split_view(call))
      return *view;
    const RealMath math = math_of(call);
    if (std::optional<Argument> real = real_result(math, call))
      return values_.filled(*real, result());
    if (is_complex(*value_))
      if (std::optional<Argument> memory = complex_product_memory(math, values_, call))
        return values_.add_memory(*memory, result());
    if (call.node().target == "aten.clone.default")
      if (const Argument memory = values_.copied_memory(call["self"], result()); !memory.is_none())
        return values_.add_memory(memory, result());
    if (std::optional<Pair> pair = complex_result(math, call))
      return values_.add_parts(*pair, result());
    for (const ByParts &each : kByParts)
      if (each.target == row.name)
        return by_parts(call, each);
    refuse(call);
  }

  // ---- elementwise

  /// What is a real tensor.
  std::optional<Argument> real_result(const RealMath &math, const Call &call) {
    const std::string &target = call.node().target;
    const auto operand = [&](std::string_view name) { return values_.operand(math, call[name]); };
    const std::string_view function = function_of(target);
    if (function == "abs")
      return pairs::magnitude(math, operand("self"));
    if (function == "angle")
      return pairs::angle(math, operand("self"));
    if (target == "tsc.real_part.default" || target == "tsc.imaginary_part.default")
      return values_.part(call["self"], target == "tsc.real_part.default" ? 0 : 1, result().dtype);
    if (function == "isnan" || function == "isinf") {
      const Pair x = operand("self");
      return math.either(math.call(function, x.re), math.call(function, x.im));
    }
    if (function == "logical_not")
      return builder().call("aten.logical_not.default", {pairs::truth(math, operand("self"))});
    if (function == "eq" || function == "ne") {
      const Argument equal = pairs::equal(math, operand("self"), operand("other"));
      return function == "eq" ? equal : builder().call("aten.logical_not.default", {equal});
    }
    if (function == "logical_and" || function == "logical_or" || function == "logical_xor")
      return builder().call(
          target, {pairs::truth(math, operand("self")), pairs::truth(math, operand("other"))});
    if (target == kConvert && !is_complex(*value_)) {
      const Pair x = operand("a");
      return result().dtype == DType::boolean ? pairs::truth(math, x) : x.re;
    }
    return std::nullopt;
  }

  std::optional<Pair> complex_result(const RealMath &math, const Call &call) {
    const std::string &target = call.node().target;
    const auto operand = [&](std::string_view name) { return values_.operand(math, call[name]); };
    if (target == "aten.add.Tensor")
      return pairs::add(math, operand("self"), operand("other"));
    if (target == "aten.sub.Tensor")
      return pairs::subtract(math, operand("self"), operand("other"));
    if (target == "aten.mul.Tensor")
      return pairs::multiply(math, operand("self"), operand("other"));
    if (target == "aten.div.Tensor")
      return pairs::divide(math, operand("self"), operand("other"));
    if (target == "aten.complex.default")
      return Pair{convert(builder(), call["real"], math.dtype()),
                  convert(builder(), call["imag"], math.dtype())};
    if (target == "aten._conj.default") {
      const Pair x = operand("self");
      return Pair{x.re, math.negate(x.im)};
    }
    if (target == "aten._neg_view.default")
      return pairs::subtract(math, {-0.0, -0.0}, operand("self"));
    if (target == kConvert)
      return operand("a");
    if (target == "aten.pow.Tensor_Tensor" || target == "aten.pow.Scalar")
      return pairs::power(math, operand("self"), operand("exponent"));
    if (target == "aten.pow.Tensor_Scalar")
      return power_of_number(math, call);
    if (target.size() > 8 && target.rfind(".default") == target.size() - 8)
      if (const pairs::Function function = pairs::find_function(function_of(target)))
        return function(math, operand("self"));
    return complex_product(math, values_, call);
  }

  Pair power_of_number(const RealMath &math, const Call &call) {
    const Pair base = values_.operand(math, call["self"]),
               exponent = values_.operand(math, call["exponent"]);
    const auto number = [](const Argument &part) -> std::optional<double> {
      if (const double *real = std::get_if<double>(&part.value))
        return *real;
      if (const int64_t *integer = std::get_if<int64_t>(&part.value))
        return static_cast<double>(*integer);
      return std::nullopt;
    };
    const std::optional<double> re = number(exponent.re), im = number(exponent.im);
    return re && im ? pairs::power(math, base, std::complex<double>(*re, *im))
                    : pairs::power(math, base, exponent);
  }

  // ---- views

  /// Of the memory, where it is known: what is seen of it stays a view.
  std::optional<Argument> split_view(const Call &call) {
    const std::string &target = call.node().target;
    if (target == "aten.view_as_real.default")
      return values_.made_memory(call["self"]);
    if (target == "aten.view_as_complex.default")
      return values_.add_memory(call["self"], result());
    if (target == "aten.as_strided.default")
      return values_.add_memory(strided_memory(call), result());
    const bool is_view = find_operator(target)->effect == Effect::view && call.has("self") &&
                         values_.is_complex(call["self"]);
    const Argument *memory = is_view ? values_.memory(call["self"]) : nullptr;
    if (memory == nullptr)
      return std::nullopt;
    const Argument whole = *memory;
    if (const std::optional<Argument> seen = seen_memory(call, whole))
      return values_.add_memory(*seen, result());
    return std::nullopt;
  }

  std::optional<Argument> seen_memory(const Call &call, const Argument &memory) {
    const std::string &target = call.node().target;
    const size_t rank = call.tensor("self").layout.rank();
    const auto positive = [&](int64_t dim, size_t extent) {
      return Argument(dim < 0 ? dim + static_cast<int64_t>(extent) : dim);
    };
    if (target == "aten.view.default" || target == "aten.expand.default") {
      std::vector<Expr> sizes = result().layout.sizes;
      sizes.emplace_back(2);
      return builder().call(target == "aten.expand.default" ? target : "aten.reshape.default",
                            {memory, sizes_argument(sizes)});
    }
    if (target == "aten.permute.default") {
      Arguments dims;
      for (const int64_t dim : call.integers("dims"))
        dims.push_back(positive(dim, rank));
      dims.emplace_back(static_cast<int64_t>(rank));
      return builder().call(target, {memory, dims});
    }
    if (target == "aten.unsqueeze.default")
      return builder().call(target, {memory, positive(call.integer("dim"), rank + 1)});
    if (target == "aten.slice.Tensor" && rank > 0)
      return builder().call(target, {memory, positive(call.integer("dim"), rank), call["start"],
                                     call["end"], call["step"]});
    if (target == "aten.select.int")
      return builder().call(target, {memory, positive(call.integer("dim"), rank), call["index"]});
    return std::nullopt;
  }

  Argument strided_memory(const Call &call) {
    const Argument memory = values_.made_memory(call["self"]);
    std::vector<Expr> sizes = call.sizes("size"), strides;
    for (const Expr stride : call.sizes("stride"))
      strides.push_back(stride * Expr(2));
    sizes.emplace_back(2);
    strides.emplace_back(1);
    const Expr offset = call.has("storage_offset") ? call.size("storage_offset")
                                                   : call.tensor("self").layout.offset;
    return builder().emit(
        "aten.as_strided.default",
        {memory, sizes_argument(sizes), sizes_argument(strides), size_argument(offset * Expr(2))});
  }

  // ---- by parts

  Argument by_parts(const Call &call, const ByParts &row) {
    const DType dtype = part_dtype(result().dtype);
    Pair parts;
    for (const size_t index : {size_t{0}, size_t{1}}) {
      Arguments args;
      Keywords keywords;
      for (const Parameter &parameter : call.schema().parameters) {
        const bool is_value =
            std::find(row.values.begin(), row.values.end(), parameter.name) != row.values.end();
        Argument argument = call[parameter.name];
        if (is_value)
          argument = part_of(argument, index, dtype);
        else if (const DType *given = std::get_if<DType>(&argument.value))
          argument = part_dtype(*given);
        else if (parameter.name == "dtype" && row.values[0] != "self")
          argument = dtype; // of a complex fill
        if (parameter.keyword_only)
          keywords.emplace_back(parameter.name, argument);
        else
          args.push_back(argument);
      }
      const bool is_reshape = call.node().target == "aten.view.default";
      (index == 0 ? parts.re : parts.im) =
          builder().call(is_reshape ? "aten.reshape.default" : call.node().target, args, keywords);
    }
    return values_.add_parts(parts, result());
  }

  Argument part_of(const Argument &argument, size_t index, DType dtype) {
    const Arguments *list = argument.list();
    if (list == nullptr)
      return values_.part(argument, index, dtype);
    Arguments parts;
    for (const Argument &item : *list)
      parts.push_back(values_.part(item, index, dtype));
    return parts;
  }
};

bool has_complex(const Graph &graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node &node) {
    return is_complex(node.value) || node.target == "aten._neg_view.default";
  });
}

} // namespace

graph::Graph split_complex(graph::Graph graph, const PassOptions &) {
  if (has_ordered_operators(graph)) // a compiler's own: nothing is rewritten
    return graph;
  graph = with_real_borders(std::move(graph));
  return has_complex(graph) ? SplitComplex(std::move(graph)).run() : std::move(graph);
}

} // namespace tsc::ops
