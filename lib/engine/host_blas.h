// Products of matrices by a CBLAS library, where there is one.
#pragma once

namespace tsc_engine {

/// Row-major out = alpha op(a) op(b) + beta out, with leading dimensions, as CBLAS has it.
struct HostBlas {
  void (*sgemm)(bool transpose_a, bool transpose_b, int m, int n, int k, float alpha,
                const float *a, int lda, const float *b, int ldb, float beta, float *out, int ldo);
  void (*dgemm)(bool transpose_a, bool transpose_b, int m, int n, int k, double alpha,
                const double *a, int lda, const double *b, int ldb, double beta, double *out,
                int ldo);
};

/// Null if there is none: products are then loops of our own. The first call may start its threads.
const HostBlas *host_blas();

} // namespace tsc_engine
