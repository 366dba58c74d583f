// What reductions and scans carry from one element to the next.
#pragma once

#include "interpret/storage.h"
#include "ir/ir.h"

namespace tsc::interpret {

/// One element of the inputs of a reduction: floats or integers by the kind of the input's column.
struct Element {
  double real[3] = {};
  int64_t integer[3] = {};
};

/// State of one output of a reduction.
class Accumulator {
public:
  /// `source`: dtype of the inputs; its kind says which half of Element counts.
  Accumulator(ir::ReductionKind kind, DType source);
  void reset();
  void add(const Element &element);
  /// Value `item` of the tuple.
  double real(size_t item) const;
  int64_t integer(size_t item) const;
  /// Whether real() or integer() holds the result.
  bool yields_float() const;

private:
  void add_real(double x);
  void add_integer(int64_t x);
  void add_position(bool better, bool not_a_number);
  void add_welford(double mean, double m2, double weight);
  void add_online_softmax(double x);

  ir::ReductionKind kind_;
  DType source_;
  bool is_float_;
  double first_ = 0, second_ = 0, third_ = 0; // value; or mean, m2, weight; or max, sum
  int64_t exact_ = 0;
  int64_t count_ = 0, position_ = 0; // elements seen; of the extreme one
  bool found_nan_ = false;
};

/// State of an inclusive scan along one line.
class ScanState {
public:
  ScanState(ir::ScanKind kind, DType source);
  void reset();
  double next(double x);
  int64_t next(int64_t x);

private:
  ir::ScanKind kind_;
  DType source_;
  bool empty_ = true;
  double real_ = 0;
  int64_t exact_ = 0;
};

} // namespace tsc::interpret
