// How the operator families contribute their rows. One function a family, called in the order of
// families/families.def.
#pragma once

#include "ops/table/operator.h"

#include <deque>

namespace tsc::ops {

/// One row under construction; setters return *this.
class Row {
public:
  explicit Row(Operator &row) : row_(&row) {}
  Row &shape(ShapeRule rule) {
    row_->shape = std::move(rule);
    return *this;
  }
  Row &decompose(Decomposition decomposition) {
    row_->decompose = std::move(decomposition);
    return *this;
  }
  /// The key into lowering's registry.
  Row &lowers(std::string_view key) {
    row_->lowering = key;
    return *this;
  }
  /// A view passes its elements on (see passes_elements).
  Row &effect(Effect effect) {
    row_->effect = effect;
    row_->passes_elements = effect == Effect::view;
    return *this;
  }
  /// What it yields are elements of its first argument, or not although it is a view.
  Row &passes_elements(bool passes = true) {
    row_->passes_elements = passes;
    return *this;
  }
  /// Its tensor stands for a number.
  Row &yields_number() {
    row_->yields_number = true;
    return *this;
  }
  /// Writes only where `condition` holds; elsewhere the row's decomposition or lowering applies.
  Row &mutates_if(std::function<bool(const Call &)> condition) {
    row_->mutates_if = std::move(condition);
    return *this;
  }

private:
  Operator *row_;
};

class Table {
public:
  /// `schema` is ATen's text, "add.Tensor(Tensor self, ...) -> Tensor"; "prims::iota(...)" names
  /// another namespace than aten. Without an overload the name ends in ".default".
  Row add(std::string_view schema);
  /// add(), and the row of the in-place variant, "add_.Tensor(Tensor(a!) self, ...) -> Tensor(a!)",
  /// which is functionalized to this one.
  Row add_with_in_place(std::string_view schema);
  /// The row of an operator that writes to the parameters that `schema` marks with '!', whatever
  /// their number and place. `functional` names a row that takes the same arguments, writes
  /// nothing, and yields this operator's results in order, those that are a written argument
  /// ("-> Tensor(a!)") left out, then the new value of every marked parameter in order, None for
  /// one that is not given. A new value that is the argument itself writes nothing.
  Row add_mutating(std::string_view schema, std::string_view functional);
  /// Adds ATen's in-place form of every row that has one and lacks it: "add_.Scalar" to
  /// "add.Scalar", or, for those that change sizes and strides only, a view: "unsqueeze_" to
  /// "unsqueeze". Call it after all families.
  void add_in_place_forms();

  /// The rows in name order. Throws InternalError if two have one name.
  std::vector<Operator> take();

private:
  std::deque<Operator> rows_;
  Operator &new_row(std::string_view schema);
};

/// Text that lives as long as the process: rows refer to it.
std::string_view keep_text(std::string text);

} // namespace tsc::ops
