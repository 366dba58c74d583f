// torch.einsum as batched matrix products, from left to right.
#include "ops/table/builder.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "support/text.h"

#include <algorithm>
#include <map>

namespace tsc::ops {
namespace {

/// A tensor whose dimensions carry labels: letters, and for what "..." stands for the characters
/// from 1 on, the last dimension's being kEllipsisEnd - 1.
struct Labelled {
  Argument tensor;
  std::string labels;
};
constexpr char kEllipsisEnd = 'A';
constexpr size_t kMostDimensions = 16; // so that their labels stay behind '.' and ','

bool has(const std::string &labels, char label) { return labels.find(label) != std::string::npos; }

[[noreturn]] void refuse(const Call &call, const std::string &what) {
  call.refuse("TSC-O008", "aten.einsum '" + call.string("equation").value_or("") + "': " + what,
              "write it with matmul, permute and sum");
}

struct Equation {
  std::vector<std::string> inputs;
  std::string output;
};

/// "..." in `labels` as the labels of `count` dimensions.
std::string without_ellipsis(const Call &call, const std::string &labels, size_t count) {
  size_t dots = labels.find("...");
  std::string result = labels;
  if (dots != std::string::npos) {
    if (count > kMostDimensions)
      refuse(call, "'...' stands for too many dimensions");
    std::string own;
    for (size_t i = 0; i < count; ++i)
      own += static_cast<char>(static_cast<size_t>(kEllipsisEnd) - count + i);
    result.replace(dots, 3, own);
  }
  if (has(result, '.'))
    refuse(call, "a '.' that is not part of one '...' of an operand");
  return result;
}

/// "ij,jk->ik"; without "->" the output is "..." and the labels that occur once, sorted. `ranks`
/// are those of the operands.
Equation parse(const Call &call, const std::vector<size_t> &ranks) {
  std::string text;
  for (char c : call.string("equation").value_or(""))
    if (c != ' ')
      text += c;
  size_t arrow = text.find("->");
  Equation equation;
  equation.inputs = support::split(text.substr(0, arrow), ',');
  if (ranks.empty() || ranks.size() != equation.inputs.size())
    call.fail("TSC-O044",
              "aten.einsum: " + std::to_string(ranks.size()) + " tensors for " +
                  std::to_string(equation.inputs.size()) + " operands",
              "pass one tensor an operand");
  size_t widest = 0;
  std::map<char, int> counts;
  for (size_t i = 0; i < ranks.size(); ++i) {
    std::string &labels = equation.inputs[i];
    bool open = labels.find("...") != std::string::npos;
    size_t named = labels.size() - (open ? 3 : 0);
    if (named > ranks[i] || (!open && named != ranks[i]))
      call.fail("TSC-O044",
                "aten.einsum: operand " + std::to_string(i) +
                    " has not as many dimensions as labels",
                "give every dimension a label");
    labels = without_ellipsis(call, labels, ranks[i] - named);
    widest = std::max(widest, open ? ranks[i] - named : 0);
    for (char label : labels)
      ++counts[label];
  }
  if (arrow != std::string::npos) {
    equation.output = without_ellipsis(call, text.substr(arrow + 2), widest);
  } else {
    for (const auto &entry : counts)
      if (entry.first < kEllipsisEnd || entry.second == 1)
        equation.output += entry.first;
  }
  for (char label : equation.output)
    if (counts.count(label) == 0 ||
        std::count(equation.output.begin(), equation.output.end(), label) > 1)
      refuse(call, "an output label is in no operand, or twice in the output");
  return equation;
}

/// A label that occurs twice stands for the diagonal of its dimensions.
Labelled with_diagonals(GraphBuilder &builder, Labelled x) {
  for (size_t i = 0; i < x.labels.size();) {
    size_t second = x.labels.find(x.labels[i], i + 1);
    if (second == std::string::npos) {
      ++i;
      continue;
    }
    char label = x.labels[i];
    x.tensor = builder.call("aten.diagonal.default",
                            {x.tensor, 0, static_cast<int64_t>(i), static_cast<int64_t>(second)});
    x.labels.erase(second, 1);
    x.labels.erase(i, 1);
    x.labels += label; // a diagonal becomes the last dimension
  }
  return x;
}

/// Sizes of all labels. A dimension of size 1 goes along with any other size.
std::map<char, Expr> sizes_of(GraphBuilder &builder, const Call &call,
                              const std::vector<Labelled> &operands) {
  std::map<char, Expr> sizes;
  for (const Labelled &x : operands) {
    TensorMeta meta = builder.meta(x.tensor);
    for (size_t i = 0; i < x.labels.size(); ++i) {
      Expr size = meta.layout.sizes[i];
      auto inserted = sizes.emplace(x.labels[i], size);
      Expr &known = inserted.first->second;
      if (known.is_integer(1))
        known = size;
      if (!size.is_integer(1) && known.is_integer() && size.is_integer() && known != size) {
        std::string label = x.labels[i] < kEllipsisEnd ? "..." : std::string(1, x.labels[i]);
        call.fail("TSC-O020",
                  "aten.einsum: label '" + label + "' has sizes " + symbolic::print(known) +
                      " and " + symbolic::print(size),
                  "make them equal");
      }
    }
  }
  return sizes;
}

/// Drops dimensions of size 1 that only go along with a larger one of another operand.
Labelled without_broadcast(GraphBuilder &builder, const Labelled &x,
                           const std::map<char, Expr> &sizes) {
  TensorMeta meta = builder.meta(x.tensor);
  Labelled result;
  std::vector<size_t> dropped;
  for (size_t i = 0; i < x.labels.size(); ++i)
    if (meta.layout.sizes[i].is_integer(1) && !sizes.at(x.labels[i]).is_integer(1))
      dropped.push_back(i);
    else
      result.labels += x.labels[i];
  result.tensor = dropped.empty()
                      ? x.tensor
                      : builder.call("aten.squeeze.dims", {x.tensor, ints_argument(dropped)});
  return result;
}

/// Sums over the labels that `kept` does not hold.
Labelled sum_others(GraphBuilder &builder, const Labelled &x, const std::string &kept) {
  Labelled result;
  std::vector<size_t> dims;
  for (size_t i = 0; i < x.labels.size(); ++i)
    if (has(kept, x.labels[i]))
      result.labels += x.labels[i];
    else
      dims.push_back(i);
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

/// a * b over all labels of both, in the order of `needed`, which holds them.
Labelled multiplied(GraphBuilder &builder, const Labelled &a, const Labelled &b,
                    const std::string &needed) {
  Labelled result;
  for (char label : needed)
    if (!has(result.labels, label) && (has(a.labels, label) || has(b.labels, label)))
      result.labels += label;
  const auto aligned = [&](const Labelled &x) {
    std::string order;
    std::vector<size_t> missing;
    for (size_t i = 0; i < result.labels.size(); ++i)
      if (has(x.labels, result.labels[i]))
        order += result.labels[i];
      else
        missing.push_back(i);
    Argument tensor = permuted(builder, x, order);
    for (size_t i : missing)
      tensor = builder.call("aten.unsqueeze.default", {tensor, static_cast<int64_t>(i)});
    return tensor;
  };
  result.tensor = builder.call(kMul, {aligned(a), aligned(b)});
  return result;
}

/// Whether sumproduct_pair multiplies b by a: where all dimensions that b alone has, or neither,
/// come before those of a, so that the product lies as the output does. `order` holds the labels of
/// all operands, those of the output first; dimensions of one element are of neither.
bool multiplies_turned(const std::map<char, Expr> &sizes, const Labelled &a, const Labelled &b,
                       const std::string &inner, const std::string &order) {
  size_t first_of_a = std::string::npos, last_other = std::string::npos;
  for (size_t i = 0; i < order.size(); ++i) {
    const char label = order[i];
    const bool counts = !sizes.at(label).is_integer(1);
    if (has(inner, label) || (counts && has(a.labels, label) && has(b.labels, label)))
      continue;
    if (counts && has(a.labels, label))
      first_of_a = std::min(first_of_a, i);
    else
      last_other = i;
  }
  return first_of_a != std::string::npos && last_other != std::string::npos &&
         last_other < first_of_a;
}

/// The product of two operands summed over the labels that both have and nobody needs later.
/// `order`: as multiplies_turned has it.
Labelled contract(GraphBuilder &builder, const std::map<char, Expr> &sizes, Labelled a, Labelled b,
                  const std::string &needed, const std::string &order) {
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
  // Without a sum there is nothing for a matrix product to do.
  if (inner.empty())
    return multiplied(builder, a, b, needed);
  if (multiplies_turned(sizes, a, b, inner, order)) {
    std::swap(a, b);
    std::swap(rows, columns);
  }
  Argument product =
      builder.call("aten.bmm.default", {as_batch(a, rows, inner), as_batch(b, inner, columns)});
  if (!builder.meta(product).layout.is_contiguous()) // as the result of a matrix product is
    product = builder.call("aten.clone.default", {product},
                           {{"memory_format", graph::MemoryFormat::contiguous}});
  Labelled result;
  result.labels = batch + rows + columns;
  std::vector<Expr> shape;
  for (char label : result.labels)
    shape.push_back(sizes.at(label));
  result.tensor = builder.call("aten.reshape.default", {product, sizes_argument(shape)});
  return result;
}

Argument einsum(GraphBuilder &builder, const Call &call) {
  const Arguments *tensors = call["tensors"].list();
  std::vector<size_t> ranks;
  for (const TensorMeta &meta : call.tensors("tensors"))
    ranks.push_back(meta.layout.rank());
  Equation equation = parse(call, ranks);
  std::vector<Labelled> operands;
  for (size_t i = 0; i < ranks.size(); ++i)
    operands.push_back(with_diagonals(builder, {(*tensors)[i], equation.inputs[i]}));
  std::map<char, Expr> sizes = sizes_of(builder, call, operands);
  for (Labelled &x : operands)
    x = without_broadcast(builder, x, sizes);
  std::string all = equation.output;
  for (const auto &entry : sizes)
    if (!has(equation.output, entry.first))
      all += entry.first;
  Labelled result = operands[0];
  for (size_t i = 1; i < operands.size(); ++i) {
    std::string needed = equation.output;
    for (size_t later = i + 1; later < operands.size(); ++later)
      needed += operands[later].labels;
    result = contract(builder, sizes, result, operands[i], needed, all);
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
      .effect(Effect::view) // of one operand, where nothing is summed
      .decompose(einsum);
}

} // namespace tsc::ops
