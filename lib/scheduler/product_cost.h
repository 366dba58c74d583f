// What a product costs in the matrix library and in a kernel of ours, estimated.
#pragma once

#include "scheduler/schedule.h"

namespace tsc::scheduler {

struct ProductWork {
  int64_t rows = 0, columns = 0, terms = 0;
  int64_t bytes = 0;        // that pass through memory
  int64_t instructions = 0; // for each result, after the sums are there
};
/// One way to do it, and how many nanoseconds that takes.
struct ProductWay {
  std::string name; // "128 x 256 results a block"
  ProductTile tile;
  double nanoseconds = 0;
};

/// The library's product alone.
double library_nanoseconds(const target::Target &target, const ProductWork &work);
/// A kernel that reads and writes `bytes` and computes little.
double kernel_nanoseconds(const target::Target &target, int64_t bytes);
/// Every tile of the template, best first.
std::vector<ProductWay> template_ways(const target::Target &target, const ProductWork &work);

} // namespace tsc::scheduler
