// The module around a CBLAS library: its threads and memory are there once it is loaded, so that
// programs without products have neither. Everything but this function is hidden: tsc has a
// host_blas() of its own.
#include "engine/host_blas.h"

#include <cstddef>

#ifdef TSC_WITH_LAPACK
/// All that LAPACK in a static OpenBLAS needs of gfortran's library: `to` becomes a and b, one
/// after the other, filled up with blanks.
// NOLINTNEXTLINE(bugprone-reserved-identifier)
extern "C" void _gfortran_concat_string(size_t length, char *to, size_t a_length, const char *a,
                                        size_t b_length, const char *b) {
  for (size_t i = 0; i < length; ++i)
    to[i] = i < a_length ? a[i] : i - a_length < b_length ? b[i - a_length] : ' ';
}
#endif

extern "C" __attribute__((visibility("default"))) const tsc_engine::HostBlas *tsc_blas_module() {
  return tsc_engine::host_blas();
}
