// Expressions that end with what they were made for, in processes that compile for as long as they
// live, on several threads at once.
#pragma once

#include <memory>

namespace tsc::symbolic {

class NodeTable;

/// While one is alive, what its thread makes is its own: found without a lock, unknown to other
/// threads, and freed when it ends. Small integers and symbols of small numbers are everybody's and
/// stay until the process ends: a static Expr is one of these. A scope inside of another of the
/// thread is nothing by itself.
///
/// Without a scope expressions are shared by all threads that have none, and stay.
///
/// Precondition: it ends on its thread; no expression outlives it; expressions of two scopes, or of
/// one and of none, do not meet: making one of both is an internal error.
class ExpressionScope {
public:
  ExpressionScope();
  ~ExpressionScope();
  ExpressionScope(const ExpressionScope &) = delete;
  ExpressionScope &operator=(const ExpressionScope &) = delete;

private:
  std::unique_ptr<NodeTable> nodes_; // null: inside of another
};

} // namespace tsc::symbolic
