#include "random_arguments.h"

#include "rebuild.h"

#include <algorithm>
#include <cctype>

namespace tsc::differential {
namespace {

using graph::Argument;
using graph::NodeId;
using ops::Parameter;
using tensor::DType;

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// One call's arguments, made from left to right: later ones look at earlier ones.
class ArgumentMaker {
public:
  ArgumentMaker(const ops::Operator &row, const Surroundings &surroundings, RandomSource &random)
      : row_(row), surroundings_(surroundings), random_(random) {}

  std::optional<RandomArguments> run() {
    RandomArguments result;
    bool by_position = true;
    for (const Parameter &parameter : row_.schema.parameters) {
      const bool keep_default =
          parameter.default_value && random_.chance(parameter.keyword_only ? 70 : 50);
      if (keep_default) {
        by_position = false;
        continue;
      }
      std::optional<Argument> argument = make(parameter);
      if (!argument) {
        if (!parameter.default_value)
          return std::nullopt;
        by_position = false;
        continue;
      }
      if (by_position && !parameter.keyword_only)
        result.args.push_back(std::move(*argument));
      else
        result.kwargs.emplace_back(parameter.name, std::move(*argument));
    }
    return result;
  }

private:
  const ops::Operator &row_;
  const Surroundings &surroundings_;
  RandomSource &random_;
  std::optional<NodeId> self_; // the first tensor
  std::vector<int64_t> sizes_; // its
  DType dtype_ = DType::f32;
  std::optional<int64_t> dim_; // not negative

  int64_t rank() const { return static_cast<int64_t>(sizes_.size()); }
  bool is(std::string_view part) const { return contains(row_.name, part); }

  const tensor::Layout &layout(NodeId id) const {
    return surroundings_.graph->node(id).value->tensor()->layout;
  }
  DType dtype(NodeId id) const { return surroundings_.graph->node(id).value->tensor()->dtype; }

  std::optional<Argument> make(const Parameter &parameter) {
    std::string_view type = parameter.type;
    // A search looks at what it visits of a sorter, which how it is compiled decides: one that is
    // no permutation is refused by some ways and not by others.
    if (parameter.name == "sorter")
      return Argument(graph::None{});
    if (!type.empty() && type.back() == '?' && type != "Tensor?[]") {
      if (random_.chance(40))
        return Argument(graph::None{});
      type.remove_suffix(1);
    }
    const std::string &name = parameter.name;
    if (type == "Tensor")
      return tensor(name);
    if (type == "Tensor[]")
      return tensors(name);
    if (type == "Tensor?[]")
      return indices();
    if (type == "int" || type == "SymInt")
      return Argument(integer(name));
    if (type.rfind("int[", 0) == 0 || type.rfind("SymInt[", 0) == 0) {
      size_t count = 0;
      if (const size_t open = type.find('['); type[open + 1] != ']')
        count = static_cast<size_t>(type[open + 1] - '0');
      return integers(name, count);
    }
    if (type == "float") // what draws numbers is another matter
      return Argument(name == "dropout_p" ? 0.0 : number());
    if (type == "Scalar") // most arithmetic takes ints of ints
      return tensor::is_floating(dtype_) && random_.chance(60) ? Argument(number())
                                                               : Argument(random_.between(-3, 4));
    if (type == "bool")
      return Argument(random_.chance(50));
    if (type.rfind("bool[", 0) == 0) {
      Argument::List list;
      for (size_t i = 0; i < static_cast<size_t>(type[5] - '0'); ++i)
        list.push_back(random_.chance(50));
      return Argument(std::move(list));
    }
    if (type.rfind("float[", 0) == 0) {
      Argument::List list;
      for (size_t i = 0; i < random_.below(3) + 1; ++i)
        list.push_back(static_cast<double>(random_.between(1, 4)) / 2);
      return Argument(std::move(list));
    }
    if (type == "Scalar[]") {
      Argument::List list;
      for (size_t i = 0; i < random_.below(3) + 1; ++i)
        list.push_back(number());
      return Argument(std::move(list));
    }
    if (type == "str")
      return text(name);
    if (type == "ScalarType")
      return Argument(random_dtype());
    if (type == "MemoryFormat")
      return Argument(random_.chance(70) ? graph::MemoryFormat::contiguous
                                         : graph::MemoryFormat::preserve);
    return std::nullopt; // Layout, Device, Generator ...: the default, or another operator
  }

  double number() {
    static const std::vector<double> kNumbers = {0.0,  -0.0, 1.0,   -1.0, 0.5, 2.0,
                                                 0.25, 3.0,  -0.75, 1e-3, 10.0};
    return random_.pick(kNumbers);
  }
  DType random_dtype() {
    static const std::vector<DType> kDTypes = {DType::f32,     DType::f32, DType::f32, DType::f16,
                                               DType::bf16,    DType::f64, DType::i64, DType::i32,
                                               DType::boolean, DType::u8,  DType::i8,  DType::i16};
    return random_.pick(kDTypes);
  }

  std::optional<Argument> text(const std::string &name) {
    static const std::vector<std::string> kModes = {"floor", "trunc"},
                                          kReduce = {"sum", "prod", "mean", "amax", "amin"},
                                          kPads = {"constant", "reflect", "replicate", "circular"},
                                          kApproximate = {"none", "tanh"};
    if (name == "rounding_mode")
      return Argument(random_.pick(kModes));
    if (name == "reduce")
      return Argument(random_.pick(kReduce));
    if (name == "approximate")
      return Argument(random_.pick(kApproximate));
    if (name == "mode" || name == "padding_mode")
      return Argument(random_.pick(kPads));
    if (name == "indexing")
      return Argument(random_.chance(50) ? "ij" : "xy");
    return std::nullopt;
  }

  // ---- tensors

  std::optional<Argument> reference(std::optional<NodeId> id) const {
    return id ? std::optional<Argument>(graph::NodeRef{*id}) : std::nullopt;
  }
  /// Later nodes more often.
  std::optional<NodeId> any_tensor() {
    const auto &all = surroundings_.tensors;
    if (all.empty())
      return std::nullopt;
    const size_t a = random_.below(all.size()), b = random_.below(all.size());
    return all[std::max(a, b)];
  }
  template <class Condition> std::optional<NodeId> some_tensor(const Condition &condition) {
    std::vector<NodeId> fitting;
    for (const NodeId id : surroundings_.tensors)
      if (condition(id))
        fitting.push_back(id);
    if (fitting.empty())
      return std::nullopt;
    return random_.pick(fitting);
  }
  std::optional<NodeId> new_input(DType dtype, std::vector<int64_t> sizes, int64_t low = -3,
                                  int64_t high = 5) {
    return surroundings_.new_input(dtype, std::move(sizes), low, high);
  }

  std::vector<int64_t> random_shape() {
    static const std::vector<int64_t> kSizes = {1, 1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 16, 17};
    std::vector<int64_t> sizes;
    const size_t rank = random_.pick(std::vector<size_t>{0, 1, 1, 2, 2, 2, 3, 3, 4});
    for (size_t i = 0; i < rank; ++i)
      sizes.push_back(random_.chance(3) ? 0 : random_.pick(kSizes));
    return sizes;
  }
  std::vector<int64_t> broadcastable() {
    std::vector<int64_t> sizes = sizes_;
    for (int64_t &size : sizes)
      if (random_.chance(25))
        size = 1;
    while (!sizes.empty() && random_.chance(20))
      sizes.erase(sizes.begin());
    return sizes;
  }
  /// What products, convolutions and normalizations take beside their first operand.
  std::vector<int64_t> related_shape() {
    if (sizes_.empty())
      return {};
    const int64_t last = sizes_.back(), other = random_.between(1, 5);
    const int64_t second = sizes_.size() > 1 ? sizes_[1] : last;
    switch (random_.below(9)) {
    case 0:
      return {last};
    case 1:
      return {last, other};
    case 2:
      return {other, last};
    case 3:
      return {sizes_[0], last, other};
    case 4:
      return {second};
    case 5:
      return {other, second, random_.between(1, 3)};
    case 6:
      return {other, second, random_.between(1, 3), random_.between(1, 3)};
    case 7:
      return sizes_;
    default:
      return {sizes_[0]};
    }
  }

  std::optional<Argument> tensor(const std::string &name) {
    if (!self_) {
      std::optional<NodeId> id = any_tensor();
      const bool reads_numbers = tensor::is_floating(row_dtype_hint());
      if (reads_numbers && (!id || !tensor::is_floating(dtype(*id))) && random_.chance(70))
        id = some_tensor([&](NodeId one) { return tensor::is_floating(dtype(one)); });
      if (!id || random_.chance(12)) {
        static const std::vector<DType> kDTypes = {
            DType::f32, DType::f32, DType::f32,     DType::f32, DType::bf16, DType::f16,
            DType::f64, DType::i64, DType::boolean, DType::i32, DType::u8};
        if (const std::optional<NodeId> input = new_input(random_.pick(kDTypes), random_shape()))
          id = input;
      }
      if (!id)
        return std::nullopt;
      self_ = id;
      dtype_ = dtype(*id);
      if (const auto sizes = static_sizes(surroundings_.graph->node(*id).value))
        sizes_ = *sizes;
      return reference(id);
    }
    if (name == "index" || name == "indices" || name == "input_id" || name == "target")
      return reference(
          index_tensor(random_.chance(60) ? sizes_ : std::vector<int64_t>{random_.between(1, 5)}));
    if (name == "mask" || name == "condition")
      return reference(new_input(DType::boolean, broadcastable()));
    if (contains(name, "mat") || contains(name, "weight") || contains(name, "vec") ||
        contains(name, "batch") || contains(name, "bias") || contains(name, "running") ||
        name == "tensor2" || name == "x2")
      return reference(new_input(dtype_, related_shape()));
    const unsigned way = static_cast<unsigned>(random_.below(100));
    if (way < 45)
      if (const auto same =
              some_tensor([&](NodeId id) { return layout(id).sizes == layout(*self_).sizes; }))
        return reference(same);
    if (way < 65)
      return reference(any_tensor());
    if (way < 85)
      return reference(new_input(dtype_, broadcastable()));
    return reference(new_input(dtype_, related_shape()));
  }
  /// Most operators that refuse ints refuse them all.
  DType row_dtype_hint() const {
    for (const char *part : {"bitwise", "logical", "shift", "gcd", "lcm", "one_hot", "bincount"})
      if (is(part))
        return DType::i64;
    return DType::f32;
  }
  /// Mostly within what it indexes.
  std::optional<NodeId> index_tensor(std::vector<int64_t> sizes) {
    int64_t extent = 1;
    if (!sizes_.empty()) {
      extent = sizes_[static_cast<size_t>(dim_.value_or(0))];
      if (!dim_ || random_.chance(50))
        extent = *std::min_element(sizes_.begin(), sizes_.end());
    }
    const bool both_ends = counts_from_end() && random_.chance(15);
    return new_input(DType::i64, std::move(sizes), both_ends ? -extent : 0,
                     std::max<int64_t>(extent - 1, 0));
  }
  /// Operators that take negative indices; others refuse them when they run.
  bool counts_from_end() const {
    for (const char *part :
         {"aten.index.", "unsafe_index", "index_put", "index_fill", "aten.take", "aten.put"})
      if (is(part))
        return true;
    return false;
  }
  std::optional<Argument> tensors(const std::string &) {
    const size_t count = random_.below(3) + 1;
    Argument::List list;
    if (!self_) {
      const std::optional<Argument> first = tensor("self");
      if (!first)
        return std::nullopt;
      list.push_back(*first);
    }
    while (list.size() < count) {
      std::optional<NodeId> id;
      if (random_.chance(30))
        id = self_;
      else if (random_.chance(60))
        id = some_tensor([&](NodeId one) { return layout(one).sizes == layout(*self_).sizes; });
      else if (!sizes_.empty()) {
        std::vector<int64_t> sizes = sizes_;
        sizes[random_.below(sizes.size())] = random_.between(0, 4);
        id = new_input(dtype_, std::move(sizes));
      }
      list.push_back(graph::NodeRef{id.value_or(*self_)});
    }
    return Argument(std::move(list));
  }
  std::optional<Argument> indices() {
    Argument::List list;
    const std::vector<int64_t> shape = {random_.between(1, 4)};
    const size_t count = std::min<size_t>(sizes_.size(), random_.below(3) + 1);
    for (size_t i = 0; i < count; ++i) {
      if (random_.chance(30) && i + 1 < count) {
        list.push_back(graph::None{});
        continue;
      }
      dim_ = static_cast<int64_t>(i);
      const auto index = index_tensor(shape);
      if (!index)
        return std::nullopt;
      list.push_back(graph::NodeRef{*index});
    }
    return Argument(std::move(list));
  }

  // ---- integers

  int64_t any_dim() {
    const int64_t extent = std::max<int64_t>(rank() + (is("unsqueeze") || is("stack") ? 1 : 0), 1);
    const int64_t dim = random_.between(-extent, extent - 1);
    if (extent == rank())
      dim_ = dim < 0 ? dim + extent : dim;
    return dim;
  }
  int64_t size_at_dim() const {
    return sizes_.empty() ? 1 : sizes_[static_cast<size_t>(dim_.value_or(0))];
  }
  int64_t integer(const std::string &name) {
    if (contains(name, "dim") || name == "axis" || name == "source" || name == "destination")
      return any_dim();
    const int64_t size = size_at_dim();
    if (name == "index")
      return random_.between(-std::max<int64_t>(size, 1), std::max<int64_t>(size - 1, 0));
    if (name == "start")
      return random_.between(-2, size);
    if (name == "end")
      return random_.chance(30) ? INT64_MAX : random_.between(-1, size + 1);
    if (name == "step")
      return random_.between(1, 3);
    if (name == "length" || name == "k" || name == "size")
      return random_.between(is("rot90") ? 0 : 1, std::max<int64_t>(size, 1));
    if (name == "offset" || name == "diagonal" || name == "storage_offset")
      return random_.between(name == "storage_offset" ? 0 : -2, 2);
    if (name == "reduction")
      return random_.between(0, 2);
    if (name == "groups" || name == "num_groups")
      return random_.between(1, 2);
    if (name == "num_classes" || name == "minlength")
      return random_.between(1, 8);
    if (name == "correction")
      return random_.between(0, 1);
    return random_.between(1, 4);
  }
  std::vector<int64_t> factorization() {
    int64_t rest = 1;
    for (const int64_t size : sizes_)
      rest *= size;
    std::vector<int64_t> sizes;
    while (rest > 1 && sizes.size() < 4) {
      std::vector<int64_t> divisors;
      for (int64_t d = 1; d <= rest; ++d)
        if (rest % d == 0)
          divisors.push_back(d);
      sizes.push_back(random_.pick(divisors));
      rest /= sizes.back();
    }
    if (rest != 1 || sizes.empty())
      sizes.push_back(rest);
    random_.shuffle(sizes);
    if (rest != 0 && random_.chance(25))
      sizes[random_.below(sizes.size())] = -1;
    return sizes;
  }
  std::optional<Argument> integers(const std::string &name, size_t count) {
    std::vector<int64_t> values;
    if (name == "normalized_shape") {
      const size_t from = sizes_.empty() ? 0 : random_.below(sizes_.size());
      values.assign(sizes_.begin() + static_cast<std::ptrdiff_t>(from), sizes_.end());
    } else if (contains(name, "dim") || name == "source" || name == "destination") {
      values = dims(count);
    } else if (name == "size" || name == "shape" || name == "sizes") {
      values = shape();
    } else if (name == "split_sizes" || name == "split_size") {
      for (int64_t left = size_at_dim(); left > 0;) {
        values.push_back(random_.between(random_.chance(10) ? 0 : 1, left));
        left -= values.back();
      }
    } else if (name == "pad" || name == "padding") {
      const size_t length = name == "pad" ? 2 * (random_.below(sizes_.size() + 1)) : count;
      for (size_t i = 0; i < std::max<size_t>(length, 1); ++i)
        values.push_back(random_.between(name == "pad" && random_.chance(20) ? -1 : 0, 2));
    } else if (name == "repeats") {
      for (size_t i = 0; i < sizes_.size() + (random_.chance(30) ? 1 : 0); ++i)
        values.push_back(random_.between(random_.chance(5) ? 0 : 1, 2));
    } else if (name == "shifts") {
      for (size_t i = 0; i < random_.below(2) + 1; ++i)
        values.push_back(random_.between(-3, 3));
    } else if (name == "stride" && is("as_strided")) {
      for (size_t i = 0; i < sizes_.size(); ++i)
        values.push_back(random_.between(0, 4));
    } else {
      const int64_t high = name == "stride" || name == "dilation" ? 2 : 3;
      for (size_t i = 0; i < (count != 0 ? count : random_.below(3) + 1); ++i)
        values.push_back(random_.between(1, high));
    }
    Argument::List list;
    for (const int64_t value : values)
      list.push_back(value);
    return Argument(std::move(list));
  }
  std::vector<int64_t> dims(size_t count) {
    std::vector<int64_t> all;
    for (int64_t i = 0; i < rank(); ++i)
      all.push_back(random_.chance(25) ? i - rank() : i);
    if (!is("flip") && !is("permute") && random_.chance(40))
      std::sort(all.begin(), all.end());
    else
      random_.shuffle(all);
    if (!is("permute") && !all.empty())
      all.resize(count != 0 ? std::min(count, all.size()) : random_.below(all.size()) + 1);
    return all;
  }
  std::vector<int64_t> shape() {
    if (is("expand") || is("broadcast_to")) {
      std::vector<int64_t> sizes = sizes_;
      for (int64_t &size : sizes)
        size = size == 1 && random_.chance(60) ? random_.between(1, 4)
               : random_.chance(20)            ? -1
                                               : size;
      if (random_.chance(30))
        sizes.insert(sizes.begin(), random_.between(1, 3));
      return sizes;
    }
    if (is("new_") || !self_)
      return random_shape();
    return factorization();
  }
};

} // namespace

std::optional<RandomArguments>
random_arguments(const ops::Operator &row, const Surroundings &surroundings, RandomSource &random) {
  return ArgumentMaker(row, surroundings, random).run();
}

} // namespace tsc::differential
