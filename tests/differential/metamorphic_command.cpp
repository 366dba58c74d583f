#include "metamorphic_command.h"

#include "check.h"
#include "eager.h"
#include "minimize.h"
#include "run_batch.h"

#include "../cases/case_file.h"

#include "graph/read.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

namespace tsc::differential {
namespace {

using nlohmann::json;
using Send = std::function<void(std::string_view)>;

constexpr size_t kMostNodes = 40; // of a recorded graph

/// Recorded graphs whose weights are inputs like others.
std::vector<Subject> recorded_subjects(const std::vector<std::string> &families) {
  std::vector<Subject> subjects;
  for (const std::string &family : families)
    for (testing::Case &one : testing::read_cases(family)) {
      Subject subject;
      subject.graph = graph::parse_graph(one.model, one.name);
      bool sound = subject.graph.nodes.size() <= kMostNodes && subject.graph.subgraphs.empty() &&
                   subject.graph.symbols.empty();
      size_t user = 0;
      std::vector<graph::InputSpec> inputs;
      for (graph::InputSpec input : subject.graph.inputs) {
        const graph::Node &node = subject.graph.nodes[input.node];
        const bool own = input.kind == graph::InputKind::user;
        const auto weight = one.weights.find(input.target);
        sound &= node.value && node.value->tensor() &&
                 (own ? user < one.inputs.size() : weight != one.weights.end());
        if (!sound)
          break;
        subject.inputs.push_back((own ? one.inputs[user++] : weight->second).contiguous());
        input.kind = graph::InputKind::user;
        input.target.clear();
        inputs.push_back(input);
      }
      for (const graph::OutputSpec &output : subject.graph.outputs)
        sound &= output.kind == graph::OutputKind::user && output.value.node();
      for (const graph::Node &node : subject.graph.nodes)
        sound &= node.kind != graph::NodeKind::get_attr;
      if (!sound)
        continue;
      subject.graph.inputs = std::move(inputs);
      subject.graph.weights.clear();
      subjects.push_back(std::move(subject));
    }
  return subjects;
}

class Metamorphic {
public:
  Metamorphic(const MetamorphicFlags &flags, std::FILE *out, const std::string &cache)
      : flags_(flags), out_(out), workers_(flags.jobs, flags.limits),
        recorded_(recorded_subjects(flags.families)) {
    for (const std::string &name : flags.devices) {
      const TestDevice device = find_device(name, cache);
      if (!device.is_reference)
        devices_.push_back(device);
    }
  }

  bool run() {
    start_ = std::chrono::steady_clock::now();
    const size_t part = (flags_.programs + flags_.jobs - 1) / flags_.jobs;
    for (size_t first = 0; first < flags_.programs; first += part)
      add(flags_.first + first, flags_.first + std::min(first + part, flags_.programs));
    workers_.run();
    const double seconds = since_start();
    print_counts(seconds);
    return findings_ == 0;
  }

private:
  /// A process's own word on where it is.
  struct Progress {
    size_t end = 0, next = 0, current = 0;
  };

  const MetamorphicFlags &flags_;
  std::FILE *out_;
  Workers workers_;
  std::vector<Subject> recorded_;
  std::vector<TestDevice> devices_;
  std::chrono::steady_clock::time_point start_;
  std::map<std::string, size_t> counts_;
  std::map<std::string, size_t> signatures_, refusals_;
  std::set<std::string> operators_;
  size_t findings_ = 0;

  double since_start() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

  RandomSource random_of(size_t index) const {
    RandomSource mix(flags_.seed);
    return RandomSource(mix.next() ^ (index * 0x9e3779b97f4a7c15u));
  }
  static const ops::Operator *row_of(size_t index) {
    return vocabulary()[index % vocabulary().size()].row;
  }
  Subject subject_of(size_t index, RandomSource &random) const {
    GrammarOptions options;
    if (flags_.each) {
      options.only = row_of(index);
      options.least_calls = options.most_calls = 1;
      return random_subject(random, options);
    }
    if (!recorded_.empty() && random.chance(30)) {
      options.most_calls = 6;
      return extended(random.pick(recorded_), random, options);
    }
    return random_subject(random, options);
  }

  // ---- in a process

  void work(size_t first, size_t end, const Send &send) const {
    std::vector<Pending> pending;
    std::vector<size_t> indices;
    const auto found = [&](size_t index, const Finding &finding) {
      send("f " + json{{"index", index},
                       {"status", to_string(finding.status)},
                       {"way", finding.way},
                       {"detail", finding.detail},
                       {"reason", finding.reason},
                       {"signature", finding.signature()}}
                      .dump(-1, ' ', false, json::error_handler_t::replace));
    };
    const auto flush = [&] {
      for (const TestDevice &device : devices_)
        check_on_device(
            pending, device.options, device.name,
            [&](size_t i) { send("d " + std::to_string(i < indices.size() ? indices[i] : end)); },
            [&](size_t i, const Finding &finding) { found(indices[i], finding); });
      send("n on_devices " + std::to_string(pending.size()));
      pending.clear();
      indices.clear();
    };
    for (size_t index = first; index < end; ++index) {
      if (flags_.seconds > 0 && since_start() > flags_.seconds)
        break;
      send("b " + std::to_string(index));
      RandomSource random = random_of(index);
      const auto subject = std::make_shared<Subject>(subject_of(index, random));
      CheckOptions options;
      options.eager =
          index % std::max<size_t>(flags_.eager_every, 1) == 0 || has_mutations(subject->graph);
      for (size_t i = 0; i < flags_.variants; ++i)
        options.kinds.push_back(random.below(variant_kinds().size()));
      std::shared_ptr<Evaluated> base;
      const Checked checked = check(*subject, options, random, &base);
      for (const Finding &finding : checked.findings)
        found(index, finding);
      tell(*subject, checked, send);
      if (!base || devices_.empty() || index % flags_.host_every != 0)
        continue;
      pending.push_back({subject, base, nullptr, nullptr});
      indices.push_back(index);
      add_variant(pending, indices, options.kinds, random);
      if (pending.size() >= flags_.batch)
        flush();
    }
    if (!pending.empty())
      flush();
  }

  /// Beside a subject, the first of its variants that there is.
  static void add_variant(std::vector<Pending> &pending, std::vector<size_t> &indices,
                          const std::vector<size_t> &kinds, RandomSource random) {
    const Pending own = pending.back();
    for (const size_t kind : kinds) {
      try {
        std::optional<Variant> variant = make_variant(*own.subject, kind, random);
        if (!variant)
          continue;
        const auto evaluated =
            std::make_shared<Evaluated>(evaluate(variant->subject, variant->compile));
        pending.push_back(
            {own.subject, own.base, std::make_shared<Variant>(std::move(*variant)), evaluated});
        indices.push_back(indices.back());
        return;
      } catch (const std::exception &) { // reported where it was checked
      }
    }
  }

  void tell(const Subject &subject, const Checked &checked, const Send &send) const {
    std::string text = "t " + std::to_string(checked.variants) + " " +
                       std::to_string(checked.chaos) + " " + std::to_string(checked.ran_eagerly) +
                       " " + (checked.refused.empty() ? "-" : checked.refused);
    if (checked.refused.empty())
      for (const graph::Node &node : subject.graph.nodes)
        if (node.kind == graph::NodeKind::call_function)
          text += " " + node.target;
    send(text);
  }

  // ---- in the parent

  void add(size_t first, size_t end) {
    if (first >= end)
      return;
    const auto progress = std::make_shared<Progress>();
    progress->next = progress->current = first;
    progress->end = end;
    Workers::Job job;
    job.body = [this, first, end](const Send &send) { work(first, end, send); };
    job.receive = [this, progress](std::string_view line) { receive(*progress, line); };
    job.ended = [this, progress](const Death *death) {
      if (!death)
        return;
      Finding finding;
      finding.status = death->timed_out ? Status::hang : Status::crash;
      finding.way = "compile";
      finding.reason = death->reason;
      record(progress->current, json{{"status", to_string(finding.status)},
                                     {"way", finding.way},
                                     {"detail", ""},
                                     {"reason", finding.reason},
                                     {"signature", finding.signature()}});
      add(progress->next, progress->end);
    };
    job.patience = [] { return 4.0; }; // a batch's kernels are compiled without a word
    workers_.add(std::move(job));
  }

  void receive(Progress &progress, std::string_view line) {
    std::istringstream text{std::string(line.substr(2))};
    switch (line[0]) {
    case 'b':
      text >> progress.current;
      progress.next = progress.current + 1;
      ++counts_["programs"];
      break;
    case 'd':
      text >> progress.current;
      break;
    case 'n': {
      std::string name;
      size_t count = 0;
      text >> name >> count;
      counts_[name] += count;
      break;
    }
    case 't': {
      size_t variants = 0, chaos = 0, eager = 0;
      std::string refused, target;
      text >> variants >> chaos >> eager >> refused;
      counts_["variants"] += variants;
      counts_["chaos"] += chaos;
      counts_["eager"] += eager;
      if (refused != "-") {
        ++counts_["refused"];
        ++refusals_[refused];
      }
      while (text >> target)
        operators_.insert(target);
      break;
    }
    default: {
      const json finding = json::parse(line.substr(2));
      record(finding.at("index"), finding);
    }
    }
  }

  void record(size_t index, const json &finding) {
    ++findings_;
    std::string signature = finding.at("signature");
    if (flags_.each)
      signature = std::string(row_of(index)->name) + " " + signature;
    const size_t seen = ++signatures_[signature];
    const std::string reason = finding.at("reason");
    std::fprintf(out_, "finding: program %zu%s, %s, %s: %s: %s\n", index,
                 flags_.each ? (" " + std::string(row_of(index)->name)).c_str() : "",
                 finding.at("status").get<std::string>().c_str(),
                 finding.at("way").get<std::string>().c_str(),
                 finding.at("detail").get<std::string>().c_str(), reason.substr(0, 300).c_str());
    std::fflush(out_);
    if (seen <= (finding.at("status") == "differ" ? 6u : 2u) && !flags_.findings.empty())
      add_minimization(index, finding);
  }

  void print_counts(double seconds) const {
    for (const auto &[name, count] : counts_)
      std::fprintf(out_, "%s: %zu\n", name.c_str(), count);
    for (const auto &[code, count] : refusals_)
      std::fprintf(out_, "refused with %s: %zu\n", code.c_str(), count);
    std::fprintf(out_, "operators: %zu of %zu\n", operators_.size(), vocabulary().size());
    std::fprintf(out_, "%.1f s, %.1f programs a second\n", seconds,
                 static_cast<double>(counts_.count("programs") ? counts_.at("programs") : 0) /
                     seconds);
    std::fprintf(out_, "findings: %zu\n", findings_);
    for (const auto &[signature, count] : signatures_)
      std::fprintf(out_, "  %zu: %s\n", count, signature.c_str());
  }

  // ---- smaller

  /// Whether a subject still fails so, in a process of its own.
  bool fails(const Subject &subject, const json &finding) const {
    const std::string way = finding.at("way"), signature = finding.at("signature");
    bool same = false;
    Limits limits = flags_.limits;
    Workers workers(1, limits);
    Workers::Job job;
    job.body = [&](const Send &send) {
      CheckOptions options;
      options.eager = way == "eager";
      const auto device = std::find_if(devices_.begin(), devices_.end(),
                                       [&](const TestDevice &one) { return one.name == way; });
      const auto kind = std::find(variant_kinds().begin(), variant_kinds().end(), way);
      for (uint64_t seed = 0; seed < 12; ++seed) { // what a variant is is drawn anew
        options.kinds.clear();
        if (kind != variant_kinds().end())
          options.kinds.push_back(static_cast<size_t>(kind - variant_kinds().begin()));
        std::shared_ptr<Evaluated> base;
        const Checked checked = check(subject, options, RandomSource(seed), &base);
        for (const Finding &one : checked.findings)
          send(one.signature());
        if (device != devices_.end() && base) {
          const std::vector<Pending> pending = {
              {std::make_shared<Subject>(subject), base, nullptr, nullptr}};
          check_on_device(
              pending, device->options, way, [](size_t) {},
              [&](size_t, const Finding &one) { send(one.signature()); });
        }
        if (options.kinds.empty())
          break;
      }
    };
    job.receive = [&](std::string_view line) { same |= line == signature; };
    job.ended = [&](const Death *death) {
      if (death)
        same |= finding.at("status") == (death->timed_out ? "hang" : "crash");
    };
    workers.add(std::move(job));
    workers.run();
    return same;
  }

  void add_minimization(size_t index, const json &finding) {
    const std::string name = "seed" + std::to_string(flags_.seed) + "-" + std::to_string(index) +
                             "-" + word(finding.at("way"));
    Workers::Job job;
    job.body = [this, index, finding, name](const Send &send) {
      RandomSource random = random_of(index);
      const Subject subject = subject_of(index, random);
      const Subject smaller = minimized(
          subject,
          [&](const Subject &candidate) {
            send("m");
            return fails(candidate, finding);
          },
          flags_.minimize_seconds);
      write(name, index, smaller, finding);
    };
    job.receive = [](std::string_view) {};
    job.ended = [](const Death *) {};
    job.patience = [] { return 3.0; };
    workers_.add(std::move(job));
  }

  static std::string word(std::string text) {
    std::replace_if(
        text.begin(), text.end(),
        [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '-');
    return text;
  }

  void write(const std::string &name, size_t index, const Subject &subject,
             const json &finding) const {
    const std::filesystem::path folder = std::filesystem::path(flags_.findings) / name;
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "graph.json") << graph::to_json(subject.graph);
    tensor::TensorMap inputs;
    for (size_t i = 0; i < subject.inputs.size(); ++i)
      inputs["input_" + std::to_string(i)] = subject.inputs[i];
    tensor::write_tensors((folder / "inputs.safetensors").string(), inputs);
    if (finding.at("way") == "eager")
      if (const auto eager = run_eagerly(subject)) {
        tensor::TensorMap expected;
        for (size_t i = 0; i < eager->outputs.size(); ++i)
          expected["output_" + std::to_string(i)] = eager->outputs[i];
        tensor::write_tensors((folder / "expected.safetensors").string(), expected);
      }
    std::ofstream note(folder / "note.txt");
    note << finding.at("status").get<std::string>() << ", " << finding.at("way").get<std::string>()
         << ": " << finding.at("detail").get<std::string>() << "\n"
         << finding.at("reason").get<std::string>() << "\n\n"
         << graph::to_text(subject.graph) << "\n\ntsc_differential metamorphic --seed "
         << flags_.seed << " --first " << index << " --programs 1\n";
  }
};

} // namespace

bool run_metamorphic(const MetamorphicFlags &flags, std::FILE *out) {
  std::string cache = (std::filesystem::temp_directory_path() / "tsc-differential-XXXXXX").string();
  if (!mkdtemp(cache.data()))
    throw std::runtime_error("no temporary folder can be made");
  bool all_well = false;
  try {
    all_well = Metamorphic(flags, out, cache).run();
  } catch (...) {
    std::filesystem::remove_all(cache);
    throw;
  }
  std::filesystem::remove_all(cache);
  return all_well;
}

} // namespace tsc::differential
