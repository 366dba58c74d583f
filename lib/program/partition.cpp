#include "program/partition.h"

#include "support/text.h"

#include <algorithm>
#include <set>

namespace tsc::program {
namespace {

/// Steps behind step `at` that depend on it.
uint32_t dependent_steps(const Step &step) {
  if (const auto *conditional = std::get_if<Conditional>(&step.kind))
    return conditional->then_steps + conditional->else_steps;
  if (const auto *loop = std::get_if<WhileLoop>(&step.kind))
    return loop->condition_steps + loop->body_steps;
  return 0;
}

class Partitioner {
public:
  explicit Partitioner(const Program &program)
      : program_(program), partition_of_(program.steps.size(), kNone) {}

  std::vector<Partition> run() {
    visit(0, static_cast<uint32_t>(program_.steps.size()), 0);
    for (uint32_t part = 0; part < parts_.size(); ++part)
      for (uint32_t i = 0; i < parts_[part].count; ++i)
        partition_of_[parts_[part].first + i] = part;
    for (uint32_t part = 0; part < parts_.size(); ++part)
      find_signature(part);
    return std::move(parts_);
  }

private:
  static constexpr uint32_t kNone = UINT32_MAX;
  const Program &program_;
  std::vector<Partition> parts_;
  std::vector<uint32_t> partition_of_; // by step

  /// Whether the host has to act in [begin, end).
  bool needs_host(uint32_t begin, uint32_t end) const {
    return std::any_of(program_.steps.begin() + begin, program_.steps.begin() + end,
                       [&](const Step &step) { return needs_host(step); });
  }
  static bool needs_host(const Step &step) {
    const auto *conditional = std::get_if<Conditional>(&step.kind);
    return std::holds_alternative<WhileLoop>(step.kind) ||
           std::holds_alternative<Collective>(step.kind) ||
           std::holds_alternative<Define>(step.kind) ||
           (conditional != nullptr && conditional->predicate);
  }

  void visit(uint32_t begin, uint32_t end, uint32_t depth) {
    uint32_t open = begin; // of the part that is being made
    const auto close = [&](uint32_t last) {
      const bool any = std::any_of(program_.steps.begin() + open, program_.steps.begin() + last,
                                   [](const Step &step) { return !step.once; });
      if (any)
        parts_.push_back({open, last - open, depth, true, {}, {}});
    };
    for (uint32_t i = begin; i < end;) {
      const Step &step = program_.steps[i];
      const uint32_t behind = i + 1 + dependent_steps(step);
      if (!needs_host(i, behind)) {
        i = behind;
        continue;
      }
      close(i);
      parts_.push_back({i, 1, depth, false, {}, {}});
      visit_dependent(i, depth + 1);
      open = i = behind;
    }
    close(end);
  }
  void visit_dependent(uint32_t at, uint32_t depth) {
    const Step &step = program_.steps[at];
    const auto *conditional = std::get_if<Conditional>(&step.kind);
    const auto *loop = std::get_if<WhileLoop>(&step.kind);
    if (conditional == nullptr && loop == nullptr)
      return;
    const uint32_t middle =
        at + 1 + (conditional != nullptr ? conditional->then_steps : loop->condition_steps);
    visit(at + 1, middle, depth);
    visit(middle, at + 1 + dependent_steps(step), depth);
  }

  /// What other parts, steps that run once excepted, read; and what is wanted after the run.
  bool is_wanted(uint32_t buffer, uint32_t part) const {
    const Role role = program_.buffers[buffer].role;
    if (role != Role::intermediate)
      return true;
    for (const OutputInfo &output : program_.outputs)
      if (output.buffer == static_cast<int64_t>(buffer))
        return true;
    for (size_t i = 0; i < program_.steps.size(); ++i) {
      if (partition_of_[i] == part || program_.steps[i].once)
        continue;
      const std::vector<uint32_t> read = reads(program_, program_.steps[i]);
      if (std::binary_search(read.begin(), read.end(), buffer))
        return true;
    }
    return false;
  }

  void find_signature(uint32_t part) {
    Partition &row = parts_[part];
    std::set<uint32_t> inputs, written;
    for (uint32_t i = row.first; i < row.first + row.count; ++i) {
      if (program_.steps[i].once)
        continue;
      for (const uint32_t buffer : reads(program_, program_.steps[i]))
        if (written.count(buffer) == 0)
          inputs.insert(buffer);
      for (const uint32_t buffer : writes(program_, program_.steps[i]))
        written.insert(buffer);
    }
    row.inputs.assign(inputs.begin(), inputs.end());
    for (const uint32_t buffer : written)
      if (is_wanted(buffer, part))
        row.outputs.push_back(buffer);
  }
};

std::string buffer_text(const Program &program, uint32_t number) {
  const Buffer &buffer = program.buffers[number];
  std::vector<std::string> sizes;
  for (const Expr size : buffer.layout.sizes)
    sizes.push_back(symbolic::print(size));
  return buffer.name + " " + std::string(tensor::torch_name(buffer.dtype)) + "[" +
         support::join(sizes, ", ") + "]";
}

std::string buffers_line(const Program &program, const std::string &label,
                         const std::vector<uint32_t> &buffers) {
  std::vector<std::string> texts;
  for (const uint32_t buffer : buffers)
    texts.push_back(buffer_text(program, buffer));
  return label + " = [" + support::join(texts, ", ") + "]\n";
}

} // namespace

std::vector<Partition> partition(const Program &program) { return Partitioner(program).run(); }

std::string to_text(const Program &program, const std::vector<Partition> &partitions) {
  std::string text;
  for (size_t i = 0; i < partitions.size(); ++i) {
    const Partition &part = partitions[i];
    const std::string indent(2 * part.depth, ' ');
    std::vector<std::string> names;
    for (uint32_t step = part.first; step < part.first + part.count; ++step)
      if (!program.steps[step].once)
        names.push_back(program.steps[step].name);
    text += indent + "partition " + std::to_string(i) + ": " +
            (part.capturable ? "captured" : "by the host") + "\n" + indent + "  steps = [" +
            support::join(names, ", ") + "]\n" + indent + "  " +
            buffers_line(program, "inputs", part.inputs) + indent + "  " +
            buffers_line(program, "outputs", part.outputs);
  }
  return text;
}

} // namespace tsc::program
