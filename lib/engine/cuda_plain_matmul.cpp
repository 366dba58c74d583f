#include "engine/cuda_plain_matmul.h"

#include "engine/cuda_compiler.h"
#include "engine/cuda_device.h"
#include "engine/cuda_error.h"

namespace tsc_engine {
namespace {

// Parameters go by value; the layout is that of Arguments below.
constexpr const char *kBody = R"(
struct Strides { long long row, column, batch; };
struct Arguments {
  const Stored *a, *b;
  const Result *c;
  Result *out;
  long long batch, m, n, k;
  Strides as, bs, cs, os;
  double alpha, beta;
};
extern "C" __global__ void __launch_bounds__(256) tsc_plain_matmul(Arguments p) {
  long long count = p.batch * p.m * p.n, step = 256ll * gridDim.x;
  for (long long e = blockIdx.x * 256ll + threadIdx.x; e < count; e += step) {
    long long j = e % p.n, i = e / p.n % p.m, g = e / (p.n * p.m);
    const Stored *a = p.a + g * p.as.batch + i * p.as.row;
    const Stored *b = p.b + g * p.bs.batch + j * p.bs.column;
    Value sum = 0;
    for (long long l = 0; l < p.k; ++l)
      sum += load(a[l * p.as.column]) * load(b[l * p.bs.row]);
    sum = scalar(p.alpha) * sum;
    if (p.c)
      sum += scalar(p.beta) * load_result(p.c[g * p.cs.batch + i * p.cs.row + j * p.cs.column]);
    p.out[g * p.os.batch + i * p.os.row + j * p.os.column] = store_result(sum);
  }
}
)";

struct Arguments {
  const void *a, *b, *c;
  void *out;
  int64_t batch, m, n, k;
  MatmulShape::Strides as, bs, cs, os;
  double alpha, beta;
};

std::string types(const char *stored, const char *value, const char *scalar, const char *load,
                  const char *store) {
  return std::string("typedef ") + stored + " Stored;\ntypedef " + value +
         " Value;\n__device__ Value load(Stored x) { " + load +
         " }\n__device__ Stored store(Value x) { " + store +
         " }\n__device__ Value scalar(double x) { return (" + scalar + ")x; }\n";
}
/// Unsigned 64-bit arithmetic wraps around, and its low bits are those of every integer type.
std::string integer(const char *stored) {
  return types(stored, "unsigned long long", "Value)(long long", "return (Value)x;",
               "return (Stored)x;");
}

/// f32 whose exponent is too small, made right by a product; results are f32.
std::string float8(int mantissa, int bias, int largest) {
  const std::string shift = std::to_string(23 - mantissa);
  const std::string load =
      "unsigned s = (x & 0x80u) << 24, r = x & 0x7fu; if (r > " + std::to_string(largest) +
      ") return __uint_as_float(s | 0x7f800000u | r << " + shift +
      "); return __uint_as_float(s | __float_as_uint(__uint_as_float(r << " + shift +
      ") * __uint_as_float(" + std::to_string(254 - bias) + "u << 23)));";
  return types("unsigned char", "float", "float", load.c_str(), "return (Stored)x;");
}

} // namespace

std::string plain_matmul_text(DType dtype, bool wide) {
  const auto text = [&]() -> std::string {
    switch (dtype) {
    case DType::boolean:
      throw Error(Status::bad_argument, "a matrix product of booleans");
    case DType::u8:
      return integer("unsigned char");
    case DType::i8:
      return integer("signed char");
    case DType::i16:
      return integer("short");
    case DType::u16:
      return integer("unsigned short");
    case DType::i32:
      return integer("int");
    case DType::u32:
      return integer("unsigned");
    case DType::i64:
      return integer("long long");
    case DType::u64:
      return integer("unsigned long long");
    case DType::f16:
      return types("unsigned short", "float", "float",
                   "float y; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(y) : \"h\"(x)); return y;",
                   "Stored y; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(y) : \"f\"(x)); return y;");
    case DType::bf16:
      return types("unsigned short", "float", "float", "return __uint_as_float((unsigned)x << 16);",
                   "Stored y; asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(y) : \"f\"(x)); return y;");
    case DType::f32:
      return types("float", "float", "float", "return x;", "return x;");
    case DType::f64:
      return types("double", "double", "double", "return x;", "return x;");
    case DType::f8e4m3fn:
      return float8(3, 7, 0x7e);
    case DType::f8e5m2:
      return float8(2, 15, 0x7b);
    default:
      break;
    }
    throw Error(Status::internal, "a matrix product of an unknown element type");
  };
  const char *const result =
      wide && dtype == DType::i8 ? "typedef int Result;\n"
                                   "__device__ Value load_result(int x) { return (Value)x; }\n"
                                   "__device__ int store_result(Value x) { return (int)x; }\n"
      : wide                     ? "typedef float Result;\n"
                                   "__device__ float load_result(float x) { return x; }\n"
                                   "__device__ float store_result(float x) { return x; }\n"
                                 : "typedef Stored Result;\n"
                                   "__device__ Value load_result(Stored x) { return load(x); }\n"
                                   "__device__ Stored store_result(Value x) { return store(x); }\n";
  return text() + result + kBody;
}

CudaPlainMatmul::CudaPlainMatmul(DType dtype, bool wide, int device_index) {
  const std::vector<char> cubin = compile_cubin(
      "tsc_plain_matmul.cu", plain_matmul_text(dtype, wide), {}, cuda_arch(device_index));
  check_cuda(cudaLibraryLoadData(&library_, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0),
             "cudaLibraryLoadData");
  const cudaError_t found = cudaLibraryGetKernel(&kernel_, library_, "tsc_plain_matmul");
  if (found != cudaSuccess) {
    cudaLibraryUnload(library_);
    check_cuda(found, "cudaLibraryGetKernel");
  }
}

CudaPlainMatmul::~CudaPlainMatmul() { cudaLibraryUnload(library_); }

void CudaPlainMatmul::run(const MatmulShape &shape, const void *a, const void *b, const void *c,
                          void *out, cudaStream_t stream) const {
  Arguments values{a,           b,           shape.has_c && shape.beta != 0 ? c : nullptr,
                   out,         shape.batch, shape.m,
                   shape.n,     shape.k,     shape.a,
                   shape.b,     shape.c,     shape.out,
                   shape.alpha, shape.beta};
  const int64_t blocks = (shape.batch * shape.m * shape.n + 255) / 256;
  if (blocks == 0)
    return;
  void *arguments[] = {&values};
  const dim3 grid(static_cast<unsigned>(blocks < 1 << 20 ? blocks : 1 << 20));
  check_cuda(cudaLaunchKernel(reinterpret_cast<const void *>(kernel_), grid, dim3(256), arguments,
                              0, stream),
             "cudaLaunchKernel of a matrix product");
}

} // namespace tsc_engine
