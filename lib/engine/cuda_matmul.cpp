#include "engine/cuda_matmul.h"

#include "engine/cuda_error.h"
#include "engine/cuda_library.h"
#include "engine/cuda_plain_matmul.h"

#include <algorithm>
#include <cublasLt.h>
#include <deque>
#include <map>
#include <mutex>
#include <vector>

namespace tsc_engine {
namespace {

constexpr int kCandidates = 8;
/// What pointers are aligned to, unless one of them is found not to be.
constexpr uint32_t kUsualAlignment = 16;

struct CublasLt {
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtDestroy) destroy;
  decltype(&cublasLtGetStatusString) status_text;
  decltype(&cublasLtMatmulDescCreate) create_description;
  decltype(&cublasLtMatmulDescDestroy) destroy_description;
  decltype(&cublasLtMatmulDescSetAttribute) set_description;
  decltype(&cublasLtMatrixLayoutCreate) create_layout;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_layout;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_preference;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic;
  decltype(&cublasLtMatmul) matmul;

  CublasLt() {
    const CudaLibrary library("cublasLt", CUDART_VERSION / 1000);
    library.find(create, "cublasLtCreate");
    library.find(destroy, "cublasLtDestroy");
    library.find(status_text, "cublasLtGetStatusString");
    library.find(create_description, "cublasLtMatmulDescCreate");
    library.find(destroy_description, "cublasLtMatmulDescDestroy");
    library.find(set_description, "cublasLtMatmulDescSetAttribute");
    library.find(create_layout, "cublasLtMatrixLayoutCreate");
    library.find(destroy_layout, "cublasLtMatrixLayoutDestroy");
    library.find(set_layout, "cublasLtMatrixLayoutSetAttribute");
    library.find(create_preference, "cublasLtMatmulPreferenceCreate");
    library.find(destroy_preference, "cublasLtMatmulPreferenceDestroy");
    library.find(set_preference, "cublasLtMatmulPreferenceSetAttribute");
    library.find(heuristic, "cublasLtMatmulAlgoGetHeuristic");
    library.find(matmul, "cublasLtMatmul");
  }
  void check(cublasStatus_t status, const char *what) const {
    if (status == CUBLAS_STATUS_SUCCESS)
      return;
    throw Error(status == CUBLAS_STATUS_ALLOC_FAILED ? Status::out_of_memory : Status::device,
                std::string(what) + ": " + status_text(status));
  }
};

const CublasLt &lt() {
  static const CublasLt library; // a failure is tried again by the next call
  return library;
}

using Strides = MatmulShape::Strides;

Strides transposed(const Strides &strides) { return {strides.column, strides.row, strides.batch}; }

/// The same product with rows of `out` contiguous, where either rows or columns are: out' = b' a'.
MatmulShape with_row_major_output(const MatmulShape &shape, bool &swapped) {
  swapped = shape.out.column != 1 && shape.n != 1 && shape.out.row == 1;
  if (!swapped)
    return shape;
  MatmulShape result = shape;
  std::swap(result.m, result.n);
  result.a = transposed(shape.b);
  result.b = transposed(shape.a);
  result.c = transposed(shape.c);
  result.out = transposed(shape.out);
  return result;
}

/// One matrix for all batches of b, and a, c, out rows that go on from batch to batch: more rows
/// instead.
MatmulShape with_batches_as_rows(const MatmulShape &shape) {
  const auto goes_on = [&](const Strides &s) { return s.batch == s.row * shape.m; };
  const bool c_fits = !shape.has_c || (shape.c.row == 0 && shape.c.batch == 0) || goes_on(shape.c);
  if (shape.batch == 1 || shape.b.batch != 0 || !goes_on(shape.a) || !goes_on(shape.out) || !c_fits)
    return shape;
  MatmulShape result = shape;
  result.m *= shape.batch;
  result.batch = 1;
  return result;
}

/// A rows x columns matrix, as the column-major matrix that holds its transpose.
struct Columns {
  bool possible = false;
  cublasOperation_t operation = CUBLAS_OP_N; // that gives the transpose
  int64_t rows = 0, columns = 0, leading = 0;
};
Columns transpose_in_columns(const Strides &strides, int64_t rows, int64_t columns) {
  if ((strides.column == 1 || columns == 1) && (strides.row >= columns || rows == 1))
    return {true, CUBLAS_OP_N, columns, rows, std::max(rows == 1 ? columns : strides.row, columns)};
  if ((strides.row == 1 || rows == 1) && (strides.column >= rows || columns == 1))
    return {true, CUBLAS_OP_T, rows, columns, std::max(columns == 1 ? rows : strides.column, rows)};
  return {};
}

struct Types {
  cudaDataType_t element, result;
  cublasComputeType_t compute;
  cudaDataType_t scale;
};
/// False for what cuBLASLt does not multiply.
bool types_of(const MatmulShape &shape, Types &types) {
  switch (shape.dtype) {
  case DType::f16:
    types = {CUDA_R_16F, shape.wide ? CUDA_R_32F : CUDA_R_16F, CUBLAS_COMPUTE_32F, CUDA_R_32F};
    return true;
  case DType::bf16:
    types = {CUDA_R_16BF, shape.wide ? CUDA_R_32F : CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F};
    return true;
  case DType::i8:
    types = {CUDA_R_8I, CUDA_R_32I, CUBLAS_COMPUTE_32I, CUDA_R_32I};
    return shape.wide;
  case DType::f8e4m3fn:
    types = {CUDA_R_8F_E4M3, CUDA_R_32F, CUBLAS_COMPUTE_32F, CUDA_R_32F};
    return shape.wide;
  case DType::f32:
    types = {CUDA_R_32F, CUDA_R_32F, shape.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
             CUDA_R_32F};
    return true;
  case DType::f64:
    types = {CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F, CUDA_R_64F};
    return true;
  default:
    return false;
  }
}

/// A cuBLASLt object that is destroyed with its owner.
template <class Handle> class Owned {
public:
  using Destroy = cublasStatus_t (*)(Handle);
  Owned() = default;
  ~Owned() {
    if (handle_)
      destroy_(handle_);
  }
  Owned(const Owned &) = delete;
  Owned &operator=(const Owned &) = delete;
  Handle *receive(Destroy destroy) {
    destroy_ = destroy;
    return &handle_;
  }
  Handle get() const { return handle_; }

private:
  Handle handle_ = nullptr;
  Destroy destroy_ = nullptr;
};

/// How one shape is multiplied. cuBLASLt sees transposes: D' = B' A', all column-major.
struct Plan {
  MatmulShape shape; // as the caller gave it
  bool swapped = false;
  bool with_bias = false;
  const CudaPlainMatmul *plain = nullptr; // instead of all that follows
  Owned<cublasLtMatmulDesc_t> description;
  Owned<cublasLtMatrixLayout_t> a, b, c, out;
  Types types{};
  /// Two products instead: whole vectors of columns, then the few that are left. Positions of
  /// their plans.
  bool divided = false;
  size_t head = 0, tail = 0;
  size_t scratch_bytes =
      0; // what the algorithm of the usual alignment takes; a limit for the others
  std::map<uint32_t, cublasLtMatmulAlgo_t> algorithms; // by alignment of the pointers
};

bool is_empty(const MatmulShape &shape) { return shape.batch == 0 || shape.m == 0 || shape.n == 0; }

template <class Value>
void set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute, Value value) {
  lt().check(lt().set_description(description, attribute, &value, sizeof value),
             "cublasLtMatmulDescSetAttribute");
}
template <class Value>
void set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, Value value) {
  lt().check(lt().set_layout(layout, attribute, &value, sizeof value),
             "cublasLtMatrixLayoutSetAttribute");
}

void make_layout(Owned<cublasLtMatrixLayout_t> &layout, cudaDataType_t type, const Columns &matrix,
                 int64_t batch, int64_t batch_stride) {
  lt().check(lt().create_layout(layout.receive(lt().destroy_layout), type,
                                static_cast<uint64_t>(matrix.rows),
                                static_cast<uint64_t>(matrix.columns), matrix.leading),
             "cublasLtMatrixLayoutCreate");
  if (batch == 1)
    return;
  set(layout.get(), CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<int32_t>(batch));
  set(layout.get(), CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, batch_stride);
}

uint32_t alignment_of(std::initializer_list<const void *> pointers) {
  uintptr_t bits = kUsualAlignment;
  for (const void *pointer : pointers)
    bits |= reinterpret_cast<uintptr_t>(pointer);
  return static_cast<uint32_t>(bits & (~bits + 1));
}

class Matmuls final : public CudaMatmuls {
public:
  explicit Matmuls(int device_index) : device_index_(device_index) {}
  ~Matmuls() override {
    if (handle_)
      lt().destroy(handle_);
  }

  size_t prepare(const MatmulShape &shape) override;
  size_t scratch_bytes(size_t number) override;
  void run(size_t number, const void *a, const void *b, const void *c, void *out, void *scratch,
           Stream stream) override;

private:
  size_t prepare_one(const MatmulShape &shape);
  void run_one(Plan &plan, const void *a, const void *b, const void *c, void *out, void *scratch,
               Stream stream);
  bool prepare_blas(Plan &plan);
  const cublasLtMatmulAlgo_t *algorithm(Plan &plan, uint32_t alignment);
  const CudaPlainMatmul &plain(const MatmulShape &shape);

  const int device_index_;
  std::mutex mutex_; // guards everything below
  cublasLtHandle_t handle_ = nullptr;
  std::deque<Plan> plans_;
  std::map<std::pair<DType, bool>, std::unique_ptr<CudaPlainMatmul>> plain_; // {dtype, wide}
};

/// Columns that fill whole 16-byte vectors, where the product has more and its memory is aligned to
/// such vectors: cuBLASLt's fast kernels want the count itself to divide (bf16 8192x50257x768 on an
/// H200: 6.7 ms at once). 0 where dividing brings nothing.
int64_t aligned_columns(const MatmulShape &shape) {
  constexpr int64_t kVectorBytes = 16, kWorthDividing = 1024;
  const int64_t vector = kVectorBytes / static_cast<int64_t>(size_in_bytes(shape.dtype));
  const bool half = shape.dtype == DType::f16 || shape.dtype == DType::bf16;
  const bool aligned = shape.out.column == 1 && shape.out.row % vector == 0 &&
                       (shape.batch == 1 || shape.out.batch % vector == 0);
  if (!half || !aligned || shape.n % vector == 0 || shape.n < kWorthDividing || shape.m < vector)
    return 0;
  return shape.n / vector * vector;
}

size_t Matmuls::prepare(const MatmulShape &shape) {
  std::lock_guard<std::mutex> lock(mutex_);
  const int64_t columns = aligned_columns(shape);
  if (columns == 0)
    return prepare_one(shape);
  MatmulShape part = shape;
  part.n = columns;
  const size_t head = prepare_one(part);
  part.n = shape.n - columns;
  const size_t tail = prepare_one(part);
  plans_.emplace_back();
  Plan &whole = plans_.back();
  whole.shape = shape;
  whole.divided = true;
  whole.head = head;
  whole.tail = tail;
  whole.scratch_bytes = std::max(plans_[head].scratch_bytes, plans_[tail].scratch_bytes);
  return plans_.size() - 1;
}

size_t Matmuls::prepare_one(const MatmulShape &shape) {
  plans_.emplace_back();
  Plan &plan = plans_.back();
  try {
    plan.shape = shape;
    if (!is_empty(shape) && !prepare_blas(plan))
      plan.plain = &plain(shape);
  } catch (...) {
    plans_.pop_back();
    throw;
  }
  return plans_.size() - 1;
}

const CudaPlainMatmul &Matmuls::plain(const MatmulShape &shape) {
  std::unique_ptr<CudaPlainMatmul> &kernel = plain_[{shape.dtype, shape.wide}];
  if (!kernel)
    kernel = std::make_unique<CudaPlainMatmul>(shape.dtype, shape.wide, device_index_);
  return *kernel;
}

/// False where cuBLASLt has nothing for this shape.
bool Matmuls::prepare_blas(Plan &plan) {
  const bool wanted =
      types_of(plan.shape, plan.types) && plan.shape.k > 0 && plan.shape.batch <= INT32_MAX;
  if (!wanted)
    return false;
  const MatmulShape shape = with_batches_as_rows(with_row_major_output(plan.shape, plan.swapped));
  const bool reads_c = shape.has_c && shape.beta != 0;
  plan.with_bias = reads_c && shape.beta == 1 && shape.c.row == 0 && shape.c.column == 1 &&
                   shape.c.batch == 0 && shape.m > 1;
  const Columns a = transpose_in_columns(shape.a, shape.m, shape.k),
                b = transpose_in_columns(shape.b, shape.k, shape.n),
                out = transpose_in_columns(shape.out, shape.m, shape.n);
  const bool reads_matrix = reads_c && !plan.with_bias;
  const Columns c = reads_matrix ? transpose_in_columns(shape.c, shape.m, shape.n) : out;
  for (const Columns *matrix : {&a, &b, &c, &out})
    if (!matrix->possible)
      return false;
  if (out.operation != CUBLAS_OP_N || c.operation != CUBLAS_OP_N)
    return false;
  if (!handle_)
    lt().check(lt().create(&handle_), "cublasLtCreate");
  lt().check(lt().create_description(plan.description.receive(lt().destroy_description),
                                     plan.types.compute, plan.types.scale),
             "cublasLtMatmulDescCreate");
  const cublasLtMatmulDesc_t description = plan.description.get();
  set(description, CUBLASLT_MATMUL_DESC_TRANSA, b.operation);
  set(description, CUBLASLT_MATMUL_DESC_TRANSB, a.operation);
  if (plan.with_bias) {
    set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    // The heuristics want an address and never read it; the real one is set by run().
    const void *any = reinterpret_cast<const void *>(uintptr_t{kUsualAlignment});
    set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, any);
  }
  const cudaDataType_t type = plan.types.element, result = plan.types.result;
  make_layout(plan.a, type, a, shape.batch, shape.a.batch);
  make_layout(plan.b, type, b, shape.batch, shape.b.batch);
  make_layout(plan.out, result, out, shape.batch, shape.out.batch);
  make_layout(plan.c, result, c, shape.batch, reads_matrix ? shape.c.batch : shape.out.batch);
  plan.scratch_bytes = kMostScratchBytes;
  return algorithm(plan, kUsualAlignment) != nullptr;
}

/// cuBLASLt's first choice, from its model of the GPU: the same in every run. Null if it has none.
const cublasLtMatmulAlgo_t *Matmuls::algorithm(Plan &plan, uint32_t alignment) {
  const auto known = plan.algorithms.find(alignment);
  if (known != plan.algorithms.end())
    return &known->second;
  Owned<cublasLtMatmulPreference_t> preference;
  lt().check(lt().create_preference(preference.receive(lt().destroy_preference)),
             "cublasLtMatmulPreferenceCreate");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto &value) {
    lt().check(lt().set_preference(preference.get(), attribute, &value, sizeof value),
               "cublasLtMatmulPreferenceSetAttribute");
  };
  // At bind the limit; for operands of other alignment, met in a run, what bind reserved.
  const uint64_t most_scratch = plan.scratch_bytes;
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_scratch);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment);
  cublasLtMatmulHeuristicResult_t results[kCandidates];
  int found = 0;
  const cublasStatus_t status =
      lt().heuristic(handle_, plan.description.get(), plan.b.get(), plan.a.get(), plan.c.get(),
                     plan.out.get(), preference.get(), kCandidates, results, &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE)
    return nullptr;
  lt().check(status, "cublasLtMatmulAlgoGetHeuristic");
  for (int i = 0; i < found; ++i) {
    if (results[i].state != CUBLAS_STATUS_SUCCESS)
      continue;
    if (plan.algorithms.empty())
      plan.scratch_bytes = results[i].workspaceSize;
    return &plan.algorithms.emplace(alignment, results[i].algo).first->second;
  }
  return nullptr;
}

size_t Matmuls::scratch_bytes(size_t number) {
  std::lock_guard<std::mutex> lock(mutex_);
  const Plan &plan = plans_.at(number);
  return plan.plain ? 0 : plan.scratch_bytes;
}

void Matmuls::run(size_t number, const void *a, const void *b, const void *c, void *out,
                  void *scratch, Stream stream) {
  std::lock_guard<std::mutex> lock(mutex_);
  Plan &plan = plans_.at(number);
  if (!plan.divided)
    return run_one(plan, a, b, c, out, scratch, stream);
  Plan &head = plans_[plan.head];
  const auto element = static_cast<int64_t>(size_in_bytes(plan.shape.dtype)),
             result = plan.shape.wide
                          ? static_cast<int64_t>(size_in_bytes(wide_product(plan.shape.dtype)))
                          : element;
  const auto right = [&](const void *matrix, int64_t column_stride, int64_t size) -> const void * {
    return matrix ? static_cast<const char *>(matrix) + head.shape.n * column_stride * size
                  : nullptr;
  };
  run_one(head, a, b, c, out, scratch, stream);
  run_one(plans_[plan.tail], a, right(b, plan.shape.b.column, element),
          right(c, plan.shape.c.column, result), static_cast<char *>(out) + head.shape.n * result,
          scratch, stream);
}

void Matmuls::run_one(Plan &plan, const void *a, const void *b, const void *c, void *out,
                      void *scratch, Stream stream) {
  if (is_empty(plan.shape))
    return;
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  const bool reads_matrix = plan.shape.has_c && plan.shape.beta != 0 && !plan.with_bias;
  const cublasLtMatmulAlgo_t *chosen = nullptr;
  if (!plan.plain) {
    chosen = algorithm(plan, alignment_of({a, b, plan.shape.has_c ? c : out, out}));
    if (!chosen)
      plan.plain = &plain(plan.shape);
  }
  if (plan.plain)
    return plan.plain->run(plan.shape, a, b, c, out, cuda_stream);
  if (plan.swapped)
    std::swap(a, b);
  if (plan.with_bias)
    set(plan.description.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, c);
  const double beta = reads_matrix ? plan.shape.beta : 0;
  const float alpha_f32 = static_cast<float>(plan.shape.alpha), beta_f32 = static_cast<float>(beta);
  const auto alpha_i32 = static_cast<int32_t>(plan.shape.alpha),
             beta_i32 = static_cast<int32_t>(beta);
  const auto in_scale = [&](const double &in_f64, const float &in_f32,
                            const int32_t &in_i32) -> const void * {
    if (plan.types.scale == CUDA_R_64F)
      return &in_f64;
    if (plan.types.scale == CUDA_R_32I)
      return &in_i32;
    return &in_f32;
  };
  const void *alpha_pointer = in_scale(plan.shape.alpha, alpha_f32, alpha_i32);
  const void *beta_pointer = in_scale(beta, beta_f32, beta_i32);
  lt().check(lt().matmul(handle_, plan.description.get(), alpha_pointer, b, plan.b.get(), a,
                         plan.a.get(), beta_pointer, reads_matrix ? c : out, plan.c.get(), out,
                         plan.out.get(), chosen, scratch, plan.scratch_bytes, cuda_stream),
             "cublasLtMatmul");
}

} // namespace

std::unique_ptr<CudaMatmuls> CudaMatmuls::make(int device_index) {
  return std::make_unique<Matmuls>(device_index);
}

} // namespace tsc_engine
