#include "check.h"

#include "eager.h"

#include "driver/reference.h"
#include "ops/passes/passes.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <cctype>
#include <cmath>

namespace tsc::differential {
namespace {

using tensor::HostTensor;

constexpr size_t kNeighbours = 12;

bool same_kind(double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return std::isnan(a) && std::isnan(b);
  return (!std::isinf(a) && !std::isinf(b)) || a == b;
}

/// Fills status, detail and reason from what was thrown; false for a refusal.
bool describe(Finding &finding, std::string *code = nullptr) {
  Verdict verdict;
  describe_exception(verdict);
  finding.status = verdict.status;
  finding.reason = (verdict.code.empty() ? "" : verdict.code + " ") + verdict.reason;
  if (code)
    *code = verdict.code;
  return verdict.status != Status::refused;
}

/// In-place calls gone, so that every result can be perturbed.
Subject functional(const Subject &subject) {
  Subject result = subject;
  ops::PassOptions options;
  for (const ops::GraphPass &pass : ops::graph_passes()) {
    result.graph = pass.function(std::move(result.graph), options);
    if (pass.name == "functionalize")
      break;
  }
  return result;
}

bool has_half(const graph::Graph &graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const graph::Node &node) {
    const graph::TensorMeta *meta = node.value ? node.value->tensor() : nullptr;
    return meta != nullptr && tensor::is_reduced_float(meta->dtype);
  });
}

/// Whether some mean is computed beside a variance.
bool computes_moments(const Subject &subject) {
  for (const graph::Node &node : subject.graph.nodes)
    if (differential::computes_moments(node))
      return true;
  return false;
}

void check_program_text(const Evaluated &base, std::vector<Finding> &findings) {
  Finding finding;
  finding.way = "program.json";
  try {
    const std::string text = program::to_json(base.compilation->program);
    if (program::to_json(program::from_json(text, "again")) == text)
      return;
    finding.reason = "what is read is written otherwise";
  } catch (const std::exception &) {
    describe(finding);
    finding.status = Status::internal_error; // what tsc writes it must read
  }
  findings.push_back(std::move(finding));
}

void check_eagerly(const Subject &subject, Judge &judge, Checked &checked) {
  Finding finding;
  finding.way = "eager";
  try {
    const std::optional<EagerResult> eager = run_eagerly(subject);
    if (!eager)
      return;
    checked.ran_eagerly = true;
    NamedTensors outputs;
    for (size_t i = 0; i < eager->outputs.size(); ++i)
      outputs["output_" + std::to_string(i)] = eager->outputs[i];
    for (size_t i = 0; i < eager->inputs.size(); ++i)
      outputs["mutated_" + subject.graph.nodes[subject.graph.inputs[i].node].name] =
          eager->inputs[i];
    const auto difference = judge.compare(outputs);
    if (!difference)
      return;
    finding.detail = difference->first;
    finding.reason = difference->second;
  } catch (const std::exception &) {
    std::string code;
    if (!describe(finding, &code))
      return; // a call that is refused alone
  }
  checked.findings.push_back(std::move(finding));
}

} // namespace

std::string Finding::signature() const {
  std::string text = std::string(to_string(status)) + " " + way + " ";
  if (status == Status::differ)
    return text;
  std::string last;
  for (const char c : reason.substr(0, 160))
    text += std::isdigit(static_cast<unsigned char>(c)) ? '#' : c == '\n' ? ' ' : c;
  return text;
}

NamedTensors named(const program::Program &program, const std::vector<HostTensor> &outputs) {
  NamedTensors result;
  for (size_t i = 0; i < outputs.size(); ++i)
    if (program.outputs[i].buffer >= 0)
      result[program.outputs[i].name] = outputs[i];
  return result;
}

Evaluated evaluate(const Subject &subject, const driver::CompileOptions &options) {
  Evaluated result;
  result.compilation =
      std::make_unique<driver::Compilation>(driver::compile(subject.graph, options));
  result.outputs = named(result.compilation->program,
                         driver::run_reference(*result.compilation, subject.inputs, {}));
  return result;
}

NamedTensors outputs_of_variant(const Variant &variant, NamedTensors outputs) {
  NamedTensors result;
  for (auto &[name, tensor] : outputs)
    if (name.rfind("mutated_", 0) == 0)
      result[name] = tensor;
  for (size_t i = 0; i < variant.outputs.size(); ++i)
    if (variant.outputs[i] >= 0)
      if (const auto found = outputs.find("output_" + std::to_string(variant.outputs[i]));
          found != outputs.end())
        result["output_" + std::to_string(i)] = found->second;
  return result;
}

const std::vector<NamedTensors> &Judge::neighbours() {
  if (neighbours_)
    return *neighbours_;
  neighbours_.emplace();
  RandomSource random(1);
  const Subject subject = has_mutations(subject_.graph) ? functional(subject_) : subject_;
  const auto add = [&](const auto &make) {
    try {
      neighbours_->push_back(evaluate(make(), {}).outputs);
    } catch (const support::UserError &) { // of no use, then
    }
  };
  add([&] { return rounded(subject); });
  if (computes_moments(subject))
    add([&] { return without_infinities(subject); });
  for (size_t i = 0; i < kNeighbours; ++i)
    add([&] { return perturbed(subject, random); });
  return *neighbours_;
}

bool Judge::is_chaos(const std::string &name, const HostTensor &actual) {
  const HostTensor &expected = base_.outputs.at(name);
  if (actual.sizes() != expected.sizes() || actual.dtype() != expected.dtype())
    return false;
  const bool floating = tensor::is_floating(expected.dtype());
  std::vector<const HostTensor *> near;
  for (const NamedTensors &one : neighbours())
    if (const auto found = one.find(name);
        found != one.end() && found->second.sizes() == expected.sizes())
      near.push_back(&found->second);
  // And what nothing rounds: 65536.0 is infinite only where it passes through 16 bits.
  if (wide_ && floating && has_half(subject_.graph) && wide_->count(name) != 0)
    near.push_back(&wide_->at(name));
  if (!floating)
    return std::any_of(near.begin(), near.end(), [&](const HostTensor *one) {
      return !tensor::compare(*one, expected, nullptr).ok;
    });
  double scale = 0, near_scale = 0, spread = 0; // over the whole tensor: sums mix elements
  bool kinds = true;
  for (int64_t i = 0; i < expected.numel(); ++i) {
    const double e = expected.get_double(i);
    if (std::isfinite(e))
      scale = std::max(scale, std::fabs(e));
    for (const HostTensor *one : near) {
      kinds &= same_kind(one->get_double(i), e);
      if (std::isfinite(one->get_double(i))) // where all is 0 because it cancels, or vanishes
        near_scale = std::max(near_scale, std::fabs(one->get_double(i)));
      if (std::isfinite(e) && std::isfinite(one->get_double(i)))
        spread = std::max(spread, std::fabs(one->get_double(i) - e));
    }
  }
  if (!kinds || spread > 1e-2 * (scale > 0 ? scale : near_scale))
    return true;
  // Which of NaN and infinity a mean of infinities is, the order of the walk decides, in PyTorch
  // too (docs/numbers.md).
  const bool alike = computes_moments(subject_);
  for (int64_t i = 0; i < expected.numel(); ++i) {
    const double a = actual.get_double(i), e = expected.get_double(i);
    if (alike && !std::isfinite(a) && !std::isfinite(e))
      continue;
    if (!same_kind(a, e) || (std::isfinite(e) && std::fabs(a - e) > 8 * spread))
      return false;
  }
  return true;
}

std::optional<std::pair<std::string, std::string>> Judge::compare(const NamedTensors &actual) {
  for (const auto &[name, expected] : base_.outputs) {
    const auto found = actual.find(name);
    if (found == actual.end())
      continue; // dropped
    tensor::Agreement agreement = tensor::compare(found->second, expected, nullptr);
    if (agreement.ok)
      continue;
    if (tensor::is_floating(expected.dtype()) && agreement.worst_index >= 0) {
      if (!wide_) {
        driver::ReferenceOptions options;
        options.round_buffers = false;
        wide_ = named(base_.compilation->program,
                      driver::run_reference(*base_.compilation, subject_.inputs, {}, options));
      }
      agreement = tensor::compare(found->second, expected, &wide_->at(name));
      if (agreement.ok)
        continue;
    }
    if (is_chaos(name, found->second)) {
      saw_chaos = true;
      continue;
    }
    return std::make_pair(name, agreement.reason);
  }
  return std::nullopt;
}

Checked check(const Subject &subject, const CheckOptions &options, RandomSource random,
              std::shared_ptr<Evaluated> *kept) {
  Checked checked;
  const auto base = std::make_shared<Evaluated>();
  try {
    *base = evaluate(subject, {});
  } catch (const std::exception &) {
    Finding finding;
    finding.way = "compile";
    if (describe(finding, &checked.refused))
      checked.findings.push_back(std::move(finding));
    return checked;
  }
  if (kept)
    *kept = base;
  check_program_text(*base, checked.findings);
  Judge judge(subject, *base);
  if (options.eager)
    check_eagerly(subject, judge, checked);
  for (const size_t kind : options.kinds) {
    Finding finding;
    finding.way = variant_kinds()[kind];
    std::optional<Variant> variant;
    try {
      variant = make_variant(subject, kind, random);
      if (!variant)
        continue;
      ++checked.variants;
      finding.detail = variant->name;
      const Evaluated evaluated = evaluate(variant->subject, variant->compile);
      const auto difference = judge.compare(outputs_of_variant(*variant, evaluated.outputs));
      if (!difference)
        continue;
      finding.detail += ", " + difference->first;
      finding.reason = difference->second;
    } catch (const std::exception &) {
      std::string code;
      const bool wrong = describe(finding, &code);
      // What was valid stays so, but that a symbol may be anything, and that data may be out of
      // the range of a call whose result nothing read before.
      if (!wrong && (finding.way == "symbols" || finding.way == "dead code" ||
                     (finding.way == "more outputs" && code == "TSC-R127")))
        continue;
    }
    if (variant)
      finding.variant = variant->subject;
    checked.findings.push_back(std::move(finding));
  }
  checked.chaos = judge.saw_chaos;
  return checked;
}

void check_on_device(const std::vector<Pending> &pending, const runtime::SessionOptions &options,
                     const std::string &device, const std::function<void(size_t)> &begin,
                     const std::function<void(size_t, const Finding &)> &found) {
  std::vector<const program::Program *> programs;
  for (const Pending &one : pending)
    programs.push_back(&(one.variant ? one.evaluated : one.base)->compilation->program);
  const auto report = [&](size_t position, Finding finding) {
    const Pending &one = pending[position];
    finding.way = device;
    finding.detail = (one.variant ? one.variant->name + " " : "") + finding.detail;
    if (one.variant)
      finding.variant = one.variant->subject;
    found(position, finding);
  };
  const auto run = [&](const ProgramBatch &batch, const std::vector<size_t> &positions, size_t i) {
    const Pending &one = pending[positions[i]];
    const Subject &subject = one.variant ? one.variant->subject : *one.subject;
    Finding finding;
    try {
      NamedTensors outputs =
          named(*programs[positions[i]], batch.session(i, {})->run(subject.inputs));
      if (one.variant)
        outputs = outputs_of_variant(*one.variant, std::move(outputs));
      Judge judge(*one.subject, *one.base);
      const auto difference = judge.compare(outputs);
      if (!difference)
        return;
      finding.detail = difference->first;
      finding.reason = difference->second;
    } catch (const std::exception &) {
      describe(finding); // the reference took it
    }
    report(positions[i], std::move(finding));
  };
  make_batches(
      programs, options,
      [&](const ProgramBatch &batch, const std::vector<size_t> &positions) {
        for (size_t i = 0; i < positions.size(); ++i) {
          begin(positions[i]);
          run(batch, positions, i);
        }
        begin(SIZE_MAX);
      },
      [&](size_t position) {
        Finding finding;
        describe(finding);
        report(position, std::move(finding));
      });
}

} // namespace tsc::differential
