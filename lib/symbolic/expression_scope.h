// Expressions that end with what they were made for, in processes that compile for as long as they
// live.
#pragma once

namespace tsc::symbolic {

/// Expressions that are made while a scope is alive, on any thread, are freed when the last scope
/// that is alive ends; a scope that overlaps others therefore ends later than it seems. Those that
/// are made while there is none, small integers and symbols of small numbers stay until the process
/// ends: a static Expr is one of these. Precondition: no other expression outlives the scope, and
/// in a process with scopes everything that makes expressions does so inside of one.
class ExpressionScope {
public:
  ExpressionScope();
  ~ExpressionScope();
  ExpressionScope(const ExpressionScope &) = delete;
  ExpressionScope &operator=(const ExpressionScope &) = delete;
};

} // namespace tsc::symbolic
