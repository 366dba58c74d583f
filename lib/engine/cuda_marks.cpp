#include "engine/cuda_marks.h"

#include "engine/cuda_error.h"

#include <algorithm>

namespace tsc_engine {

Marks::Marks() {
  void *bytes = nullptr;
  try {
    check_cuda(cudaHostAlloc(&bytes, kMost, cudaHostAllocDefault), "cudaHostAlloc");
    bytes_ = static_cast<unsigned char *>(bytes);
    check_cuda(cudaMalloc(reinterpret_cast<void **>(&values_), kMost + 1), "cudaMalloc");
    check_cuda(cudaMemset(values_, 0, kMost), "cudaMemset");
    check_cuda(cudaMemset(values_ + kMost, 1, 1), "cudaMemset");
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    check_cuda(cudaEventCreateWithFlags(&fork_, cudaEventDisableTiming), "cudaEventCreate");
    check_cuda(cudaStreamSynchronize(nullptr), "cudaStreamSynchronize");
  } catch (...) {
    release();
    throw;
  }
}

void Marks::release() {
  cudaFreeHost(const_cast<unsigned char *>(bytes_));
  cudaFree(values_);
  if (fork_ != nullptr)
    cudaEventDestroy(fork_);
  if (stream_ != nullptr)
    cudaStreamDestroy(stream_);
}

void Marks::set(size_t number, cudaStream_t stream) {
  if (number >= kMost)
    return;
  check_cuda(cudaEventRecord(fork_, stream), "cudaEventRecord");
  check_cuda(cudaStreamWaitEvent(stream_, fork_, 0), "cudaStreamWaitEvent");
  check_cuda(cudaMemcpyAsync(const_cast<unsigned char *>(bytes_) + number, values_ + kMost, 1,
                             cudaMemcpyDeviceToHost, stream_),
             "cudaMemcpyAsync");
}

void Marks::join(cudaStream_t stream) {
  check_cuda(cudaEventRecord(fork_, stream_), "cudaEventRecord");
  check_cuda(cudaStreamWaitEvent(stream, fork_, 0), "cudaStreamWaitEvent");
}

void Marks::clear(size_t count, cudaStream_t stream) {
  check_cuda(cudaMemcpyAsync(const_cast<unsigned char *>(bytes_), values_, std::min(count, kMost),
                             cudaMemcpyDeviceToHost, stream),
             "cudaMemcpyAsync");
}

} // namespace tsc_engine
