// torch.einsum as batched matrix products, from left to right.
#include "ops/builder.h"
#include "ops/pointwise_rules.h"
#include "ops/shape_rules.h"
#include "ops/table.h"
#include "support/diagnostic.h"
#include "support/text.h"

#include <algorithm>
#include <map>

namespace tsc::ops {
namespace {

/// A tensor whose dimensions carry labels.
struct Labelled {
  Argument tensor;
  std::string labels;
};

bool has(const std::string &labels, char label) { return labels.find(label) != std::string::npos; }

[[noreturn]] void fail_equation(const Call &call, const std::string &equation,
                                const std::string &what) {
  throw support::UserError(
      support::ExitCode::unsupported,
      support::Diagnostic{"TSC-O008", "aten.einsum '" + equation + "': " + what, "", "",
                          call.node().name, "", "write it with matmul, permute and sum"});
}

struct Equation {
  std::vector<std::string> inputs;
  std::string output;
};

/// "ij,jk->ik"; without "->" the output is the labels that occur once, sorted.
Equation parse(const Call &call) {
  std::string text;
  for (char c : call.string("equation").value_or(""))
    if (c != ' ')
      text += c;
  Equation equation;
  size_t arrow = text.find("->");
  equation.inputs = support::split(text.substr(0, arrow), ',');
  std::map<char, int> counts;
  for (const std::string &labels : equation.inputs) {
    for (char label : labels) {
      if (label == '.')
        fail_equation(call, text, "'...' is not supported");
      if (std::count(labels.begin(), labels.end(), label) > 1)
        fail_equation(call, text, "a label twice in one operand is not supported");
      ++counts[label];
    }
  }
  if (arrow != std::string::npos) {
    equation.output = text.substr(arrow + 2);
  } else {
    for (const auto &entry : counts)
      if (entry.second == 1)
        equation.output += entry.first;
  }
  for (char label : equation.output)
    if (counts.count(label) == 0)
      fail_equation(call, text, "an output label is in no operand");
  return equation;
}

/// Sums over the labels that `kept` does not hold.
Labelled sum_others(GraphBuilder &builder, const Labelled &x, const std::string &kept) {
  Labelled result;
  std::vector<size_t> dims;
  for (size_t i = 0; i < x.labels.size(); ++i) {
    if (has(kept, x.labels[i]))
      result.labels += x.labels[i];
    else
      dims.push_back(i);
  }
  result.tensor =
      dims.empty() ? x.tensor
                   : builder.call("aten.sum.dim_IntList", {x.tensor, ints_argument(dims), false});
  return result;
}

Argument permuted(GraphBuilder &builder, const Labelled &x, const std::string &order) {
  std::vector<size_t> dims;
  for (char label : order)
    dims.push_back(x.labels.find(label));
  return x.labels == order ? x.tensor
                           : builder.call("aten.permute.default", {x.tensor, ints_argument(dims)});
}

/// The product of two operands summed over the labels that both have and nobody needs later.
Labelled contract(GraphBuilder &builder, const Call &call, Labelled a, Labelled b,
                  const std::string &needed) {
  a = sum_others(builder, a, needed + b.labels);
  b = sum_others(builder, b, needed + a.labels);
  std::string batch, rows, inner, columns;
  for (char label : a.labels)
    (!has(b.labels, label) ? rows : has(needed, label) ? batch : inner) += label;
  for (char label : b.labels)
    if (!has(a.labels, label))
      columns += label;
  // In the order of the output, so that the last product needs no permutation where that is
  // possible.
  auto by_need = [&](char x, char y) { return needed.find(x) < needed.find(y); };
  for (std::string *labels : {&batch, &rows, &columns})
    std::stable_sort(labels->begin(), labels->end(), by_need);
  std::map<char, Expr> sizes;
  for (const Labelled *x : {&a, &b}) {
    TensorMeta meta = builder.meta(x->tensor);
    for (size_t i = 0; i < x->labels.size(); ++i) {
      auto inserted = sizes.emplace(x->labels[i], meta.layout.sizes[i]);
      if (!inserted.second && inserted.first->second != meta.layout.sizes[i] &&
          inserted.first->second.is_integer() && meta.layout.sizes[i].is_integer())
        call.fail("TSC-O020",
                  std::string("aten.einsum: label '") + x->labels[i] + "' has sizes " +
                      symbolic::print(inserted.first->second) + " and " +
                      symbolic::print(meta.layout.sizes[i]),
                  "make them equal");
    }
  }
  auto extent = [&](const std::string &labels) {
    Expr product(1);
    for (char label : labels)
      product *= sizes.at(label);
    return product;
  };
  auto as_batch = [&](const Labelled &x, const std::string &first, const std::string &second) {
    Argument ordered = permuted(builder, x, batch + first + second);
    return builder.call("aten.reshape.default",
                        {ordered, sizes_argument({extent(batch), extent(first), extent(second)})});
  };
  Argument left = as_batch(a, rows, inner);
  Argument right = as_batch(b, inner, columns);
  Argument product = builder.call("aten.bmm.default", {left, right});
  Labelled result;
  result.labels = batch + rows + columns;
  std::vector<Expr> shape;
  for (char label : result.labels)
    shape.push_back(sizes.at(label));
  result.tensor = builder.call("aten.reshape.default", {product, sizes_argument(shape)});
  return result;
}

Argument einsum(GraphBuilder &builder, const Call &call) {
  Equation equation = parse(call);
  const Arguments *tensors = call["tensors"].list();
  size_t count = tensors ? tensors->size() : 0;
  if (count == 0 || count != equation.inputs.size())
    call.fail("TSC-O044",
              "aten.einsum: " + std::to_string(count) + " tensors for " +
                  std::to_string(equation.inputs.size()) + " operands",
              "pass one tensor an operand");
  for (size_t i = 0; i < count; ++i)
    if (builder.meta((*tensors)[i]).layout.rank() != equation.inputs[i].size())
      call.fail("TSC-O044",
                "aten.einsum: operand " + std::to_string(i) +
                    " has not as many dimensions as labels",
                "give every dimension a label");
  Labelled result{(*tensors)[0], equation.inputs[0]};
  for (size_t i = 1; i < count; ++i) {
    std::string needed = equation.output;
    for (size_t later = i + 1; later < count; ++later)
      needed += equation.inputs[later];
    result = contract(builder, call, result, {(*tensors)[i], equation.inputs[i]}, needed);
  }
  std::string order = equation.output; // then what is summed
  for (char label : result.labels)
    if (!has(equation.output, label))
      order += label;
  result = {permuted(builder, result, order), order};
  return sum_others(builder, result, equation.output).tensor;
}

} // namespace

void add_einsum(Table &table) {
  table.add("einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor")
      .decompose(einsum);
}

} // namespace tsc::ops
