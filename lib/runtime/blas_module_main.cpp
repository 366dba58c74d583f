// The module around a CBLAS library: its threads and memory are there once it is loaded, so that
// programs without products have neither. Everything but this function is hidden: tsc has a
// host_blas() of its own.
#include "engine/host_blas.h"

extern "C" __attribute__((visibility("default"))) const tsc_engine::HostBlas *tsc_blas_module() {
  return tsc_engine::host_blas();
}
