// Alignments of label sequences with steps of scores (connectionist temporal classification): for
// each step and state, the logarithm of what all partial paths to that state add up to. A sequence
// of L labels has 2 L + 1 states: a blank before, between and behind its labels. From step to step
// a path stays, goes on by one state, or by two where that leaves out a blank between two different
// labels.
//
// One block computes a sequence: its threads share the states of a step, and meet before the next.
#pragma once

#include "tsc_prelude.h"

/// Tensors and numbers of a call. Lengths are within bounds: 0 <= inputs[n] <= steps and
/// 0 <= 2 * targets[n] + 1 <= states.
template <class T> struct tc_ctc_call {
  const T *scores;                   // [steps, batch, classes], as they lie
  long long step, sequence, score;   // their strides, in elements
  const long long *labels;           // [batch, columns], columns >= states / 2
  const long long *inputs, *targets; // [batch]: steps and labels that count
  T *out;                            // [batch, steps, states]
  long long steps, states, columns, blank;
};

/// log(exp(a) + exp(b) + exp(c)); -inf where all three are.
template <class T> TC_FN T tc_ctc_add(T a, T b, T c) {
  T most = a;
  if (b > most)
    most = b;
  if (c > most)
    most = c;
  if (most == -T(TC_INF))
    return most;
  return tc_log(tc_exp(a - most) + tc_exp(b - most) + tc_exp(c - most)) + most;
}

/// Sequence n of a call. Steps and states are counted from where its paths begin: the first ones,
/// or going backwards the last ones that count.
template <class T, bool Backwards> struct tc_ctc_sequence {
  const tc_ctc_call<T> &call;
  const T *scores;
  const long long *labels;
  T *out;
  long long length, ends; // steps and states that count

  TC_MEMBER tc_ctc_sequence(const tc_ctc_call<T> &of, long long n)
      : call(of), scores(of.scores + n * of.sequence), labels(of.labels + n * of.columns),
        out(of.out + n * of.steps * of.states), length(of.inputs[n]), ends(2 * of.targets[n] + 1) {}

  /// Going backwards is the same walk over a mirrored sequence: a state and its mirror image are
  /// both blanks or both labels, because `ends` is odd.
  TC_MEMBER long long label(long long state) const {
    const long long place = Backwards ? ends - 1 - state : state;
    return place % 2 != 0 ? labels[place / 2] : call.blank;
  }
  TC_MEMBER T score(long long t, long long of_label) const {
    return scores[(Backwards ? length - 1 - t : t) * call.step + of_label * call.score];
  }
  /// What does not count lies behind what does, either way.
  TC_MEMBER T &at(long long t, long long state) const {
    const long long row = Backwards && t < length ? length - 1 - t : t;
    return out[row * call.states + (Backwards && state < ends ? ends - 1 - state : state)];
  }
  /// A path may reach `state` from two states before.
  TC_MEMBER bool skips(long long state) const {
    return state > 1 && state % 2 != 0 && label(state) != label(state - 2);
  }
  /// The value of a state, `before(s)` being those of the step before (of t > 0).
  template <class Before>
  TC_MEMBER T value(long long t, long long state, bool skip, T own, const Before &before) const {
    const T none = -T(TC_INF);
    if (t == 0)
      return state < 2 ? own : none;
    return tc_ctc_add(before(state), state > 0 ? before(state - 1) : none,
                      skip ? before(state - 2) : none) +
           own;
  }
};

/// The whole call on one thread.
template <bool Backwards, class T>
TC_FN void tc_ctc_serial(const tc_ctc_call<T> &call, long long batch) {
  for (long long n = 0; n < batch; ++n) {
    const tc_ctc_sequence<T, Backwards> sequence(call, n);
    for (long long t = 0; t < call.steps; ++t)
      for (long long state = 0; state < call.states; ++state) {
        T &out = sequence.at(t, state);
        if (t >= sequence.length || state >= sequence.ends)
          out = -T(TC_INF);
        else
          out = sequence.value(t, state, sequence.skips(state),
                               sequence.score(t, sequence.label(state)),
                               [&](long long s) { return sequence.at(t - 1, s); });
      }
  }
}

/// Sequence blockIdx.x. `rows` (null: there is no room) has shared memory for two steps' states.
template <bool Backwards, class T> TC_FN void tc_ctc_block(const tc_ctc_call<T> &call, T *rows) {
  const tc_ctc_sequence<T, Backwards> sequence(call, blockIdx.x);
  // A thread's first state is mostly its only one: what does not depend on the step is kept, and
  // its score is asked for a step ahead.
  const long long first = threadIdx.x;
  const bool counts = first < sequence.ends;
  const long long label = counts ? sequence.label(first) : call.blank;
  const bool skips = counts && sequence.skips(first);
  T own = counts && sequence.length > 0 ? sequence.score(0, label) : T(0);
  for (long long t = 0; t < sequence.length; ++t) {
    const T ahead = counts && t + 1 < sequence.length ? sequence.score(t + 1, label) : T(0);
    for (long long state = first; state < call.states; state += blockDim.x) {
      T value = -T(TC_INF);
      if (state < sequence.ends) {
        const bool is_first = state == first;
        const T score = is_first ? own : sequence.score(t, sequence.label(state));
        const bool skip = is_first ? skips : sequence.skips(state);
        value =
            rows != nullptr
                ? sequence.value(t, state, skip, score,
                                 [&](long long s) { return rows[((t - 1) & 1) * call.states + s]; })
                : sequence.value(t, state, skip, score,
                                 [&](long long s) { return sequence.at(t - 1, s); });
      }
      sequence.at(t, state) = value;
      if (rows != nullptr)
        rows[(t & 1) * call.states + state] = value;
    }
    own = ahead;
    TC_BARRIER();
  }
  for (long long t = sequence.length; t < call.steps; ++t)
    for (long long state = first; state < call.states; state += blockDim.x)
      sequence.at(t, state) = -T(TC_INF);
}

// What kernels call. Pointers and sizes are those of tc_ctc_call; sequence n is what block n
// computes, with dynamic shared memory for two steps' states if `is_shared`, else all of them are
// one thread's.
template <bool Backwards, class T>
TC_FN void tc_ctc_paths(const T *scores, const long long *labels, const long long *inputs,
                        const long long *targets, T *out, long long step, long long sequence,
                        long long score, long long steps, long long states, long long columns,
                        long long blank, bool is_shared) {
  TC_DYN_SMEM(T, rows);
  tc_ctc_block<Backwards, T>(
      {scores, step, sequence, score, labels, inputs, targets, out, steps, states, columns, blank},
      is_shared ? rows : nullptr);
}
template <bool Backwards, class T>
TC_FN void tc_ctc_paths_alone(const T *scores, const long long *labels, const long long *inputs,
                              const long long *targets, T *out, long long step, long long sequence,
                              long long score, long long steps, long long states, long long columns,
                              long long blank, long long batch) {
  tc_ctc_serial<Backwards, T>(
      {scores, step, sequence, score, labels, inputs, targets, out, steps, states, columns, blank},
      batch);
}
