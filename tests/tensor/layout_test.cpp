#include "tensor/layout.h"
#include "testing/catch.h"

using namespace tsc::tensor;
using tsc::symbolic::print;
using tsc::symbolic::symbol;

TEST_CASE("contiguous strides count an empty dimension as one") {
  std::vector<Expr> sizes = {2, 0, 3};
  CHECK(contiguous_strides(sizes) == std::vector<Expr>{3, 3, 1});
  CHECK(contiguous_layout({2, 0, 3}).storage_size() == Expr(0));
  CHECK(contiguous_layout({}).storage_size() == Expr(1));
}

TEST_CASE("layouts with symbolic sizes") {
  Expr s = symbol(tsc::symbolic::SymbolSort::size, 0);
  Layout layout = contiguous_layout({s, 4, 8});
  CHECK(layout.strides == std::vector<Expr>{32, 8, 1});
  CHECK(print(layout.storage_size()) == "32*s0");
  CHECK(layout.is_contiguous());
  Layout transposed{{8, s}, {1, 8}, 3};
  CHECK_FALSE(transposed.is_contiguous());
  std::vector<Expr> index = {symbol(tsc::symbolic::SymbolSort::loop, 0),
                             symbol(tsc::symbolic::SymbolSort::loop, 1)};
  CHECK(print(transposed.linear_index(index)) == "z0 + 8*z1 + 3");
}

TEST_CASE("strides of size-1 dimensions do not matter for contiguity") {
  CHECK(Layout{{4, 1, 8}, {8, 1000, 1}, 0}.is_contiguous());
  CHECK_FALSE(Layout{{4, 2, 8}, {8, 32, 1}, 0}.is_contiguous());
}

TEST_CASE("stride order is stable and nests largest first") {
  std::vector<Expr> strides = {1, 64, 8, 8};
  CHECK(stride_order(strides) == std::vector<size_t>{1, 2, 3, 0});
  Expr s = symbol(tsc::symbolic::SymbolSort::size, 0);
  std::vector<Expr> symbolic = {1, s * 8, 8};
  CHECK(stride_order(symbolic) == std::vector<size_t>{1, 2, 0});
  std::vector<Expr> sizes = {2, 3, 4};
  std::vector<size_t> order = {2, 0, 1};
  CHECK(strides_in_order(sizes, order) == std::vector<Expr>{3, 1, 6});
}
