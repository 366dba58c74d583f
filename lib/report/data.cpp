// The data of a report: rows of numbers that name each other by position (docs/report.md).
#include "report/report.h"
#include "report/rows.h"

#include "driver/group_cost.h"
#include "driver/group_kernels.h"
#include "driver/step_cost.h"
#include "graph/symbol_names.h"
#include "scheduler/dependency.h"

#include <algorithm>
#include <map>

namespace tsc::report {
namespace {

constexpr const char *kClasses[] = {"kernel", "library", "memory only", "template"};
constexpr const char *kRoles[] = {"input",        "weight",  "output",  "intermediate",
                                  "random state", "failure", "exchange"};

std::string kind_of(const ir::Operation &operation) {
  if (const auto *call = std::get_if<ir::Extern>(&operation.kind))
    return call->kernel;
  constexpr const char *kNames[] = {"pointwise", "scatter", "reduction", "scan", "sort"};
  return kNames[operation.kind.index()];
}

class Builder {
public:
  Builder(const driver::Compilation &compilation, const target::Target &target)
      : compilation_(compilation), program_(compilation.program), target_(target),
        name_of_(graph::symbol_writer(compilation.module.symbols)),
        group_kernels_(driver::kernels_of_all_groups(compilation)) {}

  Json build() {
    const GraphRows before = graph_rows(compilation_.as_read, nullptr, texts_);
    after_ = graph_rows(compilation_.graph, &before, texts_);
    add_schedule(compilation_.module, compilation_.schedule, "");
    data_["version"] = kVersion;
    data_["before"] = before.rows;
    data_["after"] = std::move(after_.rows);
    data_["members"] = std::move(members_);
    data_["decisions"] = std::move(decisions_);
    data_["buffers"] = buffers();
    data_["kernels"] = kernels();
    add_steps(); // takes what groups cost
    data_["groups"] = std::move(groups_);
    data_["memory"] = memory_of(compilation_, target_.is_host);
    data_["choices"] = compilation_.choices;
    Json passes = Json::array();
    for (const driver::PassTime &time : compilation_.times)
      passes.push_back(Json::array({time.name, time.milliseconds}));
    data_["passes"] = std::move(passes);
    data_["texts"] = texts_.list();
    return std::move(data_);
  }

private:
  const driver::Compilation &compilation_;
  const program::Program &program_;
  const target::Target &target_;
  symbolic::SymbolWriter name_of_;
  driver::GroupKernels group_kernels_;
  Texts texts_;
  GraphRows after_;
  Json data_, members_ = Json::array(), decisions_ = Json::array(), groups_ = Json::array();
  /// By name of a storage in the program: groups that write it, ascending.
  std::map<std::string, std::vector<uint32_t>> writers_;
  std::vector<scheduler::Cost> costs_; // by group

  double number(symbolic::Expr size) const {
    return static_cast<double>(scheduler::size_hint(compilation_.module, size));
  }

  /// The groups of a graph, then those of its subgraphs.
  void add_schedule(const ir::Module &module, const scheduler::Schedule &schedule,
                    const std::string &prefix) {
    std::vector<int64_t> member_of(schedule.nodes.size(), -1); // row, by scheduler node
    const auto found = group_kernels_.find(&schedule);
    for (size_t g = 0; g < schedule.groups.size(); ++g) {
      const scheduler::Group &group = schedule.groups[g];
      for (scheduler::NodeId member : group.members) {
        member_of[member] = static_cast<int64_t>(members_.size());
        add_member(module, schedule.nodes[member], prefix);
      }
      static const std::vector<uint32_t> kNoKernels;
      add_group({module, schedule, group},
                found == group_kernels_.end() ? kNoKernels : found->second[g]);
    }
    for (const scheduler::FusionDecision &decision : schedule.decisions)
      if (member_of[decision.first] >= 0 && member_of[decision.second] >= 0)
        decisions_.push_back(Json::array(
            {member_of[decision.first], member_of[decision.second],
             texts_.number_of(decision.refusal == scheduler::Refusal::none
                                  ? ""
                                  : std::string(scheduler::to_string(decision.refusal))),
             decision.shared_bytes, texts_.number_of(decision.detail),
             texts_.number_of(decision.turned), decision.round}));
    for (size_t i = 0; i < schedule.subgraphs.size() && i < module.subgraphs.size(); ++i)
      add_schedule(module.subgraphs[i], schedule.subgraphs[i],
                   prefix + module.subgraphs[i].name + "/");
  }

  /// [name, kind, group, [rows of the graph after its passes]]
  void add_member(const ir::Module &module, const scheduler::Node &node,
                  const std::string &prefix) {
    const ir::Operation &operation = module.operations[node.operation];
    const auto group = static_cast<uint32_t>(groups_.size());
    Json nodes = Json::array();
    if (const auto first = after_.first_of.find(prefix); first != after_.first_of.end())
      for (uint32_t origin : operation.origins)
        nodes.push_back(first->second + origin);
    members_.push_back(Json::array(
        {prefix + operation.name, texts_.number_of(kind_of(operation)), group, std::move(nodes)}));
    for (ir::BufferId output : operation.outputs) {
      std::vector<uint32_t> &list =
          writers_[prefix + module.buffer(module.storage_of(output)).name];
      if (list.empty() || list.back() != group)
        list.push_back(group);
    }
  }

  /// [class, first member, members, [kernels], bytes, operations, nanoseconds]
  void add_group(const driver::GroupOfSchedule &of, const std::vector<uint32_t> &kernels) {
    const scheduler::Cost cost = driver::expected_cost(program_, of, kernels, target_);
    const size_t count = of.group.members.size();
    groups_.push_back(
        Json::array({kClasses[static_cast<int>(of.group.node_class)], members_.size() - count,
                     count, kernels, cost.bytes, cost.operations, cost.nanoseconds}));
    costs_.push_back(cost);
  }

  /// [name, type, bytes, role]
  Json buffers() {
    Json rows = Json::array();
    for (const program::Buffer &buffer : program_.buffers) {
      std::string type = std::string(tensor::short_name(buffer.dtype)) + "[";
      for (symbolic::Expr size : buffer.layout.sizes)
        type += (type.back() == '[' ? "" : ", ") + symbolic::print(size, name_of_);
      rows.push_back(Json::array({buffer.weight.empty() ? buffer.name : buffer.weight,
                                  texts_.number_of(type + "]"), number(buffer.bytes),
                                  kRoles[static_cast<int>(buffer.role)]}));
    }
    return rows;
  }

  Json kernels() const {
    Json rows = Json::array();
    for (const program::Kernel &kernel : program_.kernels) {
      const program::KernelVariant &variant = target_.is_host ? kernel.serial : kernel.cuda;
      const program::KernelEstimate &estimate = kernel.estimate;
      Json row = {{"name", kernel.name},
                  {"plan", kernel.plan},
                  {"text", variant.text},
                  {"read", number(kernel.bytes_read)},
                  {"written", number(kernel.bytes_written)},
                  {"block", variant.block}};
      if (compilation_.schedule.groups.empty()) // nothing else says where it comes from
        row["nodes"] = kernel.origins;
      if (estimate.is_known)
        row["estimate"] = {{"memory", estimate.memory},
                           {"arithmetic", estimate.arithmetic},
                           {"accesses", estimate.accesses},
                           {"instructions", estimate.instructions},
                           {"latency", estimate.latency},
                           {"blocks", estimate.blocks},
                           {"threads", estimate.threads_in_flight},
                           {"waves", estimate.waves},
                           {"share", estimate.share()}};
      rows.push_back(std::move(row));
    }
    return rows;
  }

  /// Groups are in the order of their steps, but a storage may be written by several: the first
  /// that writes it and does not lie before `earliest`.
  std::vector<uint32_t> groups_of(const std::vector<uint32_t> &written, uint32_t earliest) const {
    std::vector<uint32_t> found;
    for (uint32_t buffer : written) {
      const auto list = writers_.find(program_.buffers[buffer].name);
      if (list == writers_.end())
        continue;
      const auto next = std::lower_bound(list->second.begin(), list->second.end(), earliest);
      found.push_back(next == list->second.end() ? list->second.back() : *next);
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

  void add_steps() {
    const std::vector<program::Step> &steps = program_.steps;
    std::vector<std::vector<uint32_t>> groups(steps.size());
    std::vector<int> uses(costs_.size()); // steps of a group
    std::vector<std::vector<uint32_t>> written(steps.size());
    uint32_t earliest = 0;
    for (size_t i = 0; i < steps.size(); ++i) {
      written[i] = program::writes(program_, steps[i]);
      groups[i] = groups_of(written[i], earliest);
      if (!groups[i].empty())
        earliest = std::max(earliest, groups[i].front());
    }
    // What writes only for the step behind it (half of a divided reduction) belongs to its group.
    for (size_t i = steps.size(); i-- > 1;)
      if (groups[i - 1].empty() && std::holds_alternative<program::Launch>(steps[i - 1].kind))
        groups[i - 1] = groups[i];
    for (const std::vector<uint32_t> &list : groups)
      for (uint32_t group : list)
        ++uses[group];
    Json rows = Json::array();
    for (size_t i = 0; i < steps.size(); ++i) {
      scheduler::Cost cost;
      for (uint32_t group : groups[i]) {
        cost.bytes += costs_[group].bytes / uses[group];
        cost.operations += costs_[group].operations / uses[group];
        cost.nanoseconds += costs_[group].nanoseconds / uses[group];
      }
      rows.push_back(step_row(steps[i], groups[i], written[i], cost));
    }
    data_["steps"] = std::move(rows);
  }

  /// [name, kind, kernel, [groups], stream, device, once, [waits], [reads], [writes], bytes,
  /// operations, nanoseconds]
  Json step_row(const program::Step &step, const std::vector<uint32_t> &groups,
                const std::vector<uint32_t> &written, scheduler::Cost cost) {
    constexpr const char *kKinds[] = {"launch",      "product", "copy",  "fill",   "collective",
                                      "conditional", "loop",    "event", "define", "solver"};
    int64_t kernel = -1;
    if (const auto *launch = std::get_if<program::Launch>(&step.kind)) {
      kernel = launch->kernel;
      const program::Kernel &called = program_.kernels[launch->kernel];
      cost.bytes = number(called.bytes_read) + number(called.bytes_written);
      if (called.estimate.is_known)
        cost.nanoseconds = called.estimate.planned() + scheduler::kernel_nanoseconds(target_, 0);
    }
    if (groups.empty()) // of a program without a schedule, or a step that is no group's
      cost = driver::step_cost(program_, step, target_,
                               [&](symbolic::Expr size) { return number(size); });
    return Json::array({step.name, kKinds[step.kind.index()], kernel, groups, step.stream,
                        step.device, step.once ? 1 : 0, step.waits, program::reads(program_, step),
                        written, cost.bytes, cost.operations, cost.nanoseconds});
  }
};

} // namespace

std::string to_json(const driver::Compilation &compilation, const target::Target &target,
                    const std::string &graph, const Measured *measured) {
  Json data = Builder(compilation, target).build();
  data["graph"] = graph;
  data["target"] = {{"name", target.part},
                    {"host", target.is_host},
                    {"bandwidth", target.bandwidth},
                    {"flops_f32", target.flops_f32},
                    {"flops_16bit", target.flops_16bit}};
  if (measured)
    data["measured"] = {{"device", measured->device}, {"ms", measured->step_milliseconds}};
  return data.dump(-1, ' ', false, Json::error_handler_t::replace);
}

} // namespace tsc::report
