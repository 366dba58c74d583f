// What templates compute: attention, sorts of long rows, and a product with the loops beside it as
// one kernel (docs/templates.md).
#include "scheduler/cost.h"
#include "scheduler/dependency.h"
#include "scheduler/memory_model.h"
#include "scheduler/product_layouts.h"
#include "scheduler/result_loops.h"
#include "scheduler/steps.h"
#include "scheduler/storages.h"
#include "scheduler/template_fuser.h"
#include "scheduler/weights_only.h"
#include "support/diagnostic.h"
#include "templates/product/tc_product_geometry.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace tsc::scheduler {

namespace {

/// Results that a kernel finishes at once.
constexpr int kRun = tc_product_run;
/// Instructions of a result that is finished alone: its own load from shared memory, address and
/// store, an eighth of which it takes in a run.
constexpr int64_t kAlone = 6;
/// What a result takes that is finished along the rows, of what it takes in a run: functions of one
/// element at a time wait for each other.
constexpr double kAlongRows = 1.1;
/// Elements of 16 bytes, of an operand.
int64_t word_of(tensor::DType dtype) {
  return tc_product_word_of(static_cast<int>(tensor::size_in_bytes(dtype)));
}
/// Groups between a product and what is fused with it: each is looked at.
constexpr size_t kFarthest = 64;
/// A larger operand that only one product reads is never written if its kernel can do without.
constexpr int64_t kLargestWritten = int64_t{256} << 20;
/// What one kernel may take of the time of two, both being estimates, where the memory that it
/// saves counts for nothing.
constexpr double kWorthIt = 0.9;
/// The same of 8-bit floats, where both were measured (8192 x 8192 x 8192: 0.84 ms and 0.92).
constexpr double kWorthItOfBytes = 0.97;
/// A product with no neighbours has a kernel of its own where few tiles make the library take so
/// many times as long, an estimate from one measurement.
constexpr double kFewTiles = 2;
/// Weights that are computed when they are loaded grow if they take more than so many times the
/// memory; that they do not may cost a share of the time for each time.
constexpr double kGrowth = 1.25, kWorthOfMemory = 0.15;
std::optional<int64_t> constant(Expr e) { return e.as_integer(); }

bool calls(const State &state, const Group &group, ir::Library library) {
  if (group.node_class != NodeClass::external || group.members.size() != 1)
    return false;
  const auto *call = std::get_if<ir::Extern>(&state.operation(group.members[0]).kind);
  return call && call->library == library;
}

class ProductFuser : TemplateFuser {
public:
  explicit ProductFuser(State &state)
      : TemplateFuser(state), weights_only_(find_weights_only(state).groups),
        model_(make_memory_model(state)), order_(groups_.size()) {
    std::iota(order_.begin(), order_.end(), 0U);
    peak_ = peak_bytes(model_, order_);
  }

  void run() {
    for (size_t i = 0; i < groups_.size(); ++i)
      if (calls(state_, groups_[i], ir::Library::matmul) ||
          calls(state_, groups_[i], ir::Library::sectioned_matmul))
        try_product(i);
    remove_empty_groups();
  }

private:
  std::vector<bool> weights_only_; // by group: runs once, when weights are loaded
  MemoryModel model_;              // of the groups as they are, less what is never stored
  std::vector<uint32_t> order_;
  int64_t peak_ = 0;              // before anything is fused with a product
  double comparisons_left_ = 1e7; // bounds the time that saves_memory takes

  /// True if what is alive beside the results of the product of group `at` is the most of all, and
  /// without them is less: `reader` does not take over their memory. What the caller gets may lie
  /// there as well, in memory of the caller's.
  bool saves_memory(size_t at, const Group &reader) {
    comparisons_left_ -= static_cast<double>(groups_.size());
    if (model_.makes[at].size() != 1 || comparisons_left_ < 0)
      return false;
    for (const NodeId member : reader.members)
      for (const BufferId output : state_.operation(member).outputs)
        for (const User &user : state_.schedule.users[output])
          if (user.node == ir::kNone)
            return false;
    const MemoryModel::Storage &results = model_.storages[model_.makes[at][0]];
    const uint32_t last = results.users.empty() ? static_cast<uint32_t>(at) : results.users.back();
    const auto most_of = [&](const MemoryModel &model) {
      const std::vector<int64_t> alive = alive_bytes(model, order_);
      return *std::max_element(alive.begin() + static_cast<int64_t>(at), alive.begin() + last + 1);
    };
    return most_of(model_) == peak_ && most_of(without_results(model_, at)) < peak_;
  }
  /// Of group `at`, all that it makes.
  static MemoryModel without_results(MemoryModel model, size_t at) {
    for (const uint32_t made : model.makes[at]) {
      model.storages[made].bytes = 0;
      for (const uint32_t user : model.storages[made].users) {
        std::vector<MemoryModel::Takeover> &pairs = model.takeovers[user];
        pairs.erase(std::remove_if(pairs.begin(), pairs.end(),
                                   [&](const auto &pair) { return pair.input == made; }),
                    pairs.end());
      }
    }
    return model;
  }

  /// A group beside a product, and what it costs alone.
  struct Side {
    size_t group = 0;
    int64_t bytes = 0;       // of its kernel
    int64_t other_bytes = 0; // of those, without what it shares with the product
    int64_t instructions = 0;
    std::vector<ir::LoopBody> turned; // its loops in the order of the product's results, if others
    bool in_row_runs = false;         // finished along the rows, 4 or 8 of them at once
  };

  /// A product of few rows in a kernel of its own, with the loops that compute its right operand,
  /// if that is fastest.
  bool try_few(size_t at, const TemplateParts &given) {
    const NodeId node = groups_[at].members[0];
    const auto &call = std::get<ir::Extern>(state_.operation(node).kind);
    const int64_t most = symbolic::bounds(given.rows, state_.module.ranges).high;
    if (most > kMostFewRows || given.sections > 0 || !given.batches.is_integer(1) ||
        out_of(node).layout.rank() != 2 || tensor::size_in_bytes(factor_of(node)) != 2 ||
        !is_deep(call.inputs[0].layout, 1) || !is_deep(call.inputs[1].layout, 0) ||
        (!given.rows.is_integer(1) &&
         constant(call.inputs[0].layout.strides[0]).value_or(0) < given.terms))
      return false;
    TemplateParts parts = given;
    parts.few = true;
    const std::optional<Side> after = find_after(at, parts);
    if (parts.along_rows)
      return false;
    std::optional<Side> right = Side();
    if (const Objection objection = object_right(at, after, *right);
        objection.refusal != Refusal::none) {
      if (objection.other != ir::kNone)
        refuse(node, objection.other, objection.refusal, objection.text);
      right.reset();
      if (find_before(at, after)) // windows are read where they are
        return false;
    }
    const target::Target &target = *state_.options.target;
    const int64_t rows = std::min(most, size_hint(state_.module, parts.rows)),
                  weights = parts.columns * parts.terms, left = 2 * rows * parts.terms,
                  out = rows * parts.columns *
                        static_cast<int64_t>(tensor::size_in_bytes(out_of(node).dtype));
    FewWork work{rows, parts.columns, parts.terms};
    work.weight_instructions = right ? static_cast<double>(right->instructions) : 0;
    if (right)
      work.weight_bytes = static_cast<double>(right->other_bytes) / static_cast<double>(weights);
    work.other_bytes = static_cast<double>(left + (after ? after->other_bytes : out));
    const double together = few_nanoseconds(target, work);
    ProductWork apart{rows, parts.columns, parts.terms, 2 * weights + left + out};
    double separate = library_nanoseconds(target, static_cast<double>(apart.bytes),
                                          operations_of(apart), factor_of(node));
    if (after) {
      separate += kernel_nanoseconds(target, static_cast<double>(after->bytes));
      ProductWork joined = apart;
      joined.bytes = 2 * weights + left + after->other_bytes;
      joined.instructions = after->instructions;
      if (const auto ways = template_ways(target, joined); !ways.empty())
        separate = std::min(separate, ways.front().nanoseconds);
    }
    const bool once = right && weights_only_[right->group];
    if (right && !once)
      separate += kernel_nanoseconds(target, static_cast<double>(right->bytes));
    // Weights that would grow when they are computed ahead are kept as they are at some cost.
    const double growth = once ? 2 / work.weight_bytes : 1;
    const bool slower =
        together >= (growth > kGrowth ? 1 + kWorthOfMemory * growth : kWorthIt) * separate;
    record(right ? groups_[right->group].members[0] : node,
           after ? groups_[after->group].members[0] : node,
           slower ? Refusal::slower : Refusal::none, right ? right->bytes - right->other_bytes : 0,
           call.kernel + " of " + state_.operation(node).name +
               (!right ? ": apart "
                : once ? ": the right operand computed when weights are loaded "
                       : ": the right operand stored ") +
               microseconds(separate) + (right ? ", computed as it is read " : ", of few rows ") +
               microseconds(together));
    if (slower)
      return false;
    if (after)
      model_ = without_results(std::move(model_), at);
    parts.nanoseconds = together;
    join(at, std::move(parts), std::nullopt, after, right);
    return true;
  }

  void try_product(size_t at) {
    const NodeId node = groups_[at].members[0];
    TemplateParts parts;
    parts.root = node;
    if (const std::string why = describe(parts); !why.empty()) {
      support::require(parts.sections == 0, "scheduler", "rows in sections: " + why);
      refuse(node, node, Refusal::no_template, why);
      return;
    }
    if (try_few(at, parts))
      return;
    std::optional<Side> after = find_after(at, parts);
    const std::optional<Side> before = parts.sections == 0 ? find_before(at, after) : std::nullopt;
    if (before)
      parts.prologue_step = step_of_prologue(node, groups_[before->group]).value_or(0);
    const bool between_vectors = is_between_vectors(factor_of(node), parts.columns);
    const auto &call = std::get<ir::Extern>(state_.operation(node).kind);
    const auto size = static_cast<int64_t>(tensor::size_in_bytes(factor_of(node))),
               out_size = static_cast<int64_t>(tensor::size_in_bytes(out_of(node).dtype));
    // Of symbols at most `most`: what they take is to be numbers.
    const auto likely = [&](Expr count, int64_t most) {
      return count.is_integer() ? count.value() : std::min(most, size_hint(state_.module, count));
    };
    const int64_t rows = likely(parts.rows, int64_t{1} << 24),
                  batches = likely(parts.batches, int64_t{1} << 12);
    const auto matrices = [&](size_t side) { // a batch may share one
      if (parts.sections > 0)
        return side == 0 ? 1 : std::min(rows, parts.sections);
      const tensor::Layout &layout = call.inputs[side].layout;
      return layout.rank() == 3 && layout.strides[0].is_integer(0) ? 1 : batches;
    };
    const int64_t left = matrices(0) * rows * parts.terms * size,
                  right = matrices(1) * parts.terms * parts.columns * size,
                  out = batches * rows * parts.columns * out_size;
    const target::Target &target = *state_.options.target;
    const auto library = [&](const ProductWork &work) {
      return library_nanoseconds(target, static_cast<double>(work.bytes), operations_of(work),
                                 factor_of(node), call.tf32, between_vectors);
    };
    const auto library_batch = [&](const ProductWork &work) {
      return library_batch_nanoseconds(
          target, factor_of(node), call.tf32, static_cast<double>(work.batches),
          static_cast<double>(work.rows), static_cast<double>(work.columns),
          static_cast<double>(work.terms));
    };
    ProductWork apart{rows, parts.columns, parts.terms, left + right + out, 0};
    apart.batches = batches;
    apart.sections = parts.sections;
    apart.any_number = !parts.rows.is_integer() || !parts.batches.is_integer();
    apart.factors = factors_of(factor_of(node), parts.by_tf32);
    if (!after && !before && parts.sections == 0 && !between_vectors &&
        library_batch(apart) <= kFewTiles * library(apart))
      return;
    const auto separate_for = [&](const ProductWork &work, int64_t times) {
      double nanoseconds = std::max(library(work), library_batch(work));
      for (const auto &side : {before, after})
        if (side)
          nanoseconds += kernel_nanoseconds(target, static_cast<double>(side->bytes * times));
      return nanoseconds;
    };
    double separate = separate_for(apart, 1);
    const auto with = [&](const std::optional<Side> &follower, int run) {
      ProductWork joined = apart;
      joined.bytes =
          right + (before ? before->other_bytes : left) + (follower ? follower->other_bytes : out);
      const bool alone = run == 1 && !(follower && follower->in_row_runs);
      joined.instructions = (follower ? follower->instructions : 0) + (alone ? kAlone : 0);
      joined.together = before ? products_beside(node, parts) : 1;
      joined.gathers = before && joined.together == 1 && !comes_in_boxes(node);
      joined.prologue = before.has_value();
      return joined;
    };
    ProductWork joined = with(after, parts.run);
    std::vector<ProductWay> ways = template_ways(target, joined);
    support::require(parts.sections == 0 || !ways.empty(), "scheduler",
                     "no kernel for rows in sections");
    if (ways.empty())
      return;
    if (before && after && parts.along_rows) { // turned by a kernel of its own instead
      const int run = parts.columns % kRun == 0 ? kRun : 1;
      const ProductWork stored = with(std::nullopt, run);
      const std::vector<ProductWay> alone = template_ways(target, stored);
      const double turned = kernel_nanoseconds(target, static_cast<double>(after->bytes));
      if (!alone.empty() && alone.front().nanoseconds + turned < ways.front().nanoseconds) {
        separate -= turned;
        joined = stored;
        ways = alone;
        after.reset();
        parts.along_rows = false;
        parts.run = run;
      }
    }
    parts.candidate = ways.front().tile;
    parts.nanoseconds = ways.front().nanoseconds;
    parts.bytes = joined.bytes;
    parts.instructions = joined.instructions;
    std::string text = parts.sections > 0 ? "rows in sections" : "apart " + microseconds(separate);
    for (const ProductWay &way : ways)
      text += ", " + way.name + " " + microseconds(way.nanoseconds);
    const NodeId first = before ? groups_[before->group].members[0] : node,
                 second = after ? groups_[after->group].members[0] : node;
    const double together = ways.front().nanoseconds;
    double share = together / separate;
    if (apart.any_number)
      share = (share + way_nanoseconds(target, with_more_rows(joined), parts.candidate) /
                           separate_for(with_more_rows(apart), kMoreRows)) /
              2;
    const double worth_it = size == 1 ? kWorthItOfBytes : kWorthIt;
    const bool is_near = share >= worth_it && share < 1 && after;
    const bool slower = parts.sections == 0 && share >= worth_it &&
                        !(is_near && saves_memory(at, groups_[after->group])) &&
                        (!before || batches * rows * parts.terms * size <= kLargestWritten);
    record(first, second, slower ? Refusal::slower : Refusal::none, apart.bytes - joined.bytes,
           call.kernel + " of " + state_.operation(node).name + ": " + text);
    if (slower)
      return;
    if (after)
      model_ = without_results(std::move(model_), at);
    join(at, std::move(parts), before, after);
  }

  const ir::Buffer &out_of(NodeId node) const { return buffer(state_.operation(node).outputs[0]); }

  /// Of what is multiplied.
  tensor::DType factor_of(NodeId node) const {
    return std::get<ir::Extern>(state_.operation(node).kind).inputs[0].dtype;
  }

  static bool is_taken(tensor::DType factor, tensor::DType result) {
    const bool is_half = factor == tensor::DType::f16 || factor == tensor::DType::bf16;
    return (is_half && (result == factor || result == tensor::DType::f32)) ||
           (factor == tensor::DType::f32 && result == factor) ||
           (factor == tensor::DType::f8e4m3fn && result == tensor::DType::f32);
  }
  /// Fills in the sizes; else why the template does not take this product.
  std::string describe(TemplateParts &parts) const {
    const ir::Operation &operation = state_.operation(parts.root);
    const auto &call = std::get<ir::Extern>(operation.kind);
    const ir::Buffer &out = buffer(operation.outputs[0]);
    const tensor::DType factor = call.inputs[0].dtype;
    const bool sections = call.library == ir::Library::sectioned_matmul;
    if (!is_taken(factor, out.dtype) || call.inputs[1].dtype != factor)
      return "it is not of floats of 16 or 32 bits, or of float8_e4m3fn";
    const size_t rank = out.layout.rank();
    if (sections)
      parts.sections = constant(call.inputs[1].layout.sizes[0]).value_or(0);
    if ((rank != 2 && rank != 3) || call.inputs[0].layout.rank() != rank ||
        call.inputs[1].layout.rank() != rank + (sections ? 1 : 0))
      return "it is no product of matrices, or of a batch of them";
    const tensor::Layout &a = call.inputs[0].layout, &b = call.inputs[1].layout;
    const int64_t word = word_of(factor);
    const symbolic::Ranges &ranges = state_.module.ranges;
    if (!has_runs(a, word, ranges) || !has_runs(b, word, ranges) || !has_rows(out.layout))
      return "its matrices are not of known columns and terms in runs of 16 bytes";
    const auto terms = constant(a.sizes[rank - 1]);
    parts.rows = out.layout.sizes[rank - 2];
    parts.columns = *constant(out.layout.sizes[rank - 1]);
    parts.terms = terms.value_or(0);
    parts.batches = rank == 3 ? out.layout.sizes[0] : Expr(1);
    if (parts.batches.is_integer(0) || parts.rows.is_integer(0) || parts.columns == 0 ||
        parts.terms == 0 || parts.terms % word != 0)
      return "it has no whole runs";
    parts.run = parts.columns % kRun == 0 && out.layout.is_contiguous() ? kRun : 1;
    parts.by_tf32 = call.tf32;
    if (call.tf32 && (!is_deep(a, 1) || !is_deep(b, 0)))
      return "its factors are rounded to TF32 and do not lie along the terms";
    if (factor == tensor::DType::f32 && !is_deep(a, 1))
      return "its left operand, of 32-bit floats, does not lie along the terms";
    if (factor == tensor::DType::f8e4m3fn && (!is_deep(a, 1) || !is_deep(b, 0)))
      return "its factors are 8-bit floats and do not lie along the terms";
    return "";
  }

  /// The group that alone reads the product's results, if it does so where they lie. `parts` gets
  /// the run that it allows.
  std::optional<Side> find_after(size_t at, TemplateParts &parts) {
    const NodeId node = groups_[at].members[0];
    Side side;
    const Objection objection = object_after(at, parts, side);
    if (objection.refusal == Refusal::none)
      return side;
    refuse(node, objection.other == ir::kNone ? node : objection.other, objection.refusal,
           objection.text);
    return std::nullopt;
  }

  Objection object_after(size_t at, TemplateParts &parts, Side &side) const {
    const NodeId node = groups_[at].members[0];
    const BufferId out = state_.operation(node).outputs[0];
    const std::vector<User> &users = state_.schedule.users[out];
    if (users.empty() || users[0].node == ir::kNone)
      return {Refusal::no_template, "nothing in the graph reads its results but the caller"};
    const NodeId reader = users[0].node;
    if (!state_.owns_memory(out))
      return {Refusal::no_template, "its results are part of other memory, to be stored", reader};
    const uint32_t found = group_of_[reader];
    for (const User &user : users)
      if (!user.is_weak && (user.node == ir::kNone || group_of_[user.node] != found))
        return {Refusal::no_template,
                "its results are read by " +
                    (user.node == ir::kNone ? std::string("the caller")
                                            : state_.operation(user.node).name) +
                    ", too, and have to be stored",
                reader};
    const Group &group = groups_[found];
    if (group.node_class != NodeClass::scheduler)
      return {Refusal::not_loops, "what reads its results is no kernel over loops", reader};
    if (group.list != ir::kNone)
      return {Refusal::no_template, "what reads its results is launched with others", reader};
    if (found <= at || found - at > kFarthest)
      return {Refusal::far_apart,
              "what reads its results runs more than " + std::to_string(kFarthest) + " steps later",
              reader};
    const bool in_runs =
        std::all_of(group.bodies.begin(), group.bodies.end(),
                    [&](const ir::LoopBody &body) { return has_whole_runs(body, parts.run); });
    const int run = in_runs ? parts.run : 1;
    const Expr count = parts.batches * parts.rows * Expr(parts.columns);
    std::vector<ir::LoopBody> turned;
    bool along_rows = false;
    if (const std::string why = unfit(group, group.bodies, out, count, run); !why.empty()) {
      turned = in_order_of(state_, group.bodies, out);
      if (turned.empty() || !unfit(group, turned, out, count, 1).empty())
        return {Refusal::shapes, why, group.members[0]};
      along_rows = stores_along_rows(turned, parts.columns);
      if (!along_rows && (!unfit(group, turned, out, count, parts.run).empty() || parts.run == 1 ||
                          !stores_in_runs(turned, parts.run)))
        return {Refusal::shapes, why, group.members[0]};
    }
    if (writes_between(at, found + 1, {{at}}))
      return {Refusal::intermediate_nodes,
              "what it reads is overwritten before its results are read", reader};
    parts.along_rows = along_rows;
    parts.run = along_rows ? 1 : turned.empty() ? run : parts.run;
    side = {found, bytes_of(group, out, false), bytes_of(group, out, true), 0, std::move(turned)};
    for (const ir::LoopBody &body : side.turned.empty() ? group.bodies : side.turned)
      side.instructions +=
          instructions_of(body, parts.columns, tensor::is_reduced_float(out_of(parts.root).dtype));
    side.in_row_runs = along_rows && tensor::size_in_bytes(factor_of(parts.root)) == 2 &&
                       stores_along_rows(side.turned, parts.columns, tc_product_short_run);
    if (parts.along_rows)
      side.instructions = static_cast<int64_t>(kAlongRows * static_cast<double>(side.instructions));
    return {};
  }

  /// Why the group's loops, as `bodies`, cannot work on runs of `run` elements of `shared`, which
  /// has `count`.
  std::string unfit(const Group &group, const std::vector<ir::LoopBody> &bodies, BufferId shared,
                    Expr count, int64_t run) const {
    if (!group.reduction_numel.is_integer(1) ||
        !symbolic::simplify(group.numel - count, state_.module.ranges).is_integer(0))
      return "its loops are not those over the product's results";
    for (const ir::LoopBody &body : bodies) {
      const bool scans = std::any_of(body.ops.begin(), body.ops.end(), [](const ir::BodyOp &op) {
        return op.op == ir::Op::scan || op.op == ir::Op::sort || op.op == ir::Op::reduction ||
               op.op == ir::Op::store_reduction;
      });
      if (std::any_of(body.ops.begin(), body.ops.end(),
                      [](const ir::BodyOp &op) { return op.op == ir::Op::set_indirect; }))
        return "its loops read indices, which a product's kernel does not check";
      if (body.is_reduction() || scans || !has_whole_runs(body, run) ||
          !follows(state_, body, shared))
        return "its loops do not follow the product's results";
    }
    return "";
  }

  /// The group that computes the left operand for this product alone.
  std::optional<Side> find_before(size_t at, const std::optional<Side> &after) {
    const NodeId node = groups_[at].members[0];
    Side side;
    const Objection objection = object_before(at, after, side);
    if (objection.refusal == Refusal::none)
      return side;
    if (objection.other != ir::kNone) // an input or a weight is nobody's work
      refuse(node, objection.other, objection.refusal, objection.text);
    return std::nullopt;
  }

  Objection object_before(size_t at, const std::optional<Side> &after, Side &side) const {
    const NodeId node = groups_[at].members[0];
    const auto &call = std::get<ir::Extern>(state_.operation(node).kind);
    const BufferId left = call.inputs[0].buffer;
    const NodeId producer = state_.producer[left];
    if (producer == ir::kNone)
      return {Refusal::no_shared_data, ""};
    if (tensor::size_in_bytes(call.inputs[0].dtype) == 1)
      return {Refusal::no_template, "its left operand, of 8-bit floats, is read where it is stored",
              producer};
    const size_t found = group_of_[producer];
    const Group &group = groups_[found];
    const tensor::Layout &layout = call.inputs[0].layout;
    if (group.node_class != NodeClass::scheduler)
      return {Refusal::not_loops, "its left operand is not computed by a kernel over loops",
              producer};
    if (!state_.owns_memory(left) || !layout.is_contiguous() || !layout.offset.is_integer(0))
      return {Refusal::shapes, "its left operand is not a whole buffer, row by row", producer};
    if (call.inputs[1].buffer == left ||
        (call.inputs.size() > 2 && call.inputs[2].buffer == left) ||
        !users_are(left, [&](NodeId user) { return user == node; }))
      return {Refusal::no_template, "its left operand is read elsewhere, too, and has to be stored",
              producer};
    if (group.list != ir::kNone || group.members.size() != 1)
      return {Refusal::no_template, "the kernel of its left operand computes something else, too",
              producer};
    if (found >= at || at - found > kFarthest)
      return {Refusal::far_apart,
              "its left operand is computed more than " + std::to_string(kFarthest) +
                  " steps before",
              producer};
    const Expr count = symbolic::numel(layout.sizes);
    if (!unfit(group, group.bodies, left, count, word_of(buffer(left).dtype)).empty() ||
        !is_copy(state_, group.bodies[0], buffer(left).dtype))
      return {Refusal::shapes,
              "its left operand is computed, not only moved: a product's kernel takes copies, "
              "windows and zeros around them",
              producer};
    if (!step_of_prologue(node, group))
      return {Refusal::shapes, "its left operands do not lie a constant apart", producer};
    if (writes_between(found, after ? after->group + 1 : at, {{found}}))
      return {Refusal::intermediate_nodes, "what its left operand is made of is overwritten before",
              producer};
    side = {found, bytes_of(group, left, false), bytes_of(group, left, true), 0};
    return {};
  }

  /// Of the group that computes left operands, a copy: elements of memory from one product's to the
  /// next one's, 0 of a product alone.
  std::optional<int64_t> step_of_prologue(NodeId node, const Group &group) const {
    const tensor::Layout &layout = out_of(node).layout;
    if (layout.rank() == 2)
      return 0;
    const auto count = constant(layout.sizes[0]);
    const auto step = count ? step_of_matrices(group.bodies[0], *count) : std::nullopt;
    return step && *step % word_of(factor_of(node)) == 0 ? step : std::nullopt; // as runs start
  }

  /// The group that computes the right operand for this product alone, the terms of a column beside
  /// each other.
  Objection object_right(size_t at, const std::optional<Side> &after, Side &side) const {
    const NodeId node = groups_[at].members[0];
    const auto &call = std::get<ir::Extern>(state_.operation(node).kind);
    const BufferId right = call.inputs[1].buffer;
    const NodeId producer = state_.producer[right];
    if (producer == ir::kNone || call.inputs[0].buffer == right ||
        (call.inputs.size() > 2 && call.inputs[2].buffer == right))
      return {Refusal::no_shared_data, ""};
    const size_t found = group_of_[producer];
    const Group &group = groups_[found];
    const tensor::Layout &layout = buffer(right).layout, &view = call.inputs[1].layout;
    if (group.node_class != NodeClass::scheduler)
      return {Refusal::not_loops, "its right operand is not computed by a kernel over loops",
              producer};
    if (!state_.owns_memory(right) || !layout.is_contiguous() || !view.offset.is_integer(0) ||
        view.strides[1] != view.sizes[0] ||
        symbolic::numel(layout.sizes) != symbolic::numel(view.sizes))
      return {Refusal::shapes, "its right operand is not a whole buffer, column by column",
              producer};
    if (!users_are(right, [&](NodeId user) { return user == node; }))
      return {Refusal::no_template,
              "its right operand is read elsewhere, too, and has to be stored", producer};
    if (group.list != ir::kNone || group.members.size() != 1)
      return {Refusal::no_template, "the kernel of its right operand computes something else, too",
              producer};
    if (found >= at)
      return {Refusal::far_apart, "its right operand is computed after it", producer};
    const int64_t word = word_of(buffer(right).dtype);
    if (!unfit(group, group.bodies, right, symbolic::numel(layout.sizes), word).empty() ||
        group.bodies[0].sizes.empty())
      return {Refusal::shapes, "the loops of its right operand do not go along its columns",
              producer};
    if (!reads_neighbours(state_.module, group.bodies[0]) &&
        !reads_pairs(state_.module, group.bodies[0], constant(view.sizes[0]).value_or(0)))
      return {Refusal::shapes, "what its right operand is made of does not lie along its columns",
              producer};
    if (writes_between(found, after ? after->group + 1 : at, {{found}}))
      return {Refusal::intermediate_nodes,
              "what its right operand is made of is overwritten before", producer};
    side = {found, bytes_of(group, right, false, true), bytes_of(group, right, true, true),
            elements_instructions(group.bodies[0])};
    // Of an element: three matrices of floats take 128 registers, five spill 300 bytes.
    constexpr int64_t kMostBytes = 12;
    if (const auto elements = constant(symbolic::numel(view.sizes));
        elements && side.other_bytes > kMostBytes * *elements)
      return {Refusal::shapes, "what its right operand is made of is more than registers hold",
              producer};
    return {};
  }

  /// Whether bulk copies may be expected to bring the left operand, windows of known sizes whose
  /// channels are whole lines of shared memory.
  bool comes_in_boxes(NodeId node) const {
    const int size = static_cast<int>(tensor::size_in_bytes(factor_of(node)));
    const int64_t channels = channels_of_windows(node);
    const ir::Windows *windows = windows_of(node);
    if (windows == nullptr || channels == 0)
      return false;
    const Expr held = windows->batch * symbolic::numel(windows->sizes) * Expr(windows->channels);
    return channels % tc_product_terms_of(size) == 0 ||
           (out_of(node).layout.rank() == 2 &&
            tc_parts_of_line(size, channels, constant(held).value_or(0) * size) > 1);
  }
  /// What the left operand is, if it is windows; else null.
  const ir::Windows *windows_of(NodeId node) const {
    const auto &call = std::get<ir::Extern>(state_.operation(node).kind);
    const NodeId producer = state_.producer[call.inputs[0].buffer];
    return producer == ir::kNone ? nullptr : state_.module.windows_of(state_.operation(producer));
  }
  /// Of the windows that the left operand is, each product's; 0: it is none.
  int64_t channels_of_windows(NodeId node) const {
    const ir::Windows *windows = windows_of(node);
    const tensor::Layout &layout = out_of(node).layout; // a group of channels a product
    const int64_t products = layout.rank() == 3 ? constant(layout.sizes[0]).value_or(0) : 1;
    return windows != nullptr && products > 0 && windows->channels % products == 0
               ? windows->channels / products
               : 0;
  }
  /// How many products share a line of the windows' channels, which lie one product's behind the
  /// other's; bulk copies bring their columns, too.
  int products_beside(NodeId node, const TemplateParts &parts) const {
    const auto &call = std::get<ir::Extern>(state_.operation(node).kind);
    const int64_t channels = channels_of_windows(node);
    if (tensor::size_in_bytes(factor_of(node)) != 2 || parts.batches.is_integer(1) ||
        !parts.batches.is_integer() || parts.prologue_step != channels ||
        !is_deep(call.inputs[1].layout, 0))
      return 1;
    return tc_product_together(channels, parts.columns);
  }

  void join(size_t at, TemplateParts parts, const std::optional<Side> &before,
            const std::optional<Side> &after, const std::optional<Side> &right = std::nullopt) {
    Group whole;
    whole.node_class = NodeClass::templated;
    whole.numel = parts.batches * parts.rows * Expr(parts.columns);
    whole.reduction_numel = 1;
    const auto take = [&](size_t from) {
      Group group = std::move(groups_[from]);
      groups_[from] = {};
      whole.members.insert(whole.members.end(), group.members.begin(), group.members.end());
      return group;
    };
    if (before)
      parts.prologue = take(before->group);
    if (right)
      parts.right = take(right->group);
    take(at);
    if (after) {
      parts.epilogue = take(after->group);
      if (!after->turned.empty()) {
        parts.epilogue->bodies = after->turned;
        parts.epilogue->iteration_sizes = after->turned[0].sizes;
      }
    }
    whole.parts = std::make_shared<const TemplateParts>(std::move(parts));
    const size_t place = after ? after->group : at;
    for (const NodeId member : whole.members)
      group_of_[member] = static_cast<uint32_t>(place);
    groups_[place] = std::move(whole);
  }
};

} // namespace

void fuse_templates(State &state) {
  for (Group &group : state.schedule.groups)
    if (calls(state, group, ir::Library::attention) || calls(state, group, ir::Library::sort)) {
      group.node_class = NodeClass::templated;
      TemplateParts parts;
      parts.root = group.members[0];
      group.parts = std::make_shared<const TemplateParts>(std::move(parts));
    }
  if (state.options.target && !state.options.target->is_host) // a host would compute rows again
    fuse_attention(state);
  if (!state.policy().product_templates || !state.options.target ||
      template_ways(*state.options.target, {}).empty())
    return;
  ProductFuser(state).run();
}

} // namespace tsc::scheduler
