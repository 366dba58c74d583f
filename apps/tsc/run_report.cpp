#include "run_report.h"

#include "support/text.h"
#include "tensor/complex_memory.h"
#include "tensor/summary.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>

namespace tsc::app {
namespace {

std::string shape_text(const std::vector<int64_t> &sizes) {
  std::vector<std::string> parts;
  parts.reserve(sizes.size());
  for (int64_t size : sizes)
    parts.push_back(std::to_string(size));
  return "[" + support::join(parts, ", ") + "]";
}

/// What --bench says, milliseconds.
struct BenchSummary {
  double p50, p90, p99, low, high, runs_per_second;
};

BenchSummary summarize(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const double sum = std::accumulate(samples.begin(), samples.end(), 0.0);
  return {quantile(samples, 0.5),  quantile(samples, 0.9),
          quantile(samples, 0.99), samples.front(),
          samples.back(),          sum > 0 ? 1000 * static_cast<double>(samples.size()) / sum : 0};
}

nlohmann::json to_json(const std::vector<double> &samples_ms,
                       const std::vector<double> &warm_up_ms) {
  const BenchSummary summary = summarize(samples_ms);
  return {{"median_ms", summary.p50},
          {"p50_ms", summary.p50},
          {"p90_ms", summary.p90},
          {"p99_ms", summary.p99},
          {"min_ms", summary.low},
          {"max_ms", summary.high},
          {"runs_per_second", summary.runs_per_second},
          {"warm_up_ms", warm_up_ms},
          {"samples", samples_ms.size()}};
}

void print_bench(const RunReport &report, std::FILE *stream) {
  const BenchSummary summary = summarize(report.samples_ms);
  std::string warm_up;
  for (const double milliseconds : report.timing.warm_up_ms) {
    char text[32];
    std::snprintf(text, sizeof text, "%s%.4f", warm_up.empty() ? "" : ", ", milliseconds);
    warm_up += text;
  }
  std::fprintf(stream, "run: median %.4f ms (min %.4f, max %.4f, %zu samples)\n", summary.p50,
               summary.low, summary.high, report.samples_ms.size());
  std::fprintf(stream, "     p50 %.4f ms, p90 %.4f, p99 %.4f; %.1f runs a second; warm-up %s ms\n",
               summary.p50, summary.p90, summary.p99, summary.runs_per_second, warm_up.c_str());
}

/// " (logits)"; positions alone say nothing that the number does not.
std::string in_brackets(const std::string &path) {
  const bool is_told = path.find_first_not_of("0123456789.") != std::string::npos;
  return is_told ? " (" + path + ")" : "";
}

nlohmann::json number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(support::python_repr(value));
}

nlohmann::json to_json(const RunReport &report) {
  nlohmann::json phases = nlohmann::json::object();
  for (const driver::PassTime &pass : report.passes)
    phases[pass.name] = pass.milliseconds;
  nlohmann::json stages = nlohmann::json::object();
  for (const Stage &stage : report.stages)
    stages[stage.name] = stage.milliseconds;
  nlohmann::json comparisons = nlohmann::json::array();
  for (const driver::OutputAgreement &output : report.comparisons)
    comparisons.push_back({{"name", output.name},
                           {"path", output.path},
                           {"agrees", output.agreement.ok},
                           {"norm_error", number(output.agreement.norm_error)},
                           {"norm_bound", output.agreement.norm_bound},
                           {"worst_element", number(output.agreement.worst_element)},
                           {"reason", output.agreement.reason}});
  nlohmann::json json = {{"graph", report.graph},
                         {"device", report.device},
                         {"kernels", report.timing.kernels},
                         {"library_calls", report.timing.library_calls},
                         {"replayed_runs", report.timing.replayed_runs},
                         {"workspace_bytes", report.timing.workspace_bytes},
                         {"weight_bytes", report.timing.weight_bytes},
                         {"phases_ms", phases},
                         {"kernel_compile_ms", report.timing.compile_ms},
                         {"kernels_compiled", report.timing.compiled},
                         {"kernels_from_cache", report.timing.from_cache},
                         {"load_ms", report.timing.load_ms},
                         {"upload_ms", report.timing.upload_ms},
                         {"steps_ms", report.timing.steps_ms},
                         {"download_ms", report.timing.download_ms},
                         {"stages_ms", stages},
                         {"comparisons", comparisons}};
  if (!report.samples_ms.empty())
    json.update(to_json(report.samples_ms, report.timing.warm_up_ms));
  if (!report.profile.file.empty())
    json["profile"] = to_json(report.profile);
  return json;
}

} // namespace

std::string describe_outputs(const program::Program &program,
                             const std::vector<tensor::HostTensor> &outputs,
                             const std::function<std::string(const std::string &)> &name_of) {
  std::string text;
  const std::vector<std::string> paths = program::output_paths(program);
  for (size_t i = 0; i < program.outputs.size(); ++i) {
    const program::OutputInfo &info = program.outputs[i];
    text += name_of(info.name) + in_brackets(paths[i]) + ": ";
    if (info.buffer < 0) {
      text += info.text + "\n";
      continue;
    }
    const tensor::HostTensor &tensor = outputs[i];
    const tensor::Summary summary = tensor::summarize(tensor::as_real(tensor)); // complex: of parts
    text += std::string(tensor::torch_name(tensor.dtype())) + " " + shape_text(tensor.sizes()) +
            (info.is_mutation ? " (mutated)" : "");
    if (summary.count > 0) {
      char numbers[128];
      std::snprintf(numbers, sizeof numbers, " min %.6g max %.6g mean %.6g", summary.low,
                    summary.high, summary.mean);
      text += numbers;
    }
    text += " nan " + std::to_string(summary.nan) + "\n";
  }
  return text;
}

void print_report(const RunReport &report, bool json, std::FILE *stream) {
  if (json) {
    std::fprintf(stream, "%s\n", to_json(report).dump(2).c_str());
    return;
  }
  double compile_ms = 0;
  for (const driver::PassTime &pass : report.passes)
    compile_ms += pass.milliseconds;
  std::fprintf(stream, "device: %s\n", report.device.c_str());
  std::fprintf(stream, "steps: %zu kernel launches, %zu library calls\n", report.timing.kernels,
               report.timing.library_calls);
  if (report.timing.replayed_runs > 0)
    std::fprintf(stream, "CUDA graphs: %zu runs were replayed from them\n",
                 report.timing.replayed_runs);
  std::fprintf(stream,
               "compile: %.1f ms graph to kernels, %.1f ms kernels to code (%zu compiled, %zu from "
               "the cache), %.1f ms weights\n",
               compile_ms, report.timing.compile_ms, report.timing.compiled,
               report.timing.from_cache, report.timing.load_ms);
  std::fprintf(stream, "memory: %.1f MB workspace, %.1f MB weights\n",
               static_cast<double>(report.timing.workspace_bytes) / 1e6,
               static_cast<double>(report.timing.weight_bytes) / 1e6);
  double all_ms = 0;
  std::string parts;
  for (const Stage &stage : report.stages) {
    all_ms += stage.milliseconds;
    parts += (parts.empty() ? "" : ", ") + std::string(stage.name) + " " +
             std::to_string(std::lround(stage.milliseconds));
  }
  std::fprintf(stream, "took: %.0f ms: %s\n", all_ms, parts.c_str());
  if (report.timing.download_ms > 0)
    std::fprintf(stream, "first run: %.0f ms inputs to the device, %.0f steps, %.0f results back\n",
                 report.timing.upload_ms, report.timing.steps_ms, report.timing.download_ms);
  if (!report.samples_ms.empty())
    print_bench(report, stream);
  if (!report.profile.file.empty())
    std::fputs(to_text(report.profile).c_str(), stream);
  print_comparisons(report, stream);
}

void print_comparisons(const RunReport &report, std::FILE *stream) {
  for (const driver::OutputAgreement &output : report.comparisons) {
    const tensor::Agreement &agreement = output.agreement;
    std::fprintf(
        stream,
        "%s%s: %s, relative error %.2e (bound %.0e), worst element %.2f of what is allowed%s%s\n",
        output.name.c_str(), in_brackets(output.path).c_str(), agreement.ok ? "agrees" : "DIFFERS",
        agreement.norm_error, agreement.norm_bound, agreement.worst_element,
        agreement.reason.empty() ? "" : ": ", agreement.reason.c_str());
  }
}

} // namespace tsc::app
