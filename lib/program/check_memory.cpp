#include "program/check_memory.h"

#include <algorithm>
#include <unordered_map>

namespace tsc::program {
namespace {

using support::Diagnostic;

/// Whose value a piece of memory holds.
constexpr int64_t kNobody = -1;  // nothing was written yet: what was there before the run
constexpr int64_t kSeveral = -2; // that depends on a branch

/// Pieces of memory whose holder changed: small where few steps depend on a condition.
using Changes = std::unordered_map<uint32_t, int64_t>;

class MemoryCheck {
public:
  explicit MemoryCheck(const Program &program) : program_(program) {
    roots_.resize(program.buffers.size());
    depths_.assign(program.buffers.size(), 0);
    for (uint32_t buffer = 0; buffer < roots_.size(); ++buffer) {
      roots_[buffer] = buffer;
      for (; program.buffers[roots_[buffer]].alias_of >= 0; ++depths_[buffer])
        roots_[buffer] = static_cast<uint32_t>(program.buffers[roots_[buffer]].alias_of);
    }
    holders_.assign(program.buffers.size(), kNobody);
    written_.assign(program.buffers.size(), false);
    writers_left_.assign(program.buffers.size(), 0);
    for (const Step &step : program.steps)
      for (const uint32_t buffer : writes(program, step))
        ++writers_left_[buffer];
  }

  std::vector<Diagnostic> run() {
    run_steps(0, program_.steps.size());
    for (size_t i = 0; i < program_.outputs.size(); ++i)
      if (program_.outputs[i].buffer >= 0)
        check_holder(static_cast<uint32_t>(program_.outputs[i].buffer),
                     "/outputs/" + std::to_string(i), "the output");
    return std::move(problems_);
  }

private:
  const Program &program_;
  std::vector<uint32_t> roots_, depths_; // by buffer: where its chain of aliases ends, how far
  std::vector<int64_t> holders_;         // by root
  std::vector<bool> written_;            // by buffer: some step did
  std::vector<size_t> writers_left_;     // by buffer
  std::vector<Changes *> recorders_;     // of the branches that the walk is in
  size_t loops_ = 0;                     // that it is in
  std::vector<Diagnostic> problems_;

  std::string name(uint32_t buffer) const { return "\"" + program_.buffers[buffer].name + "\""; }
  void report(const std::string &where, const std::string &message) {
    problems_.push_back({"TSC-P013", "memory: " + message, "", where, "", "",
                         "compile the graph again with this version of tsc"});
  }
  /// What nobody has written holds what the caller, a weight or an earlier run left there.
  void check_holder(uint32_t buffer, const std::string &where, const std::string &who) {
    const int64_t holder = holders_[roots_[buffer]];
    if (holder != kNobody && holder != kSeveral && holder != static_cast<int64_t>(buffer))
      report(where, who + " reads buffer " + name(buffer) + " after " +
                        name(static_cast<uint32_t>(holder)) + " took over its memory");
  }
  void set_holder(uint32_t root, int64_t holder) {
    for (Changes *changes : recorders_)
      changes->try_emplace(root, holders_[root]); // what was there before
    holders_[root] = holder;
  }

  void check_read(uint32_t buffer, const std::string &where) {
    const Buffer &row = program_.buffers[buffer];
    const bool own = row.role == Role::intermediate || row.role == Role::output;
    if (own && !written_[buffer] && writers_left_[buffer] != 0 && loops_ == 0 &&
        !row.bytes.is_integer(0) && holders_[roots_[buffer]] == kNobody)
      report(where, "the step reads buffer " + name(buffer) + ", which a later one writes");
    check_holder(buffer, where, "the step");
  }
  void check_offset(const Operand &operand, const std::string &where) {
    const Buffer &row = program_.buffers[operand.buffer];
    if (!operand.offset.is_integer() || !row.bytes.is_integer() || operand.offset.is_integer(0))
      return;
    const auto width = static_cast<int64_t>(tensor::size_in_bytes(row.dtype));
    int64_t extent = row.bytes.value(); // a buffer may use all that its memory holds
    for (int32_t next = row.alias_of; next >= 0;
         next = program_.buffers[static_cast<size_t>(next)].alias_of)
      if (const Buffer &other = program_.buffers[static_cast<size_t>(next)];
          other.bytes.is_integer())
        extent = std::max(extent, other.bytes.value());
      else
        return;
    if (operand.offset.value() > extent / width)
      report(where, "an operand begins at element " + std::to_string(operand.offset.value()) +
                        " of buffer " + name(operand.buffer) + ", which has " +
                        std::to_string(extent / width));
  }

  void run_step(size_t position) {
    const Step &step = program_.steps[position];
    const std::string where = "/steps/" + std::to_string(position);
    std::vector<uint32_t> written = writes(program_, step);
    // In place, a kernel may write to both: what takes over is what is there afterwards.
    std::stable_sort(written.begin(), written.end(),
                     [this](uint32_t a, uint32_t b) { return depths_[a] < depths_[b]; });
    if (const auto *launch = std::get_if<Launch>(&step.kind))
      for (const Operand &operand : launch->pointers)
        check_offset(operand, where);
    for (const uint32_t buffer : reads(program_, step))
      if (std::find(written.begin(), written.end(), buffer) == written.end())
        check_read(buffer, where);
    for (const uint32_t buffer : written) {
      --writers_left_[buffer];
      written_[buffer] = true;
      set_holder(roots_[buffer], buffer);
    }
  }

  void run_steps(size_t begin, size_t end) {
    for (size_t i = begin; i < end;) {
      const Step &step = program_.steps[i];
      if (const auto *conditional = std::get_if<Conditional>(&step.kind)) {
        run_step(i);
        const size_t middle = i + 1 + conditional->then_steps;
        run_branches(i + 1, middle, middle + conditional->else_steps);
        i = middle + conditional->else_steps;
      } else if (const auto *loop = std::get_if<WhileLoop>(&step.kind)) {
        i = run_loop(i, *loop);
      } else {
        run_step(i++);
      }
    }
  }

  /// Both branches start from the same memory.
  void run_branches(size_t begin, size_t middle, size_t end) {
    Changes first, second;
    recorders_.push_back(&first);
    run_steps(begin, middle);
    recorders_.pop_back();
    Changes after_first;
    for (const auto &[root, before] : first) {
      after_first[root] = holders_[root];
      holders_[root] = before;
    }
    recorders_.push_back(&second);
    run_steps(middle, end);
    recorders_.pop_back();
    for (const auto &[root, holder] : after_first)
      if (holders_[root] != holder)
        set_holder(root, kSeveral);
    for (const auto &[root, before] : second)
      if (!after_first.count(root) && holders_[root] != before)
        set_holder(root, kSeveral);
  }

  /// The condition's steps run at least once, the body's perhaps not at all.
  size_t run_loop(size_t position, const WhileLoop &loop) {
    const size_t body = position + 1 + loop.condition_steps, end = body + loop.body_steps;
    Changes changes;
    ++loops_;
    run_steps(position + 1, body);
    check_read(loop.predicate.buffer, "/steps/" + std::to_string(position));
    recorders_.push_back(&changes);
    run_steps(body, end);
    recorders_.pop_back();
    --loops_;
    for (const auto &[root, before] : changes)
      if (holders_[root] != before)
        set_holder(root, kSeveral);
    return end;
  }
};

} // namespace

std::vector<Diagnostic> check_memory(const Program &program) { return MemoryCheck(program).run(); }

} // namespace tsc::program
