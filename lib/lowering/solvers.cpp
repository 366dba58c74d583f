// Linear algebra: library calls on matrices whose columns lie one after another. Fourier
// transforms: the same of rows.
#include "engine/solver.h"
#include "lowering/build.h"
#include "lowering/realize.h"
#include "lowering/registry.h"
#include "lowering/small_matrices.h"
#include "lowering/tuple_call.h"

namespace tsc::lowering {

namespace {

using tsc_engine::Routine;
using tsc_engine::SolverFlag;

/// Strides of matrices by columns, batches outside, or of vectors.
std::vector<Expr> column_strides(const std::vector<Expr> &sizes, bool is_matrix) {
  if (!is_matrix)
    return tensor::contiguous_strides(sizes);
  std::vector<Expr> swapped = sizes;
  std::swap(swapped[swapped.size() - 1], swapped[swapped.size() - 2]);
  std::vector<Expr> strides = tensor::contiguous_strides(swapped);
  std::swap(strides[strides.size() - 1], strides[strides.size() - 2]);
  return strides;
}

/// `paired`: elements are the pairs of the last dimension.
ir::BufferView operand(Context &context, TensorValue value, bool is_matrix, bool paired) {
  if (value.dtype != value.storage->dtype) // reinterpreted bits
    value = copy(context, value);
  std::vector<Expr> sizes = value.sizes;
  if (!paired)
    return require_strides(context, value, column_strides(sizes, is_matrix));
  sizes.pop_back();
  std::vector<Expr> strides = column_strides(sizes, is_matrix);
  for (Expr &stride : strides)
    stride = stride * Expr(2);
  strides.emplace_back(1);
  return require_strides(context, value, strides);
}

class SolverCall {
public:
  SolverCall(Context &context, const ops::Call &call, Routine routine, std::string_view matrix)
      : context_(context), call_(call), paired_(call.boolean("paired")) {
    const TensorValue a = tensor_argument(context, call, matrix);
    const size_t rank = a.sizes.size() - (paired_ ? 1 : 0);
    library_.kernel = "lapack." + std::string(call.node().target.substr(4));
    library_.kernel = library_.kernel.substr(0, library_.kernel.rfind('.'));
    library_.ir_class = "FallbackKernel";
    library_.library = ir::Library::solver;
    library_.solver.routine = static_cast<uint8_t>(routine);
    library_.solver.batch = symbolic::numel(std::vector<Expr>(
        a.sizes.begin(), a.sizes.begin() + static_cast<std::ptrdiff_t>(rank) - 2));
    library_.solver.m = a.sizes[rank - 2];
    library_.solver.n = a.sizes[rank - 1];
    library_.inputs.push_back(operand(context, a, true, paired_));
    flag(tsc_engine::kComplex, paired_);
  }
  /// Matrices [.., k].
  SolverCall &right_side(std::string_view parameter) { return also(parameter, true); }
  /// Vectors [.., k] of elements.
  SolverCall &factors(std::string_view parameter) { return also(parameter, false); }
  SolverCall &pivots(std::string_view parameter) {
    const TensorValue value = tensor_argument(context_, call_, parameter);
    library_.inputs.push_back(operand(context_, value, false, false));
    return *this;
  }
  SolverCall &flag(SolverFlag flag, bool is_set) {
    if (is_set)
      library_.solver.flags = static_cast<uint8_t>(library_.solver.flags | flag);
    return *this;
  }
  SolverCall &with_info() {
    library_.solver.has_info = true;
    return *this;
  }
  NodeValue run() {
    solve_in_kernel(library_, context_.target);
    std::vector<graph::TensorMeta> results;
    const graph::Value &value = *call_.node().value;
    if (const graph::TensorMeta *one = value.tensor())
      return std::get<std::vector<TensorValue>>(
          tuple_call(context_, std::move(library_), {*one}))[0];
    for (const graph::Value &item : *value.list())
      results.push_back(*item.tensor());
    return tuple_call(context_, std::move(library_), results);
  }

private:
  Context &context_;
  const ops::Call &call_;
  const bool paired_;
  ir::Extern library_;

  SolverCall &also(std::string_view parameter, bool is_matrix) {
    const TensorValue value = tensor_argument(context_, call_, parameter);
    library_.solver.k = value.sizes[value.sizes.size() - (paired_ ? 2 : 1)];
    library_.inputs.push_back(operand(context_, value, is_matrix, paired_));
    return *this;
  }
};

/// A Fourier transform over `dims` dimensions before the pairs of complex elements; `out_length`:
/// of the last of them, where it is not the input's.
NodeValue transform(Context &context, const ops::Call &call, Routine routine, size_t dims) {
  TensorValue x = tensor_argument(context, call, "self");
  if (x.dtype != x.storage->dtype) // reinterpreted bits
    x = copy(context, x);
  const bool of_real = routine == Routine::fourier_of_real;
  const size_t end = x.sizes.size() - (of_real ? 0 : 1);
  const auto begin = x.sizes.begin(), first = begin + static_cast<std::ptrdiff_t>(end - dims);
  ir::Extern library;
  library.kernel = "fft." + std::string(call.node().target.substr(4));
  library.kernel = library.kernel.substr(0, library.kernel.rfind('.'));
  library.ir_class = "FallbackKernel";
  library.library = ir::Library::solver;
  library.solver.routine = static_cast<uint8_t>(routine);
  library.solver.batch = symbolic::numel(std::vector<Expr>(begin, first));
  Expr *const lengths[] = {&library.solver.k, &library.solver.n, &library.solver.m};
  for (size_t i = 0; i < std::size(lengths); ++i)
    *lengths[i] = i < dims ? x.sizes[end - 1 - i] : Expr(1);
  if (routine == Routine::fourier_to_real)
    library.solver.k = call.size("length");
  if (routine == Routine::fourier && !call.boolean("forward"))
    library.solver.flags = tsc_engine::kBackward;
  library.inputs.push_back(
      require_strides(context, x, tensor::contiguous_strides(std::vector<Expr>(x.sizes))));
  return std::get<std::vector<TensorValue>>(
      tuple_call(context, std::move(library), {*call.node().value->tensor()}))[0];
}

size_t dims_of(const ops::Call &call) { return static_cast<size_t>(call.integer("dims")); }

} // namespace

void add_solvers(Registry &registry) {
  registry["cholesky"] = [](Context &context, const ops::Call &call) {
    return SolverCall(context, call, Routine::cholesky, "self")
        .flag(tsc_engine::kUpper, call.boolean("upper"))
        .with_info()
        .run();
  };
  registry["lu"] = [](Context &context, const ops::Call &call) {
    return SolverCall(context, call, Routine::lu, "self").with_info().run();
  };
  registry["lu_solve"] = [](Context &context, const ops::Call &call) {
    return SolverCall(context, call, Routine::lu_solve, "lu")
        .right_side("other")
        .pivots("pivots")
        .flag(tsc_engine::kTransposed, call.boolean("transposed"))
        .run();
  };
  registry["triangular_solve"] = [](Context &context, const ops::Call &call) {
    return SolverCall(context, call, Routine::triangular_solve, "self")
        .right_side("other")
        .flag(tsc_engine::kUpper, call.boolean("upper"))
        .flag(tsc_engine::kTransposed, call.boolean("transposed"))
        .flag(tsc_engine::kUnit, call.boolean("unitriangular"))
        .run();
  };
  registry["reflections"] = [](Context &context, const ops::Call &call) {
    return SolverCall(context, call, Routine::qr, "self").run();
  };
  registry["orthogonal"] = [](Context &context, const ops::Call &call) {
    return SolverCall(context, call, Routine::orthogonal, "self").factors("factors").run();
  };
  registry["symmetric_eigen"] = [](Context &context, const ops::Call &call) {
    return SolverCall(context, call, Routine::symmetric_eigen, "self")
        .flag(tsc_engine::kUpper, call.boolean("upper"))
        .flag(tsc_engine::kVectors, call.boolean("vectors"))
        .with_info()
        .run();
  };
  registry["svd"] = [](Context &context, const ops::Call &call) {
    return SolverCall(context, call, Routine::svd, "self")
        .flag(tsc_engine::kFull, call.boolean("full"))
        .flag(tsc_engine::kVectors, call.boolean("vectors"))
        .with_info()
        .run();
  };
  registry["ldl"] = [](Context &context, const ops::Call &call) {
    return SolverCall(context, call, Routine::ldl, "self")
        .flag(tsc_engine::kHermitian, call.boolean("hermitian"))
        .with_info()
        .run();
  };
  registry["ldl_solve"] = [](Context &context, const ops::Call &call) {
    return SolverCall(context, call, Routine::ldl_solve, "ldl")
        .right_side("other")
        .pivots("pivots")
        .flag(tsc_engine::kHermitian, call.boolean("hermitian"))
        .run();
  };
  registry["eigen"] = [](Context &context, const ops::Call &call) {
    return SolverCall(context, call, Routine::eigen, "self")
        .flag(tsc_engine::kVectors, call.boolean("vectors"))
        .with_info()
        .run();
  };
  registry["fourier"] = [](Context &context, const ops::Call &call) {
    return transform(context, call, Routine::fourier, dims_of(call));
  };
  registry["fourier_of_real"] = [](Context &context, const ops::Call &call) {
    return transform(context, call, Routine::fourier_of_real, dims_of(call));
  };
  registry["fourier_to_real"] = [](Context &context, const ops::Call &call) {
    return transform(context, call, Routine::fourier_to_real, 1);
  };
}

} // namespace tsc::lowering
