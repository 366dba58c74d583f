// Lines of any length: Stockham's algorithm over the length's prime factors (4 for two twos),
// without reordering; where a factor is large, Bluestein's convolution over a power of 2.
#include "engine/host_fourier.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <memory>
#include <vector>

namespace tsc_engine {
namespace {

constexpr int64_t kMostFactor = 61; // the largest one that is summed directly

size_t place(int64_t i) { return static_cast<size_t>(i); }

/// exp(2 pi i k / n), 0 <= k < n: of angles up to an eighth of the circle, rounded once.
std::complex<double> root_of_unity(int64_t k, int64_t n) {
  const double eighth = 0.78539816339744830962; // pi / 4
  const int64_t octant = 8 * k / n;
  // Odd octants are mirrored: the angle to their end.
  const int64_t rest = 8 * k - octant * n;
  const int64_t reduced = octant % 2 == 0 ? rest : n - rest;
  const double angle = eighth * static_cast<double>(reduced) / static_cast<double>(n);
  const double c = std::cos(angle), s = std::sin(angle);
  switch (octant) {
  case 0:
    return {c, s};
  case 1:
    return {s, c};
  case 2:
    return {-s, c};
  case 3:
    return {-c, s};
  case 4:
    return {-c, -s};
  case 5:
    return {-s, -c};
  case 6:
    return {s, -c};
  default:
    return {c, -s};
  }
}

/// The product of finite numbers; std::complex's looks for infinities.
template <class T> std::complex<T> times(const std::complex<T> &a, const std::complex<T> &b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

/// Transforms of one length and direction. One of it serves many threads.
template <class T> class Line {
public:
  using Complex = std::complex<T>;

  Line(int64_t n, bool backward) : n_(n), backward_(backward), factors_(factors_of(n)) {
    if (!factors_.empty() && *std::max_element(factors_.begin(), factors_.end()) > kMostFactor) {
      factors_.clear();
      prepare_chirp();
      return;
    }
    roots_.reserve(place(n));
    for (int64_t k = 0; k < n; ++k)
      roots_.push_back(root(k, n));
  }

  /// Numbers that run() needs beside the line.
  size_t work_size() const {
    return place(n_) + (inner_ ? place(inner_->n_) + inner_->work_size() : 0);
  }
  /// In place.
  void run(Complex *line, Complex *work) const {
    if (inner_)
      by_chirp(line, work);
    else
      by_factors(line, work);
  }

private:
  const int64_t n_;
  const bool backward_;
  std::vector<int64_t> factors_;
  std::vector<Complex> roots_;
  // Bluestein's: chirp, the spectrum of its conjugate, and transforms of that length.
  std::unique_ptr<Line> inner_, outer_;
  std::vector<Complex> chirp_, spectrum_;

  Complex root(int64_t k, int64_t n) const {
    const std::complex<double> value = root_of_unity(k, n);
    return {static_cast<T>(value.real()), static_cast<T>(backward_ ? value.imag() : -value.imag())};
  }
  static std::vector<int64_t> factors_of(int64_t n) {
    std::vector<int64_t> factors;
    for (; n % 4 == 0; n /= 4)
      factors.push_back(4);
    for (int64_t factor = 2; factor * factor <= n; ++factor)
      for (; n % factor == 0; n /= factor)
        factors.push_back(factor);
    if (n > 1)
      factors.push_back(n);
    return factors;
  }

  void by_factors(Complex *line, Complex *work) const {
    Complex *from = line, *to = work;
    int64_t length = n_, stride = 1;
    for (const int64_t factor : factors_) {
      if (factor == 4)
        step_of_4(from, to, length / 4, stride);
      else if (factor == 2)
        step_of_2(from, to, length / 2, stride);
      else
        step(from, to, factor, length / factor, stride);
      length /= factor;
      stride *= factor;
      std::swap(from, to);
    }
    if (from != line)
      std::copy_n(from, n_, line);
  }
  // One step: of `stride` interleaved sequences of factor * count elements each, sums over elements
  // `count` apart, turned by powers of the root of that length.
  void step_of_2(const Complex *from, Complex *to, int64_t count, int64_t stride) const {
    for (int64_t p = 0; p < count; ++p) {
      const Complex turn = roots_[place(p * stride)];
      const Complex *a = from + stride * p, *b = a + stride * count;
      Complex *x = to + 2 * stride * p, *y = x + stride;
      for (int64_t q = 0; q < stride; ++q) {
        const Complex left = a[q], right = b[q];
        x[q] = left + right;
        y[q] = times(left - right, turn);
      }
    }
  }
  void step_of_4(const Complex *from, Complex *to, int64_t count, int64_t stride) const {
    const T sign = backward_ ? 1 : -1;
    const int64_t apart = stride * count;
    for (int64_t p = 0; p < count; ++p) {
      const Complex turn1 = roots_[place(p * stride)], turn2 = roots_[place(2 * p * stride)],
                    turn3 = roots_[place(3 * p * stride)];
      const Complex *a = from + stride * p;
      Complex *x = to + 4 * stride * p;
      for (int64_t q = 0; q < stride; ++q) {
        const Complex even = a[q] + a[q + 2 * apart], even_rest = a[q] - a[q + 2 * apart];
        const Complex odd = a[q + apart] + a[q + 3 * apart],
                      difference = a[q + apart] - a[q + 3 * apart];
        const Complex odd_rest(-sign * difference.imag(), sign * difference.real());
        x[q] = even + odd;
        x[q + stride] = times(even_rest + odd_rest, turn1);
        x[q + 2 * stride] = times(even - odd, turn2);
        x[q + 3 * stride] = times(even_rest - odd_rest, turn3);
      }
    }
  }
  void step(const Complex *from, Complex *to, int64_t factor, int64_t count, int64_t stride) const {
    const int64_t apart = stride * count, each = n_ / factor;
    for (int64_t p = 0; p < count; ++p)
      for (int64_t k = 0; k < factor; ++k) {
        const Complex turn = roots_[place(p * k * stride)]; // p k < the sequences' length
        Complex *x = to + stride * (factor * p + k);
        for (int64_t q = 0; q < stride; ++q) {
          const Complex *a = from + stride * p + q;
          Complex sum = a[0];
          for (int64_t i = 1; i < factor; ++i)
            sum += times(a[i * apart], roots_[place(i * k % factor * each)]);
          x[q] = times(sum, turn);
        }
      }
  }

  void prepare_chirp() {
    int64_t m = 1;
    while (m < 2 * n_ - 1)
      m *= 2;
    inner_ = std::make_unique<Line>(m, false);
    outer_ = std::make_unique<Line>(m, true);
    // jk = (j^2 + k^2 - (k - j)^2) / 2, squares around a circle of 2n.
    spectrum_.assign(place(m), Complex());
    int64_t square = 0;
    for (int64_t k = 0; k < n_; ++k) {
      chirp_.push_back(root(square, 2 * n_));
      spectrum_[place(k)] = spectrum_[place((m - k) % m)] = std::conj(chirp_.back());
      square = (square + 2 * k + 1) % (2 * n_);
    }
    std::vector<Complex> work(place(m));
    inner_->run(spectrum_.data(), work.data());
    for (Complex &value : spectrum_)
      value /= static_cast<T>(m);
  }
  void by_chirp(Complex *line, Complex *work) const {
    Complex *circle = work;
    work += inner_->n_;
    for (int64_t k = 0; k < n_; ++k)
      circle[k] = times(line[k], chirp_[place(k)]);
    std::fill(circle + n_, circle + inner_->n_, Complex());
    inner_->run(circle, work);
    for (int64_t k = 0; k < inner_->n_; ++k)
      circle[k] = times(circle[k], spectrum_[place(k)]);
    outer_->run(circle, work);
    for (int64_t k = 0; k < n_; ++k)
      line[k] = times(circle[k], chirp_[place(k)]);
  }
};

/// body(thread's own memory of `size` numbers, i) for every i < count.
template <class T, class Body>
void for_each_line(HostThreads *threads, unsigned limit, int64_t count, size_t size,
                   const Body &body) {
  const auto range = [&](unsigned, int64_t begin, int64_t end) {
    std::vector<std::complex<T>> memory(size);
    for (int64_t i = begin; i < end; ++i)
      body(memory.data(), i);
  };
  if (threads && count > 1)
    threads->run(count, limit, range);
  else
    range(0, 0, count);
}

/// Along a dimension of `out` that has `n` elements `stride` apart.
template <class T>
void along(std::complex<T> *out, int64_t lines, int64_t n, int64_t stride, bool backward,
           HostThreads *threads, unsigned limit) {
  if (n == 1)
    return;
  const Line<T> transform(n, backward);
  for_each_line<T>(threads, limit, lines, place(n) + transform.work_size(),
                   [&](std::complex<T> *memory, int64_t i) {
                     std::complex<T> *start = out + i / stride * (n * stride) + i % stride;
                     if (stride == 1) {
                       transform.run(start, memory);
                       return;
                     }
                     for (int64_t j = 0; j < n; ++j)
                       memory[j] = start[j * stride];
                     transform.run(memory, memory + n);
                     for (int64_t j = 0; j < n; ++j)
                       start[j * stride] = memory[j];
                   });
}

template <class T>
void run(const SolverShape &shape, const SolverMemory &memory, HostThreads *threads,
         unsigned limit) {
  using Complex = std::complex<T>;
  const bool backward = shape.has(kBackward) || shape.routine == Routine::fourier_to_real;
  const int64_t k = shape.k, lines = shape.batch * shape.m * shape.n, half = k / 2 + 1;
  auto *out = static_cast<Complex *>(memory.out);
  if (lines == 0 || k == 0)
    return;
  if (shape.routine == Routine::fourier) {
    std::memcpy(memory.out, memory.a, place(lines * k) * sizeof(Complex));
    along(out, lines, k, 1, backward, threads, limit);
  } else {
    const Line<T> transform(k, backward);
    const size_t size = place(k) + transform.work_size();
    const bool of_real = shape.routine == Routine::fourier_of_real;
    for_each_line<T>(threads, limit, lines, size, [&](Complex *line, int64_t i) {
      if (of_real) {
        const T *from = static_cast<const T *>(memory.a) + i * k;
        std::copy(from, from + k, line);
        transform.run(line, line + k);
        std::copy_n(line, half, out + i * half);
        return;
      }
      const Complex *from = static_cast<const Complex *>(memory.a) + i * half;
      std::copy_n(from, half, line);
      for (int64_t j = half; j < k; ++j)
        line[j] = std::conj(from[k - j]);
      transform.run(line, line + k);
      T *to = static_cast<T *>(memory.out) + i * k;
      for (int64_t j = 0; j < k; ++j)
        to[j] = line[j].real();
    });
  }
  const int64_t columns = shape.routine == Routine::fourier ? k : half;
  if (shape.routine == Routine::fourier_to_real)
    return;
  along(out, shape.batch * shape.m * columns, shape.n, columns, backward, threads, limit);
  along(out, shape.batch * shape.n * columns, shape.m, shape.n * columns, backward, threads, limit);
}

} // namespace

void host_fourier(const SolverShape &shape, const SolverMemory &memory, HostThreads *threads,
                  unsigned limit) {
  if (shape.dtype == DType::f32)
    run<float>(shape, memory, threads, limit);
  else if (shape.dtype == DType::f64)
    run<double>(shape, memory, threads, limit);
  else
    throw Error(Status::bad_argument, "a Fourier transform of elements that are not f32 or f64");
}

} // namespace tsc_engine
