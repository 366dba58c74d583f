#include "codegen/part_graphs.h"

#include "codegen/order_elements.h"

#include <algorithm>
#include <limits>
#include <map>

namespace tsc::codegen {

namespace {

using ir::Op;
using ir::ReductionKind;

bool finds_position(const Value &value) {
  return value.op == Op::reduction &&
         (value.reduction == ReductionKind::argmax || value.reduction == ReductionKind::argmin);
}

ReductionKind reduction_of(ir::ScanKind kind) {
  switch (kind) {
  case ir::ScanKind::sum:
    return ReductionKind::sum;
  case ir::ScanKind::prod:
    return ReductionKind::prod;
  case ir::ScanKind::max:
    return ReductionKind::max;
  case ir::ScanKind::min:
    return ReductionKind::min;
  case ir::ScanKind::logsumexp:
  case ir::ScanKind::combine: // Splitter::store_last
    break;
  }
  return ReductionKind::online_softmax_reduce;
}

/// What changes nothing when it is scanned with others.
tensor::Scalar identity_of(ir::ScanKind kind, DType dtype) {
  if (kind == ir::ScanKind::sum || kind == ir::ScanKind::prod) {
    const int64_t neutral = kind == ir::ScanKind::prod;
    return tensor::is_floating(dtype) ? tensor::Scalar(static_cast<double>(neutral))
                                      : tensor::Scalar(neutral);
  }
  const bool lowest = kind != ir::ScanKind::min;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (tensor::is_floating(dtype))
    return lowest ? -kInfinity : kInfinity;
  if (!tensor::is_signed(dtype) && lowest)
    return int64_t{0};
  const int bits = 8 * static_cast<int>(tensor::size_in_bytes(dtype));
  const int64_t highest = INT64_MAX >> (64 - bits);
  if (lowest || tensor::is_signed(dtype))
    return lowest ? -highest - 1 : highest;
  return static_cast<int64_t>(2 * static_cast<uint64_t>(highest) + 1); // of 64 bits: -1, cast
}

/// Kernels in the place of one. For each phase whose walk reduces or scans: one that reduces parts
/// of rows, and one that merges them; then one that computes the elements, if any are stored.
class Splitter {
public:
  Splitter(ir::Module &module, const KernelGraph &graph, const Division &division,
           const KernelGraph *elements = nullptr)
      : module_(module), graph_(graph), elements_(elements != nullptr ? *elements : graph),
        pieces_(division.parts), length_(division.length), row_(graph.row_in_order()),
        piece_(is_whole_turns(division) ? Expr(0) : row_symbol(0)), parts_(1), part_(0) {
    for (size_t loop = 0; loop < division.outer; ++loop) {
      outer_.push_back(row_symbol(loop + 1));
      parts_ = parts_ * graph.element_sizes[loop];
      part_ = part_ * graph.element_sizes[loop] + outer_.back();
    }
    parts_ = parts_ * pieces_;
    part_ = part_ * pieces_ + piece_;
  }

  std::vector<KernelGraph> split() {
    bool stores_elements = false;
    for (const ValueId id : graph_.stores)
      stores_elements = stores_elements || graph_[id].level == Level::element;
    uint32_t last = 0;
    for (ValueId id = 0; id < graph_.values.size(); ++id)
      if (is_barrier(graph_[id])) {
        add_barrier(id);
        last = std::max(last, graph_[id].phase);
      }
    if (stores_elements && is_flat())
      find_handed_on();
    if (stores_elements && is_flat() && parts_.is_integer(1))
      return {rows_graph(last), elements_graph()};
    std::vector<KernelGraph> result;
    for (uint32_t phase = 0; phase <= last; ++phase) {
      if (std::none_of(barriers_.begin(), barriers_.end(),
                       [&](const Barrier &barrier) { return phase_of(barrier) == phase; }))
        continue;
      result.push_back(parts_graph(phase));
      result.push_back(merge_graph(phase, phase < last || (stores_elements && !hands_on_all_)));
    }
    if (stores_elements)
      result.push_back(elements_graph());
    return result;
  }

  /// One kernel for all: a block a part, each of which looks back at those before it. `threads` of
  /// a block, `length` and `columns`: as LookBack has them.
  KernelGraph look_back(int threads, int64_t length, int columns = 0) {
    std::vector<ValueId> moved;
    KernelGraph graph = over_parts(graph_.phases, moved);
    for (const ValueId id : graph_.stores)
      graph.stores.push_back(moved[id]);
    finish(graph);
    int64_t members = 0;
    for (const Value &value : graph.values)
      if (value.op == Op::scan)
        members += static_cast<int64_t>(scanned_members(value));
    const Expr rows = graph_.rows();
    const BufferId exchange =
        add_buffer("exchange", DType::i64, look_back_words(rows, parts_, members));
    module_.buffers[exchange].role = ir::Buffer::Role::exchange;
    graph.look_back = {exchange, threads, length, part_, row_, parts_, rows, columns};
    return graph;
  }

private:
  /// A reduction or a scan, and where its parts are, and the results: for each item of a tuple, or
  /// of a place (the value, then the position). A scan's results are what its parts start from.
  struct Barrier {
    ValueId id = ir::kNone;
    std::vector<BufferId> partials, results;
  };

  ir::Module &module_;
  const KernelGraph &graph_, &elements_;
  Expr pieces_, length_; // of the loop that is divided
  Expr row_, piece_;
  std::vector<Expr> outer_; // loops that go from part to part
  Expr parts_, part_;       // of a row: how many, and which
  std::vector<Barrier> barriers_;
  bool has_stored_ = false; // what depends on no reduction
  /// What is computed of a row's results and asked for by its elements: computed once a row where
  /// parts are merged, and kept here.
  std::map<ValueId, BufferId> handed_on_;
  bool hands_on_all_ = false; // elements ask for nothing else of what was reduced

  uint32_t phase_of(const Barrier &barrier) const { return graph_[barrier.id].phase; }
  const Barrier &barrier_of(ValueId id) const {
    return *std::find_if(barriers_.begin(), barriers_.end(),
                         [&](const Barrier &barrier) { return barrier.id == id; });
  }

  /// Each part has one turn of the outer loops, the next loop being whole.
  static bool is_whole_turns(const Division &division) {
    return division.outer > 0 && division.parts.is_integer(1);
  }
  Expr row_symbol(size_t more) const {
    return symbolic::symbol(symbolic::SymbolSort::row, graph_.row_variables.size() + more);
  }
  BufferId add_buffer(const char *stem, DType dtype, Expr count) {
    ir::Buffer buffer;
    buffer.name = stem + std::to_string(module_.buffers.size());
    buffer.dtype = tensor::is_reduced_float(dtype) ? DType::f32 : dtype;
    buffer.layout = tensor::contiguous_layout({count});
    buffer.role = ir::Buffer::Role::computed;
    module_.buffers.push_back(std::move(buffer));
    return static_cast<BufferId>(module_.buffers.size() - 1);
  }
  void add_barrier(ValueId id) {
    const Value &value = graph_[id];
    const Expr rows = graph_.rows(), all = rows * parts_;
    Barrier barrier{id, {}, {}};
    if (value.combine) {
      for (const DType type : value.combine.code->types) {
        barrier.partials.push_back(add_buffer("parts", type, all));
        barrier.results.push_back(add_buffer("starts", type, all));
      }
    } else if (value.op == Op::scan) {
      barrier.partials = {add_buffer("parts", total_dtype(value), all)};
      barrier.results = {add_buffer("starts", total_dtype(value), all)};
    } else if (finds_position(value)) {
      barrier.partials = {add_buffer("parts", value.source_dtype, all),
                          add_buffer("parts", DType::i64, all)};
      barrier.results = {add_buffer("merged", DType::i64, rows)};
    } else {
      for (size_t i = 0; i < ir::tuple_size(value.reduction); ++i) {
        barrier.partials.push_back(add_buffer("parts", value.dtype, all));
        barrier.results.push_back(add_buffer("merged", value.dtype, rows));
      }
    }
    barriers_.push_back(std::move(barrier));
  }

  // ---- values

  static ValueId add(KernelGraph &graph, Value value) {
    graph.values.push_back(std::move(value));
    return static_cast<ValueId>(graph.values.size() - 1);
  }
  ValueId load(KernelGraph &graph, BufferId buffer, Expr index, ValueId guard = ir::kNone) const {
    Value value;
    value.op = Op::load;
    value.buffer = buffer;
    value.dtype = module_.buffer(buffer).dtype;
    value.index = index;
    value.guard = guard;
    return add(graph, std::move(value));
  }
  void store(KernelGraph &graph, Op op, BufferId buffer, Expr index, ValueId stored) const {
    Value value;
    value.op = op;
    value.dtype = module_.buffer(buffer).dtype;
    value.buffer = buffer;
    value.index = index;
    value.args = {stored};
    graph.stores.push_back(add(graph, std::move(value)));
  }
  static ValueId compute(KernelGraph &graph, Op op, DType dtype, std::vector<ValueId> args) {
    Value value;
    value.op = op;
    value.dtype = dtype;
    value.args = std::move(args);
    return add(graph, std::move(value));
  }
  static ValueId item(KernelGraph &graph, ValueId tuple, DType dtype, uint32_t number) {
    const ValueId id = compute(graph, Op::get_item, dtype, {tuple});
    graph.values[id].item = number;
    return id;
  }
  static ValueId constant(KernelGraph &graph, tensor::Scalar number, DType dtype) {
    const ValueId id = compute(graph, Op::constant, dtype, {});
    graph.values[id].constant = number;
    return id;
  }
  static ValueId position(KernelGraph &graph, Expr index) {
    const ValueId id = compute(graph, Op::index_expr, DType::i64, {});
    graph.values[id].index = index;
    return id;
  }
  static void renumber(Value &value, const std::vector<ValueId> &moved) {
    for (ValueId &arg : value.args)
      arg = moved[arg];
    value.guard = value.guard == ir::kNone ? ir::kNone : moved[value.guard];
  }

  /// The reduction that `id` is, or is an item of, if it belongs to a phase before `phase`.
  const Barrier *earlier(ValueId id, uint32_t phase) const {
    const ValueId tuple = graph_[id].op == Op::get_item ? graph_[id].args[0] : id;
    return graph_[tuple].op == Op::reduction && graph_[tuple].phase < phase ? &barrier_of(tuple)
                                                                            : nullptr;
  }
  /// What a reduction of an earlier phase gave; nothing for a tuple, whose items are asked for.
  ValueId result(KernelGraph &graph, ValueId id, const Barrier &barrier) const {
    if (id == barrier.id && barrier.results.size() > 1)
      return ir::kNone;
    return load(graph, barrier.results[graph_[id].op == Op::get_item ? graph_[id].item : 0], row_);
  }

  /// Chooses what is handed on, if elements then load no more than they would of the reductions.
  void find_handed_on() {
    std::vector<bool> needed(graph_.values.size(), false);
    std::vector<ValueId> computed, reduced;
    for (const ValueId id : graph_.stores)
      needed[id] = graph_[id].level == Level::element;
    for (ValueId id = static_cast<ValueId>(graph_.values.size()); id-- > 0;) {
      const Value &value = graph_[id];
      if (value.op == Op::set_indirect)
        needed[id] = true;
      if (!needed[id])
        continue;
      if (earlier(id, graph_.phases) != nullptr) {
        reduced.push_back(id);
        continue;
      }
      if (value.level == Level::row && value.phase > 0 && value.op != Op::set_indirect) {
        computed.push_back(id);
        continue;
      }
      for (const ValueId arg : value.args)
        needed[arg] = true;
      if (value.guard != ir::kNone)
        needed[value.guard] = true;
    }
    size_t results = 0;
    for (const Barrier &barrier : barriers_)
      results += barrier.results.size();
    if (computed.empty() || computed.size() + reduced.size() > results)
      return;
    for (const ValueId id : computed)
      handed_on_[id] = add_buffer("merged", graph_[id].dtype, graph_.rows());
    hands_on_all_ = reduced.empty();
  }

  // ---- kernels

  /// The graph over parts of rows; what was reduced before `phase` is loaded. No stores.
  KernelGraph over_parts(uint32_t phase, std::vector<ValueId> &moved) const {
    KernelGraph graph = graph_;
    graph.values.clear();
    graph.stores.clear();
    // Outermost: neighbouring rows stay neighbours where columns are reduced.
    const auto outer = static_cast<ptrdiff_t>(outer_.size());
    symbolic::Substitution place;
    for (size_t loop = 0; loop < outer_.size(); ++loop) {
      place[graph.element_variables[loop]] = outer_[loop];
      graph.ranges.set_size(outer_[loop], graph.element_sizes[loop]);
    }
    if (!piece_.is_integer()) {
      graph.row_variables.insert(graph.row_variables.begin(), piece_);
      graph.row_sizes.insert(graph.row_sizes.begin(), pieces_);
      graph.ranges.set_size(piece_, pieces_);
    }
    graph.row_variables.insert(graph.row_variables.begin(), outer_.begin(), outer_.end());
    graph.row_sizes.insert(graph.row_sizes.begin(), graph.element_sizes.begin(),
                           graph.element_sizes.begin() + outer);
    for (std::vector<Expr> *list : {&graph.element_variables, &graph.element_sizes})
      list->erase(list->begin(), list->begin() + outer);
    const Expr divided = graph.element_variables[0], size = graph.element_sizes[0];
    if (size == length_ * pieces_)
      graph.element_sizes[0] = length_;
    else
      graph.element_sizes[0] = symbolic::minimum(length_, size - piece_ * length_);
    if (!size.is_integer())
      graph.element_sizes[0] = symbolic::maximum(0, graph.element_sizes[0]);
    graph.ranges.set_size(divided, length_);
    place[divided] = piece_ * length_ + divided;
    moved.assign(graph_.values.size(), ir::kNone);
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      if (const Barrier *barrier = earlier(id, phase)) {
        moved[id] = result(graph, id, *barrier);
        continue;
      }
      if (graph_[id].op == Op::set_indirect && graph_[id].phase > phase)
        continue; // an index of what is not reduced yet: checked in a later kernel
      Value value = graph_[id];
      renumber(value, moved);
      value.index = symbolic::simplify(symbolic::substitute(value.index, place), graph.ranges);
      moved[id] = add(graph, std::move(value));
    }
    put_neighbours_last(module_, graph);
    return graph;
  }
  static void finish(KernelGraph &graph) {
    remove_dead_values(graph);
    assign_phases(graph);
  }

  /// The place in its row of a part's first element.
  Expr first_of_part() const {
    Expr place = 0;
    const std::vector<Expr> &sizes = graph_.element_sizes;
    for (size_t loop = 0; loop < sizes.size(); ++loop)
      place = place * sizes[loop] + (loop < outer_.size()    ? outer_[loop]
                                     : loop == outer_.size() ? piece_ * length_
                                                             : Expr(0));
    return place;
  }
  KernelGraph parts_graph(uint32_t phase) const {
    std::vector<ValueId> moved;
    KernelGraph graph = over_parts(phase, moved);
    start_scans(graph, moved, phase);
    const Expr index = row_ * parts_ + part_;
    for (const Barrier &barrier : barriers_) {
      const Value &value = graph_[barrier.id];
      if (value.phase != phase)
        continue;
      const ValueId id = moved[barrier.id];
      if (value.combine) {
        store_last(graph, barrier, id, index);
      } else if (value.op == Op::scan) {
        store(graph, Op::store_reduction, barrier.partials[0], index, total(graph, value, moved));
      } else if (finds_position(value)) {
        const ValueId first = position(graph, first_of_part());
        store(graph, Op::store_reduction, barrier.partials[0], index,
              item(graph, id, value.source_dtype, 0));
        store(graph, Op::store_reduction, barrier.partials[1], index,
              compute(graph, Op::add, DType::i64, {id, first}));
      } else {
        const bool tuple = barrier.partials.size() > 1;
        for (uint32_t i = 0; i < barrier.partials.size(); ++i)
          store(graph, Op::store_reduction, barrier.partials[i], index,
                tuple ? item(graph, id, value.dtype, i) : id);
      }
    }
    finish(graph);
    return graph;
  }
  /// What a part's scan of tuples comes to: where its last element stands.
  void store_last(KernelGraph &graph, const Barrier &barrier, ValueId scan, Expr index) const {
    const ValueId place = position(graph, graph.element_variables[0]);
    const ValueId end = position(graph, graph.element_sizes[0] - 1);
    const ValueId is_last = compute(graph, Op::eq, DType::boolean, {place, end});
    for (uint32_t i = 0; i < barrier.partials.size(); ++i) {
      const DType type = member_dtype(graph[scan], i);
      store(graph, Op::store, barrier.partials[i], index, item(graph, scan, type, i));
      graph.values[graph.stores.back()].guard = is_last;
    }
  }
  /// What a part adds to those behind it.
  ValueId total(KernelGraph &graph, const Value &scan, const std::vector<ValueId> &moved) const {
    const ValueId id = compute(graph, Op::reduction, total_dtype(scan), {moved[scan.args[0]]});
    graph.values[id].reduction = reduction_of(scan.scan);
    graph.values[id].source_dtype = scan.dtype;
    if (scan.scan != ir::ScanKind::logsumexp)
      return id;
    return compute(graph, Op::add, scan.dtype,
                   {item(graph, id, scan.dtype, 0),
                    compute(graph, Op::log, scan.dtype, {item(graph, id, scan.dtype, 1)})});
  }

  /// The parts that belong to `phase` to one result a row, and what is computed of those.
  /// `is_asked_for`: kernels behind this one load them.
  KernelGraph merge_graph(uint32_t phase, bool is_asked_for) {
    KernelGraph graph = graph_;
    const Expr part = symbolic::symbol(symbolic::SymbolSort::reduced);
    const Expr index = row_ * parts_ + part;
    graph.element_variables = {part};
    graph.element_sizes = {parts_};
    graph.ranges.set_size(part, parts_);
    graph.values.clear();
    graph.stores.clear();
    std::vector<ValueId> moved(graph_.values.size(), ir::kNone);
    const auto is_known = [&](ValueId id) { return id == ir::kNone || moved[id] != ir::kNone; };
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      const Value &source = graph_[id];
      if (const Barrier *barrier = earlier(id, phase)) {
        moved[id] = result(graph, id, *barrier);
      } else if (is_barrier(source) && source.phase == phase) {
        Value value = source;
        value.args.clear();
        for (const BufferId partial : barrier_of(id).partials)
          value.args.push_back(load(graph, partial, index));
        if (value.op == Op::scan && !value.combine)
          value.dtype = total_dtype(source);
        if (value.reduction == ReductionKind::welford_reduce)
          value.reduction = ReductionKind::welford_combine;
        value.source_dtype = graph.values[value.args[0]].dtype;
        moved[id] = add(graph, std::move(value));
      } else if (source.level == Level::row && is_known(source.guard) &&
                 std::all_of(source.args.begin(), source.args.end(), is_known)) {
        Value value = source;
        renumber(value, moved);
        moved[id] = add(graph, std::move(value));
      }
    }
    for (const ValueId id : graph_.stores) {
      const Value &value = graph_[id];
      if (value.level == Level::row &&
          (value.phase == phase + 1 || (value.phase == 0 && !has_stored_)))
        graph.stores.push_back(moved[id]);
    }
    has_stored_ = true;
    for (const auto &[id, buffer] : handed_on_)
      if (graph_[id].phase == phase + 1)
        store(graph, Op::store_reduction, buffer, row_, moved[id]);
    for (const Barrier &barrier : barriers_) {
      const Value &value = graph_[barrier.id];
      if (value.phase != phase || !is_asked_for)
        continue;
      const ValueId id = moved[barrier.id];
      if (value.op == Op::scan) {
        for (uint32_t i = 0; i < barrier.results.size(); ++i)
          store(graph, Op::store, barrier.results[i], index,
                value.combine ? item(graph, id, member_dtype(value, i), i) : id);
        continue;
      }
      store_results(graph, barrier, id);
    }
    finish(graph);
    return graph;
  }
  void store_results(KernelGraph &graph, const Barrier &barrier, ValueId reduced) const {
    const bool tuple = barrier.results.size() > 1;
    for (uint32_t i = 0; i < barrier.results.size(); ++i)
      store(graph, Op::store_reduction, barrier.results[i], row_,
            tuple ? item(graph, reduced, graph_[barrier.id].dtype, i) : reduced);
  }

  /// Rows that are one part each: all that is of a row, its last reduction being of phase `last`.
  KernelGraph rows_graph(uint32_t last) const {
    KernelGraph graph = graph_;
    graph.values.clear();
    graph.stores.clear();
    std::vector<ValueId> moved(graph_.values.size(), ir::kNone);
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      if (graph_[id].op == Op::set_indirect && graph_[id].phase > last &&
          graph_[id].level == Level::element)
        continue; // checked where elements are computed
      Value value = graph_[id];
      renumber(value, moved);
      moved[id] = add(graph, std::move(value));
    }
    for (const ValueId id : graph_.stores)
      if (graph_[id].level == Level::row)
        graph.stores.push_back(moved[id]);
    for (const auto &[id, buffer] : handed_on_)
      store(graph, Op::store_reduction, buffer, row_, moved[id]);
    for (const Barrier &barrier : barriers_)
      if (!hands_on_all_)
        store_results(graph, barrier, moved[barrier.id]);
    finish(graph);
    return graph;
  }

  /// Nothing of an element waits for others of its row any more: rows are loops like others, where
  /// their sizes are known.
  KernelGraph flat_elements() const {
    std::vector<ValueId> moved(graph_.values.size(), ir::kNone);
    KernelGraph graph = elements_;
    graph.values.clear();
    graph.stores.clear();
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      if (const Barrier *barrier = earlier(id, graph_.phases)) {
        moved[id] = hands_on_all_ ? ir::kNone : result(graph, id, *barrier);
        continue;
      }
      if (const auto kept = handed_on_.find(id); kept != handed_on_.end()) {
        moved[id] = load(graph, kept->second, row_);
        continue;
      }
      Value value = elements_[id];
      renumber(value, moved);
      moved[id] = add(graph, std::move(value));
    }
    for (const ValueId id : graph_.stores)
      if (graph_[id].level == Level::element)
        graph.stores.push_back(moved[id]);
    remove_dead_values(graph);
    make_pointwise(graph);
    return graph;
  }
  bool is_flat() const {
    const auto is_number = [](Expr e) { return e.is_integer(); };
    return std::none_of(
               barriers_.begin(), barriers_.end(),
               [&](const Barrier &barrier) { return graph_[barrier.id].op == Op::scan; }) &&
           std::all_of(graph_.row_sizes.begin(), graph_.row_sizes.end(), is_number) &&
           std::all_of(graph_.element_sizes.begin(), graph_.element_sizes.end(), is_number);
  }
  KernelGraph elements_graph() const {
    if (is_flat())
      return flat_elements();
    std::vector<ValueId> moved;
    KernelGraph graph = over_parts(graph_.phases, moved);
    for (const ValueId id : graph_.stores)
      if (graph_[id].level == Level::element)
        graph.stores.push_back(moved[id]);
    start_scans(graph, moved, graph_.phases);
    finish(graph);
    return graph;
  }
  /// Scans of phases before `phase` go on in a part where the part before it ended. Moves values.
  void start_scans(KernelGraph &graph, std::vector<ValueId> &moved, uint32_t phase) const {
    KernelGraph starts = graph;
    starts.values.clear();
    std::vector<std::pair<ValueId, std::vector<ValueId>>> of_scan; // where it is, its arguments
    for (const Barrier &barrier : barriers_) {
      const Value &scan = graph_[barrier.id];
      if (scan.op != Op::scan || scan.phase >= phase)
        continue;
      const ValueId follows =
          compute(starts, Op::ge, DType::boolean,
                  {position(starts, part_), constant(starts, int64_t{1}, DType::i64)});
      std::vector<ValueId> before;
      for (const BufferId result : barrier.results)
        before.push_back(load(starts, result, row_ * parts_ + part_ - 1, follows));
      if (scan.combine) {
        before.push_back(follows);
        of_scan.emplace_back(moved[barrier.id], std::move(before));
        continue;
      }
      const ValueId nothing = constant(starts, identity_of(scan.scan, scan.dtype), scan.dtype);
      of_scan.push_back({moved[barrier.id],
                         {compute(starts, Op::where, scan.dtype, {follows, before[0], nothing})}});
    }
    if (of_scan.empty())
      return;
    // They come first: arguments stand before their users.
    const auto count = static_cast<ValueId>(starts.values.size());
    for (Value value : graph.values) {
      for (ValueId &arg : value.args)
        arg += count;
      value.guard = value.guard == ir::kNone ? ir::kNone : value.guard + count;
      starts.values.push_back(std::move(value));
    }
    for (ValueId &id : starts.stores)
      id += count;
    for (const auto &[scan, start] : of_scan)
      for (const ValueId argument : start)
        starts.values[scan + count].args.push_back(argument);
    for (ValueId &id : moved)
      id = id == ir::kNone ? id : id + count;
    graph = std::move(starts);
  }
};

} // namespace

std::vector<KernelGraph> graphs_of_parts(ir::Module &module, const KernelGraph &graph,
                                         const Division &division, const KernelGraph *elements) {
  return Splitter(module, graph, division, elements).split();
}

KernelGraph look_back_graph(ir::Module &module, const KernelGraph &graph, Expr parts,
                            int64_t length, int threads, int columns) {
  return Splitter(module, graph, {parts, length}).look_back(threads, length, columns);
}

} // namespace tsc::codegen
