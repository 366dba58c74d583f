#include "engine/engine.h"
#include "engine/stream_order.h"

#include <algorithm>

namespace tsc_engine {
namespace {

/// Calls visit(buffer, written) for every operand of a step.
template <class Visit>
void for_each_operand(const Tables &tables, const Step &step, const Visit &visit) {
  auto position = static_cast<size_t>(step.position);
  if (step.kind == StepKind::launch) {
    const Launch &launch = tables.launches[position];
    auto next = static_cast<size_t>(launch.pointers.first);
    for (const char *letter = tables.kernels[static_cast<size_t>(launch.kernel)].parameters;
         *letter != '\0'; ++letter)
      if (*letter != 's')
        visit(static_cast<uint32_t>(tables.operands[next++].buffer), *letter == 'w');
  } else if (step.kind == StepKind::matmul) {
    const Matmul &matmul = tables.matmuls[position];
    visit(static_cast<uint32_t>(matmul.a.buffer), false);
    visit(static_cast<uint32_t>(matmul.b.buffer), false);
    if (matmul.has_c)
      visit(static_cast<uint32_t>(matmul.c.buffer), false);
    visit(static_cast<uint32_t>(matmul.out.buffer), true);
  } else if (step.kind == StepKind::fill) {
    visit(static_cast<uint32_t>(tables.fills[position].to.buffer), true);
  } else if (step.kind == StepKind::conditional) {
    const Conditional &conditional = tables.conditionals[position];
    if (conditional.has_predicate)
      visit(static_cast<uint32_t>(conditional.predicate.buffer), false);
  } else if (step.kind == StepKind::while_loop) {
    visit(static_cast<uint32_t>(tables.loops[position].predicate.buffer), false);
  } else if (step.kind == StepKind::define) {
    visit(static_cast<uint32_t>(tables.defines[position].number.buffer), false);
  } else if (step.kind == StepKind::event) {
    return;
  } else if (step.kind == StepKind::solver) {
    const Solver &solver = tables.solvers[position];
    for (const Operand *read : {&solver.a, &solver.b, &solver.c})
      if (read->buffer >= 0)
        visit(static_cast<uint32_t>(read->buffer), false);
    for (const Operand *written : {&solver.out, &solver.second, &solver.third, &solver.info})
      if (written->buffer >= 0)
        visit(static_cast<uint32_t>(written->buffer), true);
  } else if (step.kind == StepKind::collective) {
    visit(static_cast<uint32_t>(tables.collectives[position].from.buffer), false);
    visit(static_cast<uint32_t>(tables.collectives[position].to.buffer), true);
  } else {
    visit(static_cast<uint32_t>(tables.copies[position].from.buffer), false);
    visit(static_cast<uint32_t>(tables.copies[position].to.buffer), true);
  }
}

/// The buffer at the end of each alias chain. Chains share their ends: each buffer is walked once.
std::vector<uint32_t> find_roots(const Tables &tables) {
  std::vector<uint32_t> roots(tables.buffers.count, UINT32_MAX);
  std::vector<uint32_t> chain;
  for (uint32_t buffer = 0; buffer < tables.buffers.count; ++buffer) {
    uint32_t at = buffer;
    chain.clear();
    while (roots[at] == UINT32_MAX && tables.buffers[at].alias_of >= 0) {
      chain.push_back(at);
      at = static_cast<uint32_t>(tables.buffers[at].alias_of);
    }
    uint32_t root = roots[at] == UINT32_MAX ? at : roots[at];
    roots[at] = root;
    for (uint32_t link : chain)
      roots[link] = root;
  }
  return roots;
}

/// Finds homes and lifetimes; one piece of memory per root.
class Planner {
public:
  explicit Planner(Model &model)
      : model_(model), tables_(model.tables), roots_(find_roots(model.tables)),
        decided_(tables_.buffers.count, false), homes_(tables_.buffers.count) {}

  void run() {
    find_order();
    // The first to claim a root has it: memory that is given beats memory that is made.
    for (uint32_t i = 0; i < tables_.inputs.count; ++i)
      claim(static_cast<uint32_t>(tables_.inputs[i].buffer), {Home::Kind::input, i});
    for (uint32_t buffer = 0; buffer < tables_.buffers.count; ++buffer)
      if (tables_.buffers[buffer].role == Role::weight)
        claim(buffer, {Home::Kind::weight, static_cast<uint32_t>(tables_.buffers[buffer].weight)});
    for (uint32_t buffer = 0; buffer < tables_.buffers.count; ++buffer)
      if (tables_.buffers[buffer].role == Role::random_state)
        claim(buffer, {Home::Kind::random_state, 0});
      else if (tables_.buffers[buffer].role == Role::failure)
        claim(buffer, {Home::Kind::failure, 0});
      else if (tables_.buffers[buffer].role == Role::exchange) {
        claim(buffer, {Home::Kind::exchange, static_cast<uint32_t>(model_.exchanges.size())});
        model_.exchanges.push_back(roots_[buffer]);
      }
    claim_folded();
    for (uint32_t i = 0; i < tables_.outputs.count; ++i) {
      int32_t buffer = tables_.outputs[i].buffer;
      if (buffer >= 0 && !tables_.outputs[i].is_mutation &&
          tables_.buffers[static_cast<size_t>(buffer)].role == Role::output)
        claim(static_cast<uint32_t>(buffer), {Home::Kind::output, i});
    }
    model_.weight_is_used.assign(tables_.weights.count, false);
    model_.folded_is_used.assign(model_.folded_bytes.size(), false);
    find_unlent();
    find_lifetimes();
    for (uint32_t i = 0; i < tables_.outputs.count; ++i)
      note_copied(i);
    model_.homes.resize(tables_.buffers.count);
    for (uint32_t buffer = 0; buffer < tables_.buffers.count; ++buffer)
      model_.homes[buffer] = homes_[roots_[buffer]];
    model_.roots = std::move(roots_);
  }

private:
  void claim(uint32_t buffer, Home home) {
    uint32_t root = roots_[buffer];
    if (!decided_[root])
      homes_[root] = home;
    decided_[root] = true;
  }

  void claim_folded() {
    std::vector<uint32_t> folded_of(tables_.buffers.count, UINT32_MAX);
    for (const Step &step : tables_.steps) {
      if (!step.once)
        continue;
      for_each_operand(tables_, step, [&](uint32_t buffer, bool written) {
        uint32_t root = roots_[buffer];
        if (!written || decided_[root])
          return;
        folded_of[root] = static_cast<uint32_t>(model_.folded_bytes.size());
        model_.folded_bytes.push_back(0);
        claim(buffer, {Home::Kind::folded, folded_of[root]});
      });
    }
    for (uint32_t buffer = 0; buffer < tables_.buffers.count; ++buffer)
      if (uint32_t folded = folded_of[roots_[buffer]]; folded != UINT32_MAX)
        model_.folded_bytes[folded] =
            std::max(model_.folded_bytes[folded], tables_.buffers[buffer].bytes.value);
  }

  void touch(uint32_t buffer, uint32_t step) {
    uint32_t root = roots_[buffer];
    if (!decided_[root]) {
      claim(buffer, {Home::Kind::workspace, static_cast<uint32_t>(model_.lifetimes.size())});
      model_.lifetimes.push_back({step, last_beside(step), root});
    }
    if (homes_[root].kind == Home::Kind::weight)
      model_.weight_is_used[homes_[root].position] = true;
    if (homes_[root].kind == Home::Kind::folded)
      model_.folded_is_used[homes_[root].position] = true;
    if (homes_[root].kind == Home::Kind::output) {
      uint32_t &until = model_.output_unused_until[homes_[root].position];
      until = std::min(until, loops_.empty() ? step : loops_.front().first);
    }
    if (homes_[root].kind != Home::Kind::workspace)
      return;
    Lifetime &lifetime = model_.lifetimes[homes_[root].position];
    lifetime.last = std::max(lifetime.last, last_beside(step));
    for (const Loop &loop : loops_) // what was there before a loop is there in every round
      if (lifetime.first < loop.first) {
        lifetime.last = std::max(lifetime.last, loop.last);
        break;
      }
  }
  /// Only memory that a caller must give, and that is one output's, can be lent.
  void find_unlent() {
    model_.output_unused_until.assign(tables_.outputs.count, 0);
    for (const Home &home : homes_)
      if (home.kind == Home::Kind::output)
        model_.output_unused_until[home.position] = static_cast<uint32_t>(tables_.steps.count);
  }
  void find_lifetimes() {
    for (uint32_t step = 0; step < tables_.steps.count; ++step) {
      while (!loops_.empty() && loops_.back().last < step)
        loops_.pop_back();
      if (tables_.steps[step].once)
        continue;
      if (tables_.steps[step].kind == StepKind::while_loop) {
        const WhileLoop &loop = tables_.loops[static_cast<size_t>(tables_.steps[step].position)];
        const auto count = static_cast<uint32_t>(loop.condition_steps + loop.body_steps);
        loops_.push_back({step, step + count});
        // Read when the condition's steps are done.
        touch(static_cast<uint32_t>(loop.predicate.buffer), step);
        touch(static_cast<uint32_t>(loop.predicate.buffer),
              step + static_cast<uint32_t>(loop.condition_steps));
      }
      for_each_operand(tables_, tables_.steps[step],
                       [&](uint32_t buffer, bool) { touch(buffer, step); });
    }
    loops_.clear();
    // Copies into the caller's outputs follow the last step.
    auto after_all = static_cast<uint32_t>(tables_.steps.count);
    for (const Output &output : tables_.outputs)
      if (output.buffer >= 0)
        touch(static_cast<uint32_t>(output.buffer), after_all);
  }

  /// What runs beside what, if there are several streams.
  void find_order() {
    model_.is_awaited.assign(tables_.steps.count, false);
    for (const int32_t wait : tables_.waits)
      model_.is_awaited[static_cast<size_t>(wait)] = true;
    for (const Step &step : tables_.steps)
      model_.streams = std::max(model_.streams, static_cast<size_t>(step.stream) + 1);
    if (model_.streams == 1)
      return;
    StreamOrder order(model_.streams);
    std::vector<size_t> ends; // of the steps that depend on those around
    for (size_t i = 0; i < tables_.steps.count; ++i) {
      for (; !ends.empty() && ends.back() == i; ends.pop_back())
        order.end_conditional();
      const Step &step = tables_.steps[i];
      order.add(static_cast<size_t>(step.stream), tables_.waits.rows + step.waits.first,
                static_cast<size_t>(step.waits.count));
      if (const size_t count = dependents(step); count != 0) {
        order.begin_conditional();
        ends.push_back(i + 1 + count);
      }
    }
    last_beside_ = order.last_beside();
  }
  size_t dependents(const Step &step) const {
    const auto position = static_cast<size_t>(step.position);
    if (step.kind == StepKind::conditional) {
      const Conditional &row = tables_.conditionals[position];
      return static_cast<size_t>(row.then_steps) + static_cast<size_t>(row.else_steps);
    }
    if (step.kind == StepKind::while_loop) {
      const WhileLoop &row = tables_.loops[position];
      return static_cast<size_t>(row.condition_steps) + static_cast<size_t>(row.body_steps);
    }
    return 0;
  }
  uint32_t last_beside(uint32_t step) const {
    return step < last_beside_.size() ? last_beside_[step] : step;
  }

  void note_copied(uint32_t position) {
    const Output &output = tables_.outputs[position];
    if (output.buffer < 0)
      return;
    const Home &home = homes_[roots_[static_cast<size_t>(output.buffer)]];
    if (output.is_mutation)
      model_.mutated_outputs.push_back(position);
    else if (home.kind != Home::Kind::output || home.position != position)
      model_.copied_outputs.push_back(position);
  }

  Model &model_;
  const Tables &tables_;
  std::vector<uint32_t> roots_;
  std::vector<bool> decided_;
  std::vector<Home> homes_;           // by root
  std::vector<uint32_t> last_beside_; // by step; empty for one stream
  struct Loop {                       // steps, inclusive
    uint32_t first = 0, last = 0;
  };
  std::vector<Loop> loops_; // around the step that is looked at, outermost first
};

} // namespace

bool reads_predicates(const Tables &tables) {
  for (const Conditional &conditional : tables.conditionals)
    if (conditional.has_predicate)
      return true;
  for (const Solver &solver : tables.solvers)
    if (!is_transform(solver.routine)) // some wait inside
      return true;
  return tables.loops.count != 0 || tables.defines.count != 0;
}

Model::Model(const Tables &tables, Plan plan) : tables(tables), plan(plan) { Planner(*this).run(); }

} // namespace tsc_engine
