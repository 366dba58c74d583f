#include "engine/host_blas.h"

#ifdef TSC_WITH_CBLAS
#include <cblas.h>
#endif

namespace tsc_engine {

#ifdef TSC_WITH_CBLAS
namespace {

CBLAS_TRANSPOSE flag(bool transpose) { return transpose ? CblasTrans : CblasNoTrans; }

constexpr HostBlas kBlas = {
    [](bool transpose_a, bool transpose_b, int m, int n, int k, float alpha, const float *a,
       int lda, const float *b, int ldb, float beta, float *out, int ldo) {
      cblas_sgemm(CblasRowMajor, flag(transpose_a), flag(transpose_b), m, n, k, alpha, a, lda, b,
                  ldb, beta, out, ldo);
    },
    [](bool transpose_a, bool transpose_b, int m, int n, int k, double alpha, const double *a,
       int lda, const double *b, int ldb, double beta, double *out, int ldo) {
      cblas_dgemm(CblasRowMajor, flag(transpose_a), flag(transpose_b), m, n, k, alpha, a, lda, b,
                  ldb, beta, out, ldo);
    },
};

} // namespace

const HostBlas *host_blas() { return &kBlas; }
#else
const HostBlas *host_blas() { return nullptr; }
#endif

} // namespace tsc_engine
