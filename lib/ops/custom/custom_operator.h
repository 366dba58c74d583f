// Operators that the user brings: their rows, made of text (docs/custom-operators.md), and where
// they are known.
#pragma once

#include "ops/table/operator.h"
#include "support/diagnostic.h"

#include <array>
#include <map>
#include <memory>
#include <set>

namespace tsc::ops {

/// A tensor argument, beyond what its type says.
struct CustomInput {
  std::vector<DType> dtypes; // empty: any
  std::optional<size_t> rank;
  /// It is passed as it lies in memory, strides and all; else the compiler makes it contiguous.
  bool strided = false;
};
struct CustomResult {
  std::string name;
  std::variant<DType, std::string> dtype = DType::f32; // or that of the tensor of this name
  /// An expression each; `like` instead: those of the tensor of this name.
  std::vector<std::string> sizes;
  std::string like;
};
/// What a function takes in one place: a tensor or the workspace by name, or a number as `type`.
struct CustomParameter {
  std::string type; // "int", "int64", "float", "double", "bool"; "" for a pointer
  std::string text; // a name, or an expression
  friend bool operator==(const CustomParameter &, const CustomParameter &) = default;
};
/// A text of the user's and the function in it that is called.
struct CustomFunction {
  std::string file; // as the row names it
  std::string text;
  std::string function;
  std::vector<CustomParameter> parameters;
  std::vector<std::string> grid = {"1"}; // 1 to 3 expressions
  std::array<int, 3> block = {1, 1, 1};
  std::string shared_bytes = "0"; // dynamic
};
struct CustomOperator {
  std::string schema; // "mylib::fused_rope(Tensor q, int heads=1) -> Tensor"
  std::map<std::string, CustomInput> inputs;
  std::vector<std::string> requirements; // conditions
  std::vector<CustomResult> results;
  std::string workspace_bytes; // "": none
  CustomFunction cuda;
  std::optional<CustomFunction> host; // for the devices host and reference

  bool is_strided(const std::string &parameter) const;
};

inline constexpr std::string_view kWorkspace = "workspace";
/// Key of their lowering.
inline constexpr std::string_view kUserKernel = "user_kernel";

/// What is wrong with a row, each with the place within it ("/results/0/sizes/1"). A row without
/// problems makes an operator. Codes: TSC-O202 (schema), O203 (expression), O204 (a name), O205 (a
/// function), O206 (argument of a function), O207 (what tsc cannot do: operators that write).
std::vector<support::Diagnostic> check_custom_operator(const CustomOperator &row);

/// Rows by name ("mylib.fused_rope.default").
class CustomOperators {
public:
  /// Precondition: no problems, and no two rows of one name.
  explicit CustomOperators(std::vector<CustomOperator> rows);

  const Operator *find(std::string_view name) const;
  /// nullptr if the operator is none of these.
  const CustomOperator *definition(std::string_view name) const;

private:
  std::map<std::string, CustomOperator, std::less<>> definitions_;
  std::map<std::string, Operator, std::less<>> rows_;
};
/// "mylib.fused_rope.default", of the text of a schema.
std::string custom_operator_name(const std::string &schema);

/// While it lives, find_operator also finds these on its thread (null: those of the scope around
/// it).
class CustomOperatorScope {
public:
  explicit CustomOperatorScope(std::shared_ptr<const CustomOperators> operators);
  ~CustomOperatorScope();
  CustomOperatorScope(const CustomOperatorScope &) = delete;
  CustomOperatorScope &operator=(const CustomOperatorScope &) = delete;
  /// Those of the innermost scope of this thread, or null.
  static const CustomOperators *current();

private:
  std::shared_ptr<const CustomOperators> operators_;
  const CustomOperators *before_;
};

} // namespace tsc::ops
