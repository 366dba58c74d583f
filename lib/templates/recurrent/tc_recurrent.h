// Recurrent layers: one direction of one layer, over all steps of a sequence. What the input gives
// the gates of each step has been computed before ("parts"); a step adds the state's product with
// the weights, and goes through the gates. Gates of a unit lie `width` apart: i, f, g, o of an
// LSTM, r, z, n of a GRU.
//
// On a GPU all steps are one launch, whose blocks are all there at once (a cooperative one). Blocks
// are divided among tiles of `Rows` rows of the batch, and those of a tile share its units: each
// keeps the weights of its units in shared memory for the whole sequence, as far as there is room,
// reads the tile's state, computes the next state of its units, and waits for the others. Few
// blocks that share a tile are a cluster, which has a barrier of its own (sm_90a).
#pragma once

#include "tsc_prelude.h"

#include "tc_pipeline.h"
#include "tc_recurrent_geometry.h"
#include "tc_tensor_core.h"

static constexpr int tc_cell_lstm = 0, tc_cell_gru = 1, tc_cell_tanh = 2, tc_cell_relu = 3;
TC_FN constexpr int tc_cell_gates(int cell) {
  return cell == tc_cell_lstm ? 4 : cell == tc_cell_gru ? 3 : 1;
}
/// What states are added up in.
template <class T> struct tc_recurrent_sum {
  using type = float;
  using given = T; // null is of any type
};
template <> struct tc_recurrent_sum<double> {
  using type = double;
  using given = double;
};

template <class T> struct tc_recurrent_call {
  using A = typename tc_recurrent_sum<T>::type;
  const T *parts;   // [steps, batch, gates * width], or the first two swapped; dense
  const T *weights; // [gates * width, width]
  const T *bias;    // GRU: [gates * width] of the state's part, or null
  const T *hidden;  // [batch, width], the first state
  const A *cells;   // LSTM: [batch, width]
  T *out;           // as parts: [.., .., width]
  A *last;          // LSTM: [batch, width], cells
  long long steps, batch, width;
  bool batch_first, backwards;

  TC_MEMBER long long row(long long step, long long at) const {
    const long long t = backwards ? steps - 1 - step : step;
    return batch_first ? at * steps + t : t * batch + at;
  }
};

/// The next state of a unit. `x` is what the input gives its gates, `h` what the state gives them,
/// `before` the state before; `cell` changes.
template <int Cell, class A> TC_FN A tc_recurrent_next(const A *x, const A *h, A before, A &cell) {
  if constexpr (Cell == tc_cell_lstm) {
    cell = tc_sigmoid(x[1] + h[1]) * cell + tc_sigmoid(x[0] + h[0]) * tc_tanh(x[2] + h[2]);
    return tc_sigmoid(x[3] + h[3]) * tc_tanh(cell);
  } else if constexpr (Cell == tc_cell_gru) {
    const A reset = tc_sigmoid(x[0] + h[0]), update = tc_sigmoid(x[1] + h[1]),
            candidate = tc_tanh(x[2] + reset * h[2]);
    return candidate + update * (before - candidate);
  } else if constexpr (Cell == tc_cell_tanh) {
    return tc_tanh(x[0] + h[0]);
  } else {
    const A sum = x[0] + h[0];
    return sum > A(0) || sum != sum ? sum : A(0);
  }
}

// ---- alone

template <int Cell, class T>
TC_FN void tc_recurrent_alone(const T *parts, const T *weights,
                              const typename tc_recurrent_sum<T>::given *bias, const T *hidden,
                              const typename tc_recurrent_sum<T>::type *cells, T *out,
                              typename tc_recurrent_sum<T>::type *last, long long *,
                              long long steps, long long batch, long long width, bool batch_first,
                              bool backwards, long long, long long) {
  using A = typename tc_recurrent_sum<T>::type;
  constexpr int gates = tc_cell_gates(Cell);
  const tc_recurrent_call<T> call = {parts, weights, bias,  hidden, cells,       out,
                                     last,  steps,   batch, width,  batch_first, backwards};
  for (long long step = 0; step < steps; ++step)
    for (long long row = 0; row < batch; ++row) {
      const long long at = call.row(step, row);
      const T *before = step == 0 ? hidden + row * width : out + call.row(step - 1, row) * width;
      for (long long unit = 0; unit < width; ++unit) {
        A x[gates], h[gates], cell = A(0);
        for (int gate = 0; gate < gates; ++gate) {
          const long long column = gate * width + unit;
          x[gate] = tc_load(parts + at * gates * width + column);
          A sum[8] = {}; // in step with each other
          const T *of = weights + column * width;
          long long k = 0;
          for (; k + 8 <= width; k += 8)
            for (int j = 0; j < 8; ++j)
              sum[j] +=
                  static_cast<A>(tc_load(of + k + j)) * static_cast<A>(tc_load(before + k + j));
          for (; k < width; ++k)
            sum[0] += static_cast<A>(tc_load(of + k)) * static_cast<A>(tc_load(before + k));
          h[gate] =
              ((sum[0] + sum[4]) + (sum[1] + sum[5])) + ((sum[2] + sum[6]) + (sum[3] + sum[7]));
          if (Cell == tc_cell_gru && bias != nullptr)
            h[gate] += tc_load(bias + column);
        }
        if (Cell == tc_cell_lstm)
          cell = step == 0 ? cells[row * width + unit] : last[row * width + unit];
        const A next = tc_recurrent_next<Cell>(x, h, static_cast<A>(tc_load(before + unit)), cell);
        if (Cell == tc_cell_lstm)
          last[row * width + unit] = cell;
        tc_store(out + at * width + unit, next);
      }
    }
}

// ---- blocks together; the host runs a block alone

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define TC_RECURRENT_CLUSTERS
#endif
/// Lines of shared memory are an odd number of runs of `run` elements apart, so that neighbouring
/// lines' runs are in different banks.
TC_FN constexpr long long tc_recurrent_pitch(long long width, int run) {
  return (((width + run - 1) / run) | 1) * run;
}

/// Waits until all `blocks` of a group are here, and have stored what the others read. The counter
/// is never set back: a group's blocks come as often in every launch.
template <bool Cluster> TC_FN void tc_recurrent_meet(long long *counter, long long blocks) {
#ifdef TC_RECURRENT_CLUSTERS
  if constexpr (Cluster) {
    tc_cluster_arrive();
    tc_cluster_wait();
    return;
  }
#endif
  TC_BARRIER();
#ifdef TC_DEVICE
  if (!Cluster && threadIdx.x == 0 && blocks > 1) {
    __threadfence();
    const auto all = static_cast<unsigned long long>(blocks);
    auto *count = reinterpret_cast<unsigned long long *>(counter);
    const unsigned long long target = (atomicAdd(count, 1ull) / all + 1) * all;
    while (*static_cast<volatile unsigned long long *>(count) < target) {
    }
    __threadfence();
  }
  TC_BARRIER();
#endif
}

/// What the state is in shared memory.
template <bool Matrix, class T> struct tc_recurrent_state {
  using type = typename tc_recurrent_sum<T>::type;
};
template <class T> struct tc_recurrent_state<true, T> { using type = T; };

/// `Matrix`: products are those of matrix units, of 16-bit floats, 8 rows or several times as many,
/// and widths of whole 16-byte words. `Cluster`: `most` neighbouring blocks are one; where there
/// are no clusters, the first of them does all that they would. `most`: blocks that share a tile,
/// or all that there are. `bytes`: of the launch's dynamic shared memory.
template <int Cell, int Rows, bool Matrix, bool Cluster, class T> struct tc_recurrent_block {
  using A = typename tc_recurrent_sum<T>::type;
  static constexpr int gates = tc_cell_gates(Cell);
  static constexpr int run = Matrix ? 8 : 4; // elements that are accessed together
  static constexpr int most_units = tc_recurrent_columns / gates; // at a time
  static constexpr int items =
      (most_units * Rows + tc_recurrent_threads - 1) / tc_recurrent_threads; // of a thread
  static constexpr int whole = Matrix ? 16 : 4; // the state is filled up to multiples of this
  static_assert(!Matrix || (Rows % 8 == 0 && sizeof(T) == 2), "a tile of matrix units");
  using H = typename tc_recurrent_state<Matrix, T>::type;

  const tc_recurrent_call<T> call;
  long long *counter;
  H *state; // [Rows][state_pitch], before a step; next: the one after it, where blocks are alone
  H *next;
  A *sums; // [slices][Rows][sum_pitch]
  T *held; // [count][weight_pitch]
  int state_pitch, weight_pitch, sum_pitch;
  long long count;
  long long group, groups, blocks, first, end; // units
  bool in_words;                               // runs of weights are aligned in memory
  bool alone; // no tile was meant to be shared: states stay in shared memory

  TC_MEMBER tc_recurrent_block(const tc_recurrent_call<T> &of, long long *counters,
                               unsigned char *shared, long long bytes, long long most)
      : call(of) {
    alone = most == 1;
    blocks = most < gridDim.x ? most : gridDim.x;
    groups = gridDim.x / blocks;
    group = blockIdx.x / blocks;
    long long part = blockIdx.x % blocks;
#ifndef TC_RECURRENT_CLUSTERS
    if (Cluster) {
      group = part == 0 ? group : groups;
      part = 0;
      blocks = 1;
    }
#endif
    counter = counters + group * tc_recurrent_group_words;
    in_words =
        call.width % run == 0 && reinterpret_cast<unsigned long long>(call.weights) % 16 == 0;
    const long long units = (call.width + blocks - 1) / blocks;
    first = part * units;
    first = first < call.width ? first : call.width;
    end = first + units < call.width ? first + units : call.width;
    const long long filled = (call.width + whole - 1) / whole * whole;
    state_pitch = static_cast<int>(tc_recurrent_pitch(filled, run));
    weight_pitch = state_pitch;
    state = reinterpret_cast<H *>(shared);
    const long long state_bytes =
        (static_cast<long long>(sizeof(H)) * Rows * state_pitch + 15) / 16 * 16;
    next = reinterpret_cast<H *>(shared + state_bytes);
    sums = reinterpret_cast<A *>(shared + (alone ? 2 : 1) * state_bytes);
    const long long before = (alone ? 2 : 1) * state_bytes + static_cast<long long>(sizeof(A)) *
                                                                 (Matrix ? 1 : tc_recurrent_warps) *
                                                                 Rows * tc_recurrent_columns;
    held = reinterpret_cast<T *>(shared + before);
    count = (bytes - before) / (static_cast<long long>(sizeof(T)) * weight_pitch);
    if (count > (end - first) * gates)
      count = (end - first) * gates;
  }

  /// Units [at, at + units) are computed together; their columns are counted gate by gate.
  TC_MEMBER long long weight_row(long long at, int units, int column) const {
    return column / units * call.width + at + column % units;
  }
  TC_MEMBER int units_at(long long at) const {
    return static_cast<int>(end - at < most_units ? end - at : most_units);
  }

  /// A warp has several lines at a time.
  TC_MEMBER void hold_weights() {
    constexpr int ahead = 4;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (long long base = warp * ahead; base < count; base += tc_recurrent_warps * ahead) {
      const T *from[ahead];
      TC_UNROLL
      for (int j = 0; j < ahead; ++j) {
        const long long line = base + j < count ? base + j : count - 1,
                        chunk = line / (most_units * gates), at = first + chunk * most_units;
        const int column = static_cast<int>(line - chunk * most_units * gates);
        from[j] = call.weights + weight_row(at, units_at(at), column) * call.width;
      }
      for (long long k = lane * run; k < weight_pitch; k += 32 * run) {
        tc_vec<T, run> x[ahead];
        TC_UNROLL
        for (int j = 0; j < ahead; ++j)
          x[j] = run_of(from[j], k);
        TC_UNROLL
        for (int j = 0; j < ahead; ++j)
          if (base + j < count)
            *reinterpret_cast<tc_vec<T, run> *>(held + (base + j) * weight_pitch + k) = x[j];
      }
    }
  }
  /// Neighbouring weights of a line in memory; behind the width there are zeros.
  TC_MEMBER tc_vec<T, run> run_of(const T *from, long long k) const {
    tc_vec<T, run> x = {};
    if (in_words) {
      if (k < call.width)
        x = *reinterpret_cast<const tc_vec<T, run> *>(from + k);
    } else {
      TC_UNROLL
      for (int j = 0; j < run; ++j)
        if (k + j < call.width)
          x.at[j] = from[k + j];
    }
    return x;
  }
  /// The tile's state before `step` to shared memory: neighbouring threads have a row's runs.
  TC_MEMBER void bring_state(long long tile, long long step) {
    // Loads under way, and threads of a row.
    constexpr int ahead = Rows > 8 ? 8 : 4, together = tc_recurrent_threads / Rows;
    constexpr int length = static_cast<int>(16 / sizeof(T));
    const int in_tile = threadIdx.x / together, thread = threadIdx.x % together;
    const long long row = tile * Rows + in_tile;
    const bool counts = row < call.batch;
    const T *from = step == 0 ? call.hidden + row * call.width
                              : call.out + call.row(step - 1, row) * call.width;
    H *to = state + in_tile * state_pitch;
    if (call.width % length == 0 && reinterpret_cast<unsigned long long>(call.hidden) % 16 == 0 &&
        reinterpret_cast<unsigned long long>(call.out) % 16 == 0) {
      for (int base = thread * length; base < call.width; base += ahead * together * length) {
        tc_vec<T, length> x[ahead] = {};
        TC_UNROLL
        for (int j = 0; j < ahead; ++j)
          if (counts && base + j * together * length < call.width)
            x[j] = fetch_run(from + base + j * together * length);
        TC_UNROLL
        for (int j = 0; j < ahead; ++j)
          if (base + j * together * length < call.width)
            put_run(to + base + j * together * length, x[j]);
      }
      return;
    }
    for (int base = thread; base < call.width; base += ahead * together) {
      T x[ahead];
      TC_UNROLL
      for (int j = 0; j < ahead; ++j) {
        x[j] = T{};
        if (counts && base + j * together < call.width)
          x[j] = fetch(from + base + j * together);
      }
      TC_UNROLL
      for (int j = 0; j < ahead; ++j)
        if (base + j * together < call.width)
          put(to + base + j * together, x[j]);
    }
  }
  TC_MEMBER static void put(H *to, T x) {
    if constexpr (Matrix)
      *to = x;
    else
      *to = static_cast<A>(tc_get(x));
  }
  template <int V> TC_MEMBER static void put_run(H *to, const tc_vec<T, V> &x) {
    if constexpr (Matrix)
      *reinterpret_cast<tc_vec<T, V> *>(to) = x;
    else
      TC_UNROLL
    for (int j = 0; j < V; ++j)
      put(to + j, x.at[j]);
  }
  /// What lies behind the width in shared memory is zero.
  TC_MEMBER void clear_state() {
    for (long long i = threadIdx.x; i < (alone ? 2 : 1) * Rows * state_pitch;
         i += tc_recurrent_threads)
      state[i] = H{};
  }
  /// Past the first-level cache, which does not see what other blocks store.
  TC_MEMBER static T fetch(const T *p) {
#ifdef TC_DEVICE
    if constexpr (sizeof(T) == 2)
      return T{__ldcg(reinterpret_cast<const unsigned short *>(p))};
    else
      return __ldcg(p);
#else
    return *p;
#endif
  }
  TC_MEMBER static tc_vec<T, static_cast<int>(16 / sizeof(T))> fetch_run(const T *p) {
    tc_vec<T, static_cast<int>(16 / sizeof(T))> x;
#ifdef TC_DEVICE
    *reinterpret_cast<uint4 *>(&x) = __ldcg(reinterpret_cast<const uint4 *>(p));
#else
    x = *reinterpret_cast<const tc_vec<T, static_cast<int>(16 / sizeof(T))> *>(p);
#endif
    return x;
  }

  // Products: sums of terms in `slices` parts, which are added up afterwards.

  /// Four neighbouring weights; `Held`: in shared memory, as all of a computation are, else where
  /// `from` is.
  template <bool Held>
  TC_MEMBER void four(const T *from, bool is_held, long long k, A (&w)[4]) const {
    const tc_vec<T, run> x =
        Held || is_held ? *reinterpret_cast<const tc_vec<T, run> *>(from + k) : run_of(from, k);
    TC_UNROLL
    for (int j = 0; j < 4; ++j)
      w[j] = static_cast<A>(tc_get(x.at[j]));
  }
  /// Two neighbouring weights in memory.
  TC_MEMBER unsigned two(const T *from) const {
    if (in_words)
      return *reinterpret_cast<const unsigned *>(from);
    return static_cast<unsigned>(from[0].bits) | static_cast<unsigned>(from[1].bits) << 16;
  }
  /// Lanes beside each other have neighbouring columns, and those 32 later, `Each` in all.
  template <int Each, bool Held>
  TC_MEMBER void multiply_each(long long line, long long at, int units, int lanes) {
    const int columns = units * gates, width = static_cast<int>(call.width);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = lane % lanes;
    const int slice = warp * (32 / lanes) + lane / lanes,
              slices = tc_recurrent_warps * (32 / lanes);
    const T *from[Each];
    bool is_held[Each];
    TC_UNROLL
    for (int p = 0; p < Each; ++p) {
      const int own = column + p * 32 < columns ? column + p * 32 : columns - 1;
      is_held[p] = Held || line + own < count;
      from[p] = Held || is_held[p] ? held + (line + own) * weight_pitch
                                   : call.weights + weight_row(at, units, own) * call.width;
    }
    A sum[Each][Rows] = {};
    for (int k = slice * 4; k < width; k += slices * 4) {
      A w[Each][4];
      TC_UNROLL
      for (int p = 0; p < Each; ++p)
        four<Held>(from[p], is_held[p], k, w[p]);
      TC_UNROLL
      for (int row = 0; row < Rows; ++row) {
        const tc_vec<A, 4> h =
            *reinterpret_cast<const tc_vec<A, 4> *>(state + row * state_pitch + k);
        TC_UNROLL
        for (int p = 0; p < Each; ++p)
          TC_UNROLL
        for (int j = 0; j < 4; ++j)
          sum[p][row] += w[p][j] * h.at[j];
      }
    }
    TC_UNROLL
    for (int p = 0; p < Each; ++p)
      TC_UNROLL
    for (int row = 0; row < Rows; ++row) {
      for (int apart = lanes; apart < 32; apart *= 2)
        sum[p][row] += tc_shfl_xor(sum[p][row], apart);
      if (lane < lanes && column + p * 32 < columns)
        sums[(warp * Rows + row) * tc_recurrent_columns + column + p * 32] = sum[p][row];
    }
  }
  /// The columns of units [at, at + units). Gives the number of slices.
  TC_MEMBER int multiply(long long at, int units) {
    const int columns = units * gates;
    const long long line = (at - first) * gates;
    const auto weights = [&](int column, bool is_held) {
      column = column < columns ? column : columns - 1;
      return is_held ? held + (line + column) * weight_pitch
                     : call.weights + weight_row(at, units, column) * call.width;
    };
#ifndef TC_DEVICE
    if constexpr (Matrix) { // no matrix units
      for (int i = threadIdx.x; i < columns * Rows; i += tc_recurrent_threads) {
        const int row = i / columns, column = i % columns;
        const T *from = weights(column, line + column < count);
        A sum = A(0);
        for (long long k = 0; k < call.width; ++k)
          sum += tc_load(from + k) * tc_get(state[row * state_pitch + k]);
        sums[row * columns + column] = sum;
      }
      sum_pitch = columns;
      return 1;
    }
#else
    if constexpr (Matrix) {
      const int tiles = columns > 64   ? 8
                        : columns > 32 ? 4
                        : columns > 16 ? 2
                                       : 1,
                slices = tc_recurrent_warps / tiles;
      const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, column = warp % tiles * 16;
      // Products that wait for one another are several chains, of rows or of terms.
      constexpr int parts = Rows / 8, chains = parts >= 4 ? 1 : 4 / parts;
      float sum[chains][parts][4] = {};
      const bool in_shared = line + (column + 16 < columns ? column + 16 : columns) <= count;
      const T *line_of = in_shared ? weights(column + lane % 16, true) + lane / 16 * 8 : nullptr;
      const T *low = weights(column + lane / 4, false) + lane % 4 * 2,
              *high = weights(column + lane / 4 + 8, false) + lane % 4 * 2;
      const H *right = state + lane / 4 * state_pitch + lane % 4 * 2;
      for (long long base = warp / tiles * 16; base < call.width; base += chains * slices * 16) {
        TC_UNROLL
        for (int chain = 0; chain < chains; ++chain) {
          const long long k = base + chain * slices * 16;
          if (k >= call.width)
            break;
          unsigned a[4];
          if (in_shared) {
            tc_load_matrices<false>(a, tc_shared_address(line_of + k));
          } else {
            const bool second = k + 8 < call.width;
            a[0] = two(low + k);
            a[1] = two(high + k);
            a[2] = second ? two(low + k + 8) : 0u;
            a[3] = second ? two(high + k + 8) : 0u;
          }
          TC_UNROLL
          for (int p = 0; p < parts; ++p) {
            const H *of = right + p * 8 * state_pitch + k;
            tc_multiply(T{}, sum[chain][p], a, *reinterpret_cast<const unsigned *>(of),
                        *reinterpret_cast<const unsigned *>(of + 8));
          }
        }
      }
      sum_pitch = tiles * 16;
      TC_UNROLL
      for (int p = 0; p < parts; ++p)
        TC_UNROLL
      for (int j = 0; j < 4; ++j) {
        float all = sum[0][p][j];
        TC_UNROLL
        for (int chain = 1; chain < chains; ++chain)
          all += sum[chain][p][j];
        sums[(warp / tiles * Rows + p * 8 + lane % 4 * 2 + j % 2) * sum_pitch + column + lane / 4 +
             j / 2 * 8] = all;
      }
      return slices;
    }
#endif
    if constexpr (!Matrix) {
      sum_pitch = tc_recurrent_columns;
      int lanes = 1;
      while (lanes < columns && lanes < 32)
        lanes *= 2;
      if (line + columns > count)
        multiply_each<4, false>(line, at, units, lanes);
      else if (columns > 64)
        multiply_each<4, true>(line, at, units, lanes);
      else if (columns > 32)
        multiply_each<2, true>(line, at, units, lanes);
      else
        multiply_each<1, true>(line, at, units, lanes);
    }
    return tc_recurrent_warps;
  }

  /// The items of a thread, each a unit of a row of the tile.
  struct Item {
    int row, unit; // of the tile, of those computed at once
    bool counts;
  };
  Item own[items];
  int own_units = 0;
  TC_MEMBER void share_items(int units) {
    if (units == own_units)
      return;
    own_units = units;
    TC_UNROLL
    for (int j = 0; j < items; ++j) {
      const int item = threadIdx.x + j * tc_recurrent_threads;
      own[j].row = item / units;
      own[j].unit = item % units;
      own[j].counts = item < units * Rows;
    }
  }
  /// What a thread needs besides for its items, asked for before the products.
  struct Given {
    A x[items][gates], cell[items];
  };
  TC_MEMBER void ask(long long tile, long long step, long long at, int units, bool with_cells,
                     Given &given) {
    share_items(units);
    TC_UNROLL
    for (int j = 0; j < items; ++j) {
      const long long row = tile * Rows + own[j].row, unit = at + own[j].unit;
      const bool counts = own[j].counts && row < call.batch;
      const T *from = call.parts + call.row(step, row) * gates * call.width + unit;
      TC_UNROLL
      for (int gate = 0; gate < gates; ++gate)
        given.x[j][gate] = static_cast<A>(tc_load_where(counts, from + gate * call.width));
      given.cell[j] = A(0);
      if (Cell == tc_cell_lstm && with_cells && counts)
        given.cell[j] = (step == 0 ? call.cells : call.last)[row * call.width + unit];
    }
  }
  TC_MEMBER void finish(long long tile, long long step, long long at, int units, int slices,
                        bool with_cells, Given &given) {
    share_items(units);
    TC_UNROLL
    for (int j = 0; j < items; ++j) {
      const int in_tile = own[j].row;
      const long long row = tile * Rows + in_tile, unit = at + own[j].unit;
      if (!own[j].counts || row >= call.batch)
        continue;
      A h[gates];
      TC_UNROLL
      for (int gate = 0; gate < gates; ++gate) {
        const A *of = sums + in_tile * sum_pitch + gate * units + own[j].unit;
        A parts[tc_recurrent_warps]; // all on their way at once
        TC_UNROLL
        for (int slice = 0; slice < tc_recurrent_warps; ++slice)
          parts[slice] = slice < slices ? of[slice * Rows * sum_pitch] : A(0);
        A sum = A(0);
        TC_UNROLL
        for (int slice = 0; slice < tc_recurrent_warps; ++slice)
          sum += parts[slice];
        if (Cell == tc_cell_gru && call.bias != nullptr)
          sum += static_cast<A>(tc_load(call.bias + gate * call.width + unit));
        h[gate] = sum;
      }
      A before = A(0);
      if constexpr (Matrix)
        before = tc_get(state[in_tile * state_pitch + unit]);
      else
        before = state[in_tile * state_pitch + unit];
      const A value = tc_recurrent_next<Cell>(given.x[j], h, before, given.cell[j]);
      if (Cell == tc_cell_lstm && with_cells)
        call.last[row * call.width + unit] = given.cell[j];
      T stored;
      tc_store(&stored, static_cast<tc_value<T>>(value));
      call.out[call.row(step, row) * call.width + unit] = stored;
      if (alone)
        put(next + in_tile * state_pitch + unit, stored);
    }
  }

  TC_MEMBER void compute() {
    if (group >= groups)
      return; // the grid is no multiple of the group
    hold_weights();
    clear_state();
    const long long tiles = (call.batch + Rows - 1) / Rows;
    // A block whose units are computed at once keeps their cells, and asks a step ahead.
    const bool at_once = end - first <= most_units;
    Given given = {}, ahead = {};
    for (long long tile = group; tile < tiles; tile += groups)
      for (long long step = 0; step < call.steps; ++step) {
        if (first < end && (step == 0 || !at_once))
          ask(tile, step, first, units_at(first), true, given);
        if (first < end && at_once && step + 1 < call.steps)
          ask(tile, step + 1, first, units_at(first), false, ahead);
        if (step == 0 || !alone) {
          if (step == 0)
            TC_BARRIER(); // weights are held, and the last tile's state is not looked at any more
          else
            tc_recurrent_meet<Cluster>(counter, blocks);
          bring_state(tile, step);
        } else {
          H *const before = state;
          state = next;
          next = before;
        }
        TC_BARRIER();
        for (long long at = first; at < end; at += most_units) {
          const int units = units_at(at);
          if (at > first)
            TC_BARRIER(); // the sums of the units before are not looked at any more
          const int slices = multiply(at, units);
          if (at + most_units < end)
            ask(tile, step, at + most_units, units_at(at + most_units), true, ahead);
          TC_BARRIER();
          finish(tile, step, at, units, slices, !at_once || step + 1 == call.steps, given);
          TC_UNROLL
          for (int j = 0; j < items && at_once; ++j)
            ahead.cell[j] = given.cell[j];
          given = ahead;
        }
      }
  }
};

template <int Cell, int Rows, bool Matrix, bool Cluster, class T>
TC_FN void tc_recurrent(const T *parts, const T *weights,
                        const typename tc_recurrent_sum<T>::given *bias, const T *hidden,
                        const typename tc_recurrent_sum<T>::type *cells, T *out,
                        typename tc_recurrent_sum<T>::type *last, long long *counters,
                        long long steps, long long batch, long long width, bool batch_first,
                        bool backwards, long long bytes, long long most) {
  TC_DYN_SMEM(unsigned char, shared);
  tc_recurrent_block<Cell, Rows, Matrix, Cluster, T> block(
      {parts, weights, bias, hidden, cells, out, last, steps, batch, width, batch_first, backwards},
      counters, shared, bytes, most);
  block.compute();
}
