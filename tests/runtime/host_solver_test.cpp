// Routines of linear algebra on the host, by what they multiply to; Fourier transforms, by the sums
// that define them.
#include "engine/host_device.h"
#include "engine/solver.h"
#include "testing/catch.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>
#include <vector>

namespace {

using namespace tsc_engine;

/// `batch` matrices by columns: element (i, j) of matrix b is a fixed function of all three, larger
/// on the diagonal.
std::vector<double> sample(int64_t batch, int64_t rows, int64_t columns, bool symmetric = false) {
  std::vector<double> values;
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t j = 0; j < columns; ++j)
      for (int64_t i = 0; i < rows; ++i) {
        const double x = static_cast<double>(symmetric ? std::min(i, j) : i),
                     y = static_cast<double>(symmetric ? std::max(i, j) : j);
        values.push_back(std::sin(3 * x + 7 * y + static_cast<double>(b)) + (i == j ? 4 : 0));
      }
  return values;
}

using At = std::function<double(int64_t, int64_t)>;
At matrix(const std::vector<double> &values, int64_t rows, int64_t columns, int64_t b) {
  return [&values, rows, columns, b](int64_t i, int64_t j) {
    return values[static_cast<size_t>(b * rows * columns + j * rows + i)];
  };
}
/// The largest difference of a and what `terms` products sum to.
double distance(const At &a, int64_t rows, int64_t columns, int64_t terms, const At &x,
                const At &y) {
  double most = 0;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < terms; ++k)
        sum += x(i, k) * y(k, j);
      most = std::max(most, std::abs(sum - a(i, j)));
    }
  return most;
}
At transposed(const At &a) {
  return [a](int64_t i, int64_t j) { return a(j, i); };
}
At triangle(const At &a, bool upper, bool unit) {
  return [=](int64_t i, int64_t j) {
    if (i == j)
      return unit ? 1.0 : a(i, j);
    return (upper ? i < j : i > j) ? a(i, j) : 0.0;
  };
}

struct Run {
  std::vector<double> out, second, third;
  std::vector<int> pivots, info;
};
Run run(const SolverShape &shape, const std::vector<double> &a, const std::vector<double> &b = {},
        const std::vector<int> &c = {}) {
  auto device = make_host_device({}, {});
  const SolverExtents extents = solver_extents(shape);
  const auto size = [&](int64_t extent) { return static_cast<size_t>(extent * shape.batch); };
  Run result;
  result.out.resize(size(extents.out));
  result.second.resize(size(extents.second));
  result.pivots.resize(size(extents.second));
  result.third.resize(size(extents.third));
  result.info.resize(size(extents.info), 77);
  SolverMemory memory;
  memory.a = a.data();
  memory.b = b.data();
  memory.c = c.data();
  memory.out = result.out.data();
  memory.second = shape.routine == Routine::lu || shape.routine == Routine::ldl
                      ? static_cast<void *>(result.pivots.data())
                      : result.second.data();
  memory.third = result.third.data();
  memory.info = extents.info ? result.info.data() : nullptr;
  device->solve(device->prepare_solver(shape), memory, nullptr, nullptr);
  return result;
}
SolverShape shape_of(Routine routine, int64_t m, int64_t n, int64_t k, int64_t flags = 0,
                     int64_t batch = 3) {
  SolverShape shape;
  shape.routine = routine;
  shape.dtype = DType::f64;
  shape.flags = flags;
  shape.batch = batch;
  shape.m = m;
  shape.n = n;
  shape.k = k;
  return shape;
}
constexpr double kClose = 1e-12;

} // namespace

TEST_CASE("factorizations multiply to what they factor") {
  const int64_t m = 5, n = 4;
  const std::vector<double> square = sample(3, n, n, true), tall = sample(3, m, n);
  for (const bool upper : {false, true}) {
    const Run factor =
        run(shape_of(Routine::cholesky, n, n, 0, upper ? int64_t{kUpper} : 0), square);
    CHECK(factor.info == std::vector<int>{0, 0, 0});
    for (int64_t b = 0; b < 3; ++b) {
      const At l = triangle(matrix(factor.out, n, n, b), upper, false);
      CHECK(distance(matrix(square, n, n, b), n, n, n, upper ? transposed(l) : l,
                     upper ? l : transposed(l)) < kClose);
    }
  }
  const Run lu = run(shape_of(Routine::lu, n, n, 0), square);
  for (const bool flip : {false, true}) {
    const std::vector<double> right = sample(3, n, 2);
    const Run x = run(shape_of(Routine::lu_solve, n, n, 2, flip ? int64_t{kTransposed} : 0), lu.out,
                      right, lu.pivots);
    for (int64_t b = 0; b < 3; ++b) {
      const At a = matrix(square, n, n, b);
      CHECK(distance(matrix(right, n, 2, b), n, 2, n, flip ? transposed(a) : a,
                     matrix(x.out, n, 2, b)) < kClose);
    }
  }
  const Run reflections = run(shape_of(Routine::qr, m, n, 0), tall);
  const Run q = run(shape_of(Routine::orthogonal, m, n, n), reflections.out, reflections.second);
  const Run eigen = run(shape_of(Routine::symmetric_eigen, n, n, 0, kVectors), square);
  for (int64_t b = 0; b < 3; ++b) {
    const At r = triangle(matrix(reflections.out, m, n, b), true, false);
    CHECK(distance(matrix(tall, m, n, b), m, n, n, matrix(q.out, m, n, b), r) < kClose);
    const At vectors = matrix(eigen.out, n, n, b);
    const At scaled = [&](int64_t i, int64_t j) {
      return vectors(i, j) * eigen.second[static_cast<size_t>(b * n + j)];
    };
    // The lower triangle is read.
    CHECK(distance(matrix(square, n, n, b), n, n, n, scaled, transposed(vectors)) < kClose);
  }
  for (const bool full : {false, true}) {
    const int64_t columns = full ? m : n;
    const Run svd =
        run(shape_of(Routine::svd, m, n, 0, kVectors | (full ? int64_t{kFull} : 0)), tall);
    for (int64_t b = 0; b < 3; ++b) {
      const At u = matrix(svd.out, m, columns, b);
      const At scaled = [&](int64_t i, int64_t j) {
        return u(i, j) * svd.second[static_cast<size_t>(b * n + j)];
      };
      CHECK(distance(matrix(tall, m, n, b), m, n, n, scaled, matrix(svd.third, n, n, b)) < kClose);
    }
  }
}

TEST_CASE("triangles and LDL factors solve") {
  const int64_t n = 4;
  const std::vector<double> a = sample(3, n, n, true), right = sample(3, n, 2);
  for (const int64_t flags : {0, 1, 2, 3, 4, 7}) {
    const SolverShape shape = shape_of(Routine::triangular_solve, n, n, 2, flags);
    const Run x = run(shape, a, right);
    for (int64_t b = 0; b < 3; ++b) {
      const At t = triangle(matrix(a, n, n, b), shape.has(kUpper), shape.has(kUnit));
      CHECK(distance(matrix(right, n, 2, b), n, 2, n, shape.has(kTransposed) ? transposed(t) : t,
                     matrix(x.out, n, 2, b)) < kClose);
    }
  }
  const Run ldl = run(shape_of(Routine::ldl, n, n, 0), a);
  const Run x = run(shape_of(Routine::ldl_solve, n, n, 2), ldl.out, right, ldl.pivots);
  for (int64_t b = 0; b < 3; ++b)
    CHECK(distance(matrix(right, n, 2, b), n, 2, n, matrix(a, n, n, b), matrix(x.out, n, 2, b)) <
          kClose);
}

TEST_CASE("complex factors solve, and the triangle is taken for an adjoint") {
  // Columns (4, 1 - i), (1 + i, 3), as pairs.
  const std::vector<double> a = {4, 0, 1, -1, 1, 1, 3, 0}, right = {1, 2, 3, -1};
  const auto check = [&](const Run &x) { // a x is the right side
    using Complex = std::complex<double>;
    for (size_t i = 0; i < 2; ++i) {
      Complex sum = 0;
      for (size_t j = 0; j < 2; ++j)
        sum += Complex(a[4 * j + 2 * i], a[4 * j + 2 * i + 1]) *
               Complex(x.out[2 * j], x.out[2 * j + 1]);
      CHECK(std::abs(sum - Complex(right[2 * i], right[2 * i + 1])) < kClose);
    }
  };
  const Run lu = run(shape_of(Routine::lu, 2, 2, 0, kComplex, 1), a);
  check(run(shape_of(Routine::lu_solve, 2, 2, 1, kComplex, 1), lu.out, right, lu.pivots));
  const int64_t hermitian = kComplex | kHermitian;
  const Run ldl = run(shape_of(Routine::ldl, 2, 2, 0, hermitian, 1), a);
  check(run(shape_of(Routine::ldl_solve, 2, 2, 1, hermitian, 1), ldl.out, right, ldl.pivots));
  const Run values = run(shape_of(Routine::symmetric_eigen, 2, 2, 0, kComplex, 1), a);
  CHECK(values.second.size() == 2);
  CHECK(std::abs(values.second[0] - 2) + std::abs(values.second[1] - 5) < kClose);
}

TEST_CASE("eigenvalues are complex, of real matrices in conjugate pairs") {
  // A quarter turn, and 3 on the diagonal.
  const std::vector<double> a = {0, 1, 0, -1, 0, 0, 0, 0, 3};
  const Run found = run(shape_of(Routine::eigen, 3, 3, 0, kVectors, 1), a);
  CHECK(found.info == std::vector<int>{0});
  const std::vector<double> expected = {0, 1, 0, -1, 3, 0};
  for (size_t i = 0; i < 6; ++i)
    CHECK(std::abs(found.second[i] - expected[i]) < kClose);
  for (size_t i = 0; i < 6; ++i) // the second vector is the first one's conjugate
    CHECK(found.out[6 + i] == (i % 2 == 0 ? found.out[i] : -found.out[i]));
  CHECK(run(shape_of(Routine::eigen, 1, 1, 0, kVectors, 1), {NAN}).info == std::vector<int>{-1});
  CHECK(run(shape_of(Routine::eigen, 1, 1, 0, kVectors | kComplex, 1), {2, -1}).second ==
        std::vector<double>{2, -1});
}

TEST_CASE("info says which pivot fails, and matrices without elements are fine") {
  CHECK(run(shape_of(Routine::cholesky, 2, 2, 0, 0, 1), {1, 0, 0, -1}).info == std::vector<int>{2});
  CHECK(run(shape_of(Routine::lu, 2, 2, 0, 0, 1), {0, 0, 0, 0}).info == std::vector<int>{1});
  CHECK(run(shape_of(Routine::cholesky, 0, 0, 0), {}).info == std::vector<int>{0, 0, 0});
  CHECK(run(shape_of(Routine::symmetric_eigen, 0, 0, 0, kVectors), {}).info ==
        std::vector<int>{0, 0, 0});
  CHECK(run(shape_of(Routine::svd, 0, 2, 0, kVectors | kFull, 1), {}).third ==
        std::vector<double>{1, 0, 0, 1});
  CHECK(run(shape_of(Routine::orthogonal, 2, 2, 0, 0, 1), {5, 6, 7, 8}).out ==
        std::vector<double>{1, 0, 0, 1});
}

TEST_CASE("pivots that lead out of the matrix are refused") {
  const std::vector<double> unit = {1, 0, 0, 1};
  const SolverShape lu = shape_of(Routine::lu_solve, 2, 2, 2, 0, 1);
  const SolverShape ldl = shape_of(Routine::ldl_solve, 2, 2, 2, 0, 1);
  CHECK_THROWS_WITH(run(lu, unit, unit, {1, 3}), "pivots that no factorization gives");
  CHECK_THROWS_WITH(run(lu, unit, unit, {0, 2}), "pivots that no factorization gives");
  CHECK_THROWS_WITH(run(ldl, unit, unit, {1, -2}), "pivots that no factorization gives");
  CHECK_THROWS_WITH(run(ldl, unit, unit, {-2, -1}), "pivots that no factorization gives");
  CHECK(run(lu, unit, unit, {2, 2}).out == std::vector<double>{0, 1, 1, 0});
}

namespace {

/// Element (a, b, c) of the transform of one signal [m, n, k], summed as it is defined.
std::complex<double> transformed(const std::vector<std::complex<double>> &x,
                                 const SolverShape &shape, int64_t a, int64_t b, int64_t c) {
  const double circle = (shape.has(kBackward) ? 2 : -2) * std::acos(-1.0);
  std::complex<double> sum = 0;
  for (int64_t i = 0; i < shape.m; ++i)
    for (int64_t j = 0; j < shape.n; ++j)
      for (int64_t l = 0; l < shape.k; ++l) {
        const double part = static_cast<double>(a * i % shape.m) / static_cast<double>(shape.m) +
                            static_cast<double>(b * j % shape.n) / static_cast<double>(shape.n) +
                            static_cast<double>(c * l % shape.k) / static_cast<double>(shape.k);
        sum += x[static_cast<size_t>((i * shape.n + j) * shape.k + l)] *
               std::polar(1.0, circle * part);
      }
  return sum;
}

} // namespace

TEST_CASE("Fourier transforms are the sums that define them, and their inverses") {
  // Lengths of every kind: 1, small factors, primes, primes beyond what is summed directly.
  const std::vector<std::vector<int64_t>> lengths = {{1, 1, 1},   {1, 1, 2},  {1, 1, 60},
                                                     {1, 1, 61},  {1, 1, 67}, {1, 1, 134},
                                                     {1, 12, 10}, {3, 1, 7},  {2, 71, 3}};
  for (const std::vector<int64_t> &length : lengths)
    for (const int64_t flag : {int64_t{0}, int64_t{kBackward}}) {
      const SolverShape shape =
          shape_of(Routine::fourier, length[0], length[1], length[2], flag, 2);
      const int64_t count = length[0] * length[1] * length[2];
      const std::vector<double> numbers = sample(2, 2, count);
      const Run result = run(shape, numbers);
      INFO(length[0] << " x " << length[1] << " x " << length[2] << ", flags " << flag);
      for (int64_t signal = 0; signal < 2; ++signal) {
        std::vector<std::complex<double>> x;
        for (int64_t i = 0; i < count; ++i)
          x.emplace_back(numbers[static_cast<size_t>(2 * (signal * count + i))],
                         numbers[static_cast<size_t>(2 * (signal * count + i) + 1)]);
        double most = 0;
        for (int64_t i = 0; i < count; ++i) {
          const auto at = static_cast<size_t>(2 * (signal * count + i));
          const std::complex<double> found(result.out[at], result.out[at + 1]);
          most = std::max(most,
                          std::abs(found - transformed(x, shape, i / length[2] / length[1],
                                                       i / length[2] % length[1], i % length[2])));
        }
        CHECK(most < 1e-10);
      }
      const Run back =
          run(shape_of(Routine::fourier, length[0], length[1], length[2], kBackward - flag, 2),
              result.out);
      double most = 0;
      for (size_t i = 0; i < numbers.size(); ++i)
        most = std::max(most, std::abs(back.out[i] / static_cast<double>(count) - numbers[i]));
      CHECK(most < kClose);
    }
}

TEST_CASE("a real signal has half a spectrum, which gives it back") {
  for (const int64_t k : {1, 2, 9, 64, 67, 134}) {
    const std::vector<double> signal = sample(1, 4, k);
    const SolverShape shape = shape_of(Routine::fourier_of_real, 1, 2, k, 0, 2);
    const Run half = run(shape, signal);
    std::vector<double> wide;
    for (const double x : signal) {
      wide.push_back(x);
      wide.push_back(0);
    }
    const Run whole = run(shape_of(Routine::fourier, 1, 2, k, 0, 2), wide);
    INFO(k);
    double most = 0;
    for (int64_t row = 0; row < 4; ++row)
      for (int64_t i = 0; i < 2 * (k / 2 + 1); ++i)
        most = std::max(most, std::abs(half.out[static_cast<size_t>(row * 2 * (k / 2 + 1) + i)] -
                                       whole.out[static_cast<size_t>(row * 2 * k + i)]));
    CHECK(most < kClose);
    const Run rows = run(shape_of(Routine::fourier_of_real, 1, 1, k, 0, 4), signal);
    const Run back = run(shape_of(Routine::fourier_to_real, 1, 1, k, 0, 4), rows.out);
    most = 0;
    for (size_t i = 0; i < signal.size(); ++i)
      most = std::max(most, std::abs(back.out[i] / static_cast<double>(k) - signal[i]));
    CHECK(most < kClose);
  }
}
