#include "codegen/print_kernel.h"

#include "codegen/plan_steps.h"
#include "codegen/walk_text.h"
#include "codegen/window_text.h"
#include "support/diagnostic.h"
#include "templates/product/tc_product_geometry.h"

#include <algorithm>
#include <limits>

namespace tsc::codegen {

using ir::Op;

const std::string &Parameters::name_of(BufferId storage) const {
  const auto found = std::find(storages.begin(), storages.end(), storage);
  support::require(found != storages.end(), "codegen", "a buffer is no parameter of its kernel");
  return list[static_cast<size_t>(found - storages.begin())].name;
}
bool Parameters::only_read(BufferId storage) const {
  const auto at =
      static_cast<size_t>(std::find(storages.begin(), storages.end(), storage) - storages.begin());
  return at < storages.size() && list[at].is_const && restricted[at];
}
bool Parameters::stored_over(BufferId storage) const {
  const auto at =
      static_cast<size_t>(std::find(storages.begin(), storages.end(), storage) - storages.begin());
  return at < storages.size() && list[at].is_const && !restricted[at];
}

namespace {

class Printer : WalkText {
public:
  using WalkText::WalkText;

  /// What the kernel does, indented by `depth`.
  std::string print(int depth) {
    depth_ = depth;
    if (serial_ && graph_.reduces)
      open_serial_rows();
    else
      coordinates();
    const std::optional<KernelPlan> full = serial_ ? std::nullopt : plan_of_full_rows(plan_);
    if (!full) {
      print_walk();
      return std::move(text_);
    }
    open("if (" + size_text(graph_.elements()) + " == " + size_text(full->graph.elements()) + ")");
    Printer walk(module_, *full, parameters_, "", path_, is_part_);
    walk.depth_ = depth_;
    walk.print_walk();
    text_ += walk.text_;
    close();
    open("else");
    print_walk();
    close();
    return std::move(text_);
  }
  /// The same, once it is known where a thread is.
  void print_walk() {
    const size_t start = text_.size();
    notes_later_ = !serial_ && (!flat_ || vector_ * steps_ > 1) && looks_up_few();
    if (const int slots = across_slots(); slots > 0)
      shared_.push_back("tc_bytes16 across[" + std::to_string(plan_.block / 32) + "][" +
                        std::to_string(slots) + "]");
    load_tiles();
    hold_tables();
    preloads();
    turn_tiles();
    for (const PhasePlan &phase : plan_.phases)
      print_phase(phase);
    row_stores();
    note_failures(start);
    if (serial_ && graph_.reduces)
      close();
  }
  /// One run of a ProductWalk.
  std::string print_run(RunUse use, std::vector<AheadLoad> *ahead, Expr row) {
    depth_ = 2;
    const PhasePlan &phase = plan_.phases.front();
    for (const ValueId id : phase.row_values) {
      define(id);
      define_inverse(id);
    }
    const ValueId copied = use == RunUse::copied ? copied_load(plan_) : ir::kNone;
    const auto comes_ahead = [&](ValueId id) {
      return ahead != nullptr && graph_[id].op == Op::load && id != plan_.result &&
             loads_early(id) && (vectors_.count(id) != 0 || graph_[id].args.empty()) &&
             (symbolic::depends_on(graph_[id].index, row) ||
              parameters_.only_read(module_.storage_of(graph_[id].buffer)));
    };
    // Numbers of a row, too, as far as what is held has room for them.
    constexpr size_t kNumber = 8;
    const auto is_along = [&](ValueId id) { return !symbolic::depends_on(graph_[id].index, row); };
    const auto vector_bytes = [&](ValueId id) {
      return static_cast<size_t>(width_of(id)) *
             tensor::size_in_bytes(module_.buffer(graph_[id].buffer).dtype);
    };
    size_t held[2] = {0, 0}; // of a row, of all rows
    for (const ValueId id : phase.run_values)
      if (comes_ahead(id) && vectors_.count(id) != 0)
        held[is_along(id)] += vector_bytes(id);
    for (const ValueId id : phase.run_values) {
      const bool is_vector = vectors_.count(id) != 0, along = is_along(id),
                 early = comes_ahead(id) &&
                         (is_vector || held[along] + kNumber <= tc_product_ahead_bytes);
      const std::string from = along ? "along." : "ahead.";
      if (early && is_vector) {
        ahead->push_back({vector_type(id), vector_name(id), run_load(vector_load(id), id),
                          static_cast<int>(vector_bytes(id)), along});
        line("const " + vector_type(id) + " " + vector_name(id) + " = " + from + vector_name(id) +
             ";");
      } else if (early) { // as it lies in memory: what converts it would wait for it
        const std::string name = "t" + std::to_string(numbers_[id]);
        const std::string type(storage_type(module_.buffer(graph_[id].buffer).dtype)),
            load = element_of(graph_[id]);
        const DType dtype = module_.buffer(graph_[id].buffer).dtype;
        const bool is_half = dtype == DType::f16 || dtype == DType::bf16;
        ahead->push_back({is_half ? "tc_apart<" + type + ">" : type, name,
                          is_half ? "tc_keep_apart(" + load + ")" : load, static_cast<int>(kNumber),
                          along});
        held[along] += kNumber;
        held_[id] = from + name;
        define(id);
      } else if (copied == ir::kNone || id != copied) {
        define(id);
      }
      define_inverse(id);
    }
    if (copied != ir::kNone) {
      const Value &load = graph_[copied];
      line("return " + (load.guard == ir::kNone ? "" : KernelText::use(load.guard) + " ? ") +
           address(load) + (load.guard == ir::kNone ? "" : " : nullptr") + ";");
      return std::move(text_);
    }
    gives_run_ = use == RunUse::operand;
    print_elements(phase);
    return std::move(text_);
  }
  using WalkText::combine_structs;
  using WalkText::shared_struct;

  /// A kernel whose blocks add to copies of their own: those are filled with what changes nothing,
  /// the walk's blocks are done in turn, and what the copies came to is brought to memory, each
  /// block starting at another place.
  std::string print_with_copies(bool is_part) {
    depth_ = 1;
    line("TC_DYN_SMEM(unsigned char, copies);");
    for (const BlockCopy &copy : plan_.block_copies)
      declare_copy(copy);
    line("TC_BARRIER();");
    line("const int own = " + (is_part ? block_ : "static_cast<int>(blockIdx.x)") + ";");
    std::string first = "own";
    if (plan_.beside > 1) {
      const std::string threads = std::to_string(plan_.block / plan_.beside);
      line("const int thread = static_cast<int>(threadIdx.x) % " + threads + ";");
      first =
          "own * " + std::to_string(plan_.beside) + " + static_cast<int>(threadIdx.x) / " + threads;
      thread_ = "thread";
    }
    open("for (int block = " + first + "; block < " + size_text(plan_.turns) +
         "; block += " + size_text(plan_.grid * Expr(plan_.beside)) + ")");
    std::string text = std::move(text_);
    text_.clear();
    text += print(depth_);
    text_ = std::move(text);
    depth_ = 2;
    close();
    line("TC_BARRIER();");
    for (const BlockCopy &copy : plan_.block_copies)
      flush(copy);
    return std::move(text_);
  }

  /// A kernel whose blocks have several rows in turn: what the next one's elements look up in comes
  /// to the other half of shared memory meanwhile.
  std::string print_with_tables(bool is_part) {
    depth_ = 1;
    const std::string grid = size_text(plan_.grid), turns = size_text(plan_.turns),
                      bytes = std::to_string(plan_.shared_bytes / 2);
    line("TC_DYN_SMEM(unsigned char, tables);");
    line("const int own = " + (is_part ? block_ : "static_cast<int>(blockIdx.x)") + ";");
    line("int half = 0;");
    bring_tables_of("own", "half");
    open("for (int block = own; block < " + turns + "; block += " + grid + ")");
    bring_tables_of("block + " + grid, bytes + " - half", turns);
    line("tc_wait_for_copies<1>();");
    line("TC_BARRIER();");
    block_ = "block";
    std::string text = std::move(text_);
    text_.clear();
    text += print(depth_);
    text_ = std::move(text);
    depth_ = 2;
    line("TC_BARRIER();");
    line("half = " + bytes + " - half;");
    close();
    return std::move(text_);
  }

private:
  /// Of one row, a group of copies, empty where there is none. `end`: of the rows, where it may be
  /// past them.
  void bring_tables_of(const std::string &row, const std::string &half,
                       const std::string &end = "") {
    open(end.empty() ? "" : "if (" + row + " < " + end + ")");
    if (!graph_.row_variables.empty()) {
      line("const " + index_ + " row = " + as_index(row) + ";");
      decompose(graph_.row_variables, graph_.row_sizes, "row");
    }
    bring_tables(half);
    close();
    line("tc_close_copies();");
  }
  void declare_copy(const BlockCopy &copy) {
    const auto declare = [this](const std::string &type, const std::string &name, int64_t offset) {
      line(type + " *const " + name + " = reinterpret_cast<" + type + " *>(copies" +
           (offset == 0 ? "" : " + " + std::to_string(offset)) + ");");
    };
    declare(copy_type(copy), copy_name(copy), copy.offset);
    if (copy.marks)
      declare("unsigned char", marks_name(copy), *copy.marks);
    line(each_of(copy));
    line(copy.marks ? "  " + marks_name(copy) + "[i] = 0;"
                    : "  " + copy_name(copy) + "[i] = " + neutral(copy) + ";");
  }
  static std::string copy_type(const BlockCopy &copy) {
    return std::string(copy.marks ? storage_type(copy.dtype) : value_type(copy.dtype));
  }
  std::string each_of(const BlockCopy &copy) const {
    return "for (int i = static_cast<int>(threadIdx.x); i < " + std::to_string(copy.elements) +
           "; i += " + std::to_string(plan_.block) + ")";
  }
  std::string neutral(const BlockCopy &copy) const {
    using Limits = std::numeric_limits<double>;
    const ir::StoreMode mode = graph_[copy.store].mode;
    if (mode == ir::StoreMode::atomic_add)
      return literal(tensor::Scalar(int64_t{0}), copy.dtype);
    const bool is_max = mode == ir::StoreMode::atomic_max;
    if (tensor::is_floating(copy.dtype))
      return literal(tensor::Scalar(is_max ? -Limits::infinity() : Limits::infinity()), copy.dtype);
    const auto limit = [is_max](auto of) {
      using Whole = std::numeric_limits<decltype(of)>;
      return tensor::Scalar(static_cast<int64_t>(is_max ? Whole::min() : Whole::max()));
    };
    return literal(copy.dtype == DType::i64 ? limit(int64_t{}) : limit(int32_t{}), copy.dtype);
  }
  void flush(const BlockCopy &copy) {
    const Value &store = graph_[copy.store];
    const BufferId storage = module_.storage_of(store.buffer);
    const int64_t blocks = symbolic::bounds(plan_.grid, graph_.ranges).high; // at most
    const int64_t apart = std::max<int64_t>(1, copy.elements / std::max<int64_t>(1, blocks));
    open(each_of(copy));
    line("const int at = static_cast<int>((i + static_cast<long long>(own) * " +
         std::to_string(apart) + ") % " + std::to_string(copy.elements) + ");");
    const std::string &memory = parameters_.name_of(storage);
    if (copy.marks) {
      open("if (" + marks_name(copy) + "[at] != 0)");
      line(memory + "[at] = " + copy_name(copy) + "[at];");
    } else {
      line("const " + copy_type(copy) + " x = " + copy_name(copy) + "[at];");
      open("if (x != " + neutral(copy) + ")");
      line("tc_" + std::string(ir::store_mode_name(store.mode)) + "(" + memory +
           " + at, static_cast<" + std::string(value_type(module_.buffer(storage).dtype)) +
           ">(x));");
    }
    close();
    close();
  }

  std::string memory_of(const HeldTable &table) const {
    const Value &load = graph_[table.loads.front()];
    return parameters_.name_of(module_.storage_of(load.buffer)) +
           (table.first.is_integer(0) ? "" : " + " + index_text(table.first));
  }
  /// `half`: where the half of shared memory begins, if there are two.
  static std::string place_of(const HeldTable &table, const std::string &half) {
    return "tables" + (half.empty() ? "" : " + " + half) +
           (table.offset == 0 ? "" : " + " + std::to_string(table.offset));
  }
  /// Starts to bring what elements of a row look up in.
  void bring_tables(const std::string &half) {
    for (const HeldTable &table : plan_.tables)
      line("tc_bring_table(" + place_of(table, half) + ", " + memory_of(table) + ", " +
           std::to_string(table.elements) + ", " + thread_ + ", " + std::to_string(plan_.block) +
           ");");
  }
  /// The same where a block has one row, and waits.
  void hold_tables() {
    if (plan_.tables.empty())
      return;
    if (!plan_.has_turns()) {
      line("TC_DYN_SMEM(unsigned char, tables);");
      bring_tables("");
      line("tc_close_copies();");
      line("tc_wait_for_copies<0>();");
      line("TC_BARRIER();");
    }
    for (const HeldTable &table : plan_.tables)
      line(std::string(storage_type(module_.buffer(graph_[table.loads.front()].buffer).dtype)) +
           " *const " + table_name(table) + " = tc_table_at(" +
           place_of(table, plan_.has_turns() ? "half" : "") + ", " + memory_of(table) + ");");
  }

  bool gives_run_ = false; // what is stored is the product's operand

  void declare_vectors(ValueId id) {
    line(vector_type(id) + " " + vectors_[id] +
         (steps_ > 1 ? "[" + std::to_string(steps_) + "]" : "") + ";");
  }
  void preloads() {
    if (plan_.preloads.empty())
      return;
    std::vector<ValueId> run_by_run;
    for (const ValueId id : plan_.preloads) {
      declare_vectors(id);
      if (is_by_lanes(plan_, id))
        load_own_row(id, vectors_[id]);
      else
        run_by_run.push_back(id);
    }
    if (run_by_run.empty())
      return;
    Position position = nowhere();
    mark(position, run_by_run);
    const int braces = open_runs(position);
    for (const ValueId id : run_by_run)
      line(vectors_[id] + (steps_ > 1 ? "[k]" : "") + " = " +
           run_load(plan_.streamed[id] ? "tc_stream_vec" : "tc_load_vec", id) + ";");
    close_runs(braces);
  }

  // ---- tiles through shared memory

  std::string tile_run(const std::string &name) const {
    return name + (tile_->steps_of(true) > 1 ? "[k]" : "");
  }
  /// All loads of the tile are under way before the first is used.
  void load_tiles() {
    if (!tile_)
      return;
    const std::string width = std::to_string(tile_->loaded_run());
    const int steps = tile_->steps_of(true);
    for (const auto &[id, name] : tiles_) {
      const std::string type = std::string(storage_type(module_.buffer(graph_[id].buffer).dtype));
      shared_.push_back(type + " " + name + "[" +
                        std::to_string(tile_place(graph_[id]).elements()) + "]");
      line("tc_vec<" + type + ", " + width + "> " + name +
           (steps > 1 ? "[" + std::to_string(steps) + "]" : "") + ";");
    }
    Position position = nowhere();
    for (const auto &[id, name] : tiles_) {
      std::vector<ValueId> places = {id};
      if (graph_[id].guard != ir::kNone)
        is_of_place(graph_, graph_[id].guard, &places);
      mark(position, places);
    }
    const int braces = open_tile_elements(open_tile_runs(true, true), position);
    for (const auto &[id, name] : tiles_)
      line(tile_run(name) + " = " +
           (graph_[id].guard == ir::kNone
                ? "tc_load_vec<" + width + ">("
                : "tc_load_vec_where<" + width + ">(" + of_place(graph_[id].guard) + ", ") +
           address(graph_[id]) + ");");
    close_runs(braces);
  }
  void turn_tiles() {
    if (!tile_)
      return;
    const int braces = open_tile_runs(true, true);
    line("TC_UNROLL");
    open("for (int j = 0; j < " + std::to_string(tile_->loaded_run()) + "; ++j)");
    const std::string group = std::to_string(tile_->group);
    const std::string across = tile_->group > 1 ? "(across + j % " + group + ")" : "across",
                      down = tile_->group == 1    ? "down + j"
                             : tile_->across == 1 ? "down"
                                                  : "down + j / " + group;
    for (const auto &[id, name] : tiles_)
      line("shared." + name + "[" + tile_place(graph_[id]).text(across, "", down) +
           "] = " + tile_run(name) + ".at[j];");
    close_runs(braces + 1);
    line("TC_BARRIER();");
  }

  // ---- phases

  void declare_kept(const PhasePlan &phase) {
    const auto declare = [&](ValueId id) {
      if (!plan_.kept[id])
        return;
      if (vectors_.count(id) != 0) {
        declare_vectors(id);
        return;
      }
      const std::string count =
          steps_ > 0 ? std::to_string(steps_ * vector_) : size_text(graph_.elements());
      line(element_type(id) + " t" + std::to_string(numbers_[id]) + "[" + count + "];");
    };
    for (const ValueId id : phase.run_values)
      declare(id);
    for (const ValueId id : phase.elements)
      declare(id);
  }

  void print_phase(const PhasePlan &phase) {
    phase_ = &phase;
    for (const ValueId id : phase.row_values) {
      define(id);
      define_inverse(id);
    }
    if (phase.empty())
      return;
    for (const ValueId id : phase.elements)
      if (draws_by_warp(plan_, id))
        draw_words(id);
    declare_kept(phase);
    declare_accumulators(phase);
    restart_scans(phase);
    if (serial_ && !graph_.reduces) {
      const std::string chunk = std::to_string(serial_->chunk), count = size_text(runs());
      line("const " + index_ + " first = " + as_index(block_) + " * " + chunk + ";");
      line("const " + index_ + " last = first + " + chunk + " < " + count + " ? first + " + chunk +
           " : " + count + ";");
    }
    const auto print_runs = [&](int braces) {
      for (const ValueId id : phase.run_values) {
        define(id);
        define_inverse(id);
      }
      print_elements(phase);
      const bool by_lanes = stores_lanes(phase), own_rows = by_lanes && row_->threads == 1;
      if (by_lanes && !own_rows) { // all lanes of a warp, also those without a run
        if (row_->guard_run)
          close_runs(1);
        store_lanes(phase);
        braces -= row_->guard_run ? 1 : 0;
      }
      close_runs(braces);
      if (own_rows)
        store_lanes(phase);
      whole_.clear();
    };
    if (const std::vector<ValueId> loads = loads_ahead(phase); !loads.empty())
      print_ahead(phase, loads);
    else
      print_runs(open_runs(position_of(phase)));
    if (row_ && row_->ends_apart)
      print_runs(open_end_runs(position_of(phase)));
    finish_reductions(phase);
  }
  /// A walk whose loads of several runs come before the first is used.
  void print_ahead(const PhasePlan &phase, const std::vector<ValueId> &loads) {
    const int loop = open_ahead_runs();
    for (const ValueId id : loads)
      line(vector_type(id) + " " + vectors_[id] + "[" + std::to_string(ahead()) + "];");
    Position position = nowhere();
    mark(position, loads);
    int braces = open_ahead(position, !phase.stores.empty(), true);
    for (const ValueId id : loads)
      line(vectors_[id] + "[u] = " + run_load(vector_load(id), id) + ";");
    close_runs(braces);
    ahead_.insert(loads.begin(), loads.end());
    braces = open_ahead(position_of(phase), !phase.stores.empty(), false);
    for (const ValueId id : phase.run_values)
      if (ahead_.count(id) == 0)
        define(id);
    print_elements(phase);
    close_runs(braces + loop);
    ahead_.clear();
    whole_.clear();
  }
  /// Whether a phase does with single elements what it must not do outside of the row. What is only
  /// computed there is not taken, and loads can be left out one by one: a selection costs less than
  /// a branch, after which the next element's loads wait.
  bool touches_elements(const PhasePlan &phase) const {
    const auto touches = [&](ValueId id) {
      const Value &value = graph_[id];
      const bool loads = value.op == Op::load && value.args.empty();
      return value.op == Op::set_indirect || (value.buffer != ir::kNone && !is_vector_store(id) &&
                                              !is_by_lanes(plan_, id) && !loads);
    };
    return std::any_of(phase.elements.begin(), phase.elements.end(), touches) ||
           std::any_of(phase.stores.begin(), phase.stores.end(), touches);
  }
  /// Where a run's first element is in the loops that became one.
  void find_joined() {
    if (!plan_.joined)
      return;
    const auto &[variables, sizes, places, first] = *plan_.joined;
    const std::string flat = graph_.element_variables[0].spelling();
    Expr inner = 1;
    for (size_t i = variables.size(); i-- > first;) {
      line("const " + index_ + " " + variables[i].spelling() + "_first = " + quotient(flat, inner) +
           (i > 0 ? " % " + divisor(sizes[i]) : "") + ";");
      inner = inner * sizes[i];
    }
  }
  /// Where its element j is: in the next row, maybe. No run is longer than a row.
  void count_joined() {
    if (!plan_.joined)
      return;
    const auto &[variables, sizes, places, first] = *plan_.joined;
    const size_t last = variables.size() - 1;
    for (size_t i = first; i <= last; ++i) {
      const std::string name = variables[i].spelling();
      line(index_ + " " + name + " = " + name + "_first" + (i == last ? " + j;" : ";"));
    }
    size_t opened = 0;
    for (size_t i = last; i > 0; --i) {
      const std::string name = variables[i].spelling(), size = factor(sizes[i]);
      open(i == last ? "if (" + name + " >= " + size + ")" : "if (" + name + " == " + size + ")");
      ++opened;
      line(i == last ? name + " -= " + size + ";" : name + " = 0;");
      if (i == first)
        break;
      line("++" + variables[i - 1].spelling() + ";");
    }
    while (opened-- > 0)
      close();
  }
  /// Loads the runs of which neighbours' elements are taken.
  void bring(const Neighbours &neighbours) {
    const std::string name =
        bring_runs(graph_[neighbours.members.front().load], vector_, neighbours.runs,
                   neighbours.first + graph_.element_variables.back(), {});
    for (const Neighbour &each : neighbours.members)
      held_[each.load] = element_of_runs(name, "j", each.at, vector_);
  }
  void print_elements(const PhasePlan &phase) {
    for (const ValueId id : phase.stores)
      if (is_by_lanes(plan_, id))
        stage(id, vector_);
      else if (is_vector_store(id) && is_first(id))
        stage(id, width_of(id));
    for (const Interleaved &each : plan_.interleaved) // loads that are the warp's until now
      if (each.across && graph_[each.members.front()].op == Op::load)
        line(vector_name(each.members.front()) + " = tc_take_across(" +
             vector_name(each.members.front()) + ", " + across() + ");");
    for (const Neighbours &each : plan_.neighbours)
      bring(each);
    gather_runs(phase);
    find_joined();
    const bool has_ends = plan_.origin && whole_ != kAlways;
    if (has_ends)
      define_full(phase, whole_.empty() ? "" : lies_inside(), row_element());
    if (vector_ > 1) {
      line("TC_UNROLL");
      open("for (int j = 0; j < " + std::to_string(vector_) + "; ++j)");
    }
    count_joined();
    if (has_ends)
      line("const bool inside = " + (whole_.empty() ? "" : "(" + lies_inside() + ") || ") +
           "tc_is_inside(" + row_element() + " + j, " + size_text(graph_.elements()) + ");");
    const bool branches = has_ends && touches_elements(phase);
    if (branches)
      gather_nothing(phase);
    in_elements_ = true;
    // What elements share of a block of random words they share only where none is skipped.
    const auto is_ahead = [&](ValueId id) { return branches && draws_by_place(graph_[id]); };
    for (const ValueId id : phase.elements)
      if (is_ahead(id))
        define(id);
    if (branches)
      open("if (inside)");
    selects_ = loads_inside_ = has_ends && !branches;
    for (const ValueId id : phase.elements)
      if (!is_ahead(id)) {
        define(id);
        define_inverse(id);
      }
    loads_inside_ = false;
    accumulate(phase);
    for (const ValueId id : phase.stores)
      store_element(id);
    in_elements_ = false;
    if (branches)
      close();
    if (vector_ > 1)
      close();
    accumulate_runs(phase, has_ends);
    for (const ValueId id : phase.stores)
      if (is_by_lanes(plan_, id))
        put_lane(id, staged_at(id));
      else if (is_vector_store(id) && is_first(id))
        store_run(id);
  }
  std::string live(const std::string &statement) const {
    return has_idle_rows()
               ? "if (live)\n" + std::string(static_cast<size_t>(depth_) * 2 + 2, ' ') + statement
               : statement;
  }
  /// The array that a vector store is made of.
  const std::string &staged_at(ValueId id) const {
    const Interleaved *with = interleaved_of(plan_, id);
    return staged_.at(with == nullptr ? id : with->members.front());
  }
  void store_element(ValueId id) {
    const Value &value = graph_[id];
    if (is_vector_store(id) || is_by_lanes(plan_, id))
      line(staged_at(id) + "[" + place_in_access(id, vector_ > 1 ? "j" : "0") +
           "] = " + converted(use(value.args[0]), dtype_of(value.args[0]), value.dtype) + ";");
    else
      line(live(store_text(value)));
  }
  void store_run(ValueId id) {
    if (gives_run_) {
      line("tc_give_run(" + staged_[id] + ", values);");
      return;
    }
    line(live(store_run_text(id, width_of(id))));
  }
  void row_stores() {
    if (plan_.row_stores.empty())
      return;
    if (plan_.row_stores_wait && (row_ || (column_ && !alone())))
      line("TC_BARRIER();");
    std::vector<std::string> conditions;
    if (row_ || (column_ && !alone()))
      conditions.push_back("lane == 0");
    if (has_idle_rows() && !flat_)
      conditions.push_back("live");
    if (flat_ || tile_)
      conditions.push_back(block_ + " == 0 && threadIdx.x == 0");
    std::string condition;
    for (const std::string &part : conditions)
      condition += (condition.empty() ? "" : " && ") + part;
    if (!condition.empty())
      open("if (" + condition + ")");
    for (const ValueId id : plan_.row_stores)
      line(store_text(graph_[id]));
    if (!condition.empty())
      close();
  }
};

/// Sizes of kernels that count in 32 bits are 32-bit numbers: dividing by them costs a fraction.
bool is_narrow(const KernelPlan &plan, const Parameters &parameters, size_t size) {
  const bool wide = plan.wide_index || (plan.otherwise && plan.otherwise->wide_index);
  return !wide && parameters.narrow[size];
}
std::string narrowed_sizes(const KernelPlan &plan, const Parameters &parameters,
                           const std::string &body) {
  std::string lines;
  size_t size = 0;
  for (const program::KernelParameter &parameter : parameters.list)
    if (parameter.kind == program::KernelParameter::Kind::size &&
        is_narrow(plan, parameters, size++) && mentions(body, parameter.name))
      lines +=
          "  const int " + parameter.name + " = static_cast<int>(" + parameter.name + "_64);\n";
  return lines;
}

std::string parameter_list(const KernelPlan &plan, const Parameters &parameters) {
  std::string list;
  size_t pointer = 0, size = 0;
  for (const program::KernelParameter &parameter : parameters.list) {
    if (!list.empty())
      list += ", ";
    if (parameter.kind == program::KernelParameter::Kind::size) {
      list += "long long " + parameter.name + (is_narrow(plan, parameters, size++) ? "_64" : "");
      continue;
    }
    list += pointer_text(parameter.dtype, parameter.is_const, parameters.restricted[pointer++]) +
            parameter.name;
  }
  return list;
}

/// What stands between a kernel's braces, and the types in front of it.
struct KernelBody {
  std::string types;  // structures in shared memory
  std::string shared; // the type of all of it; "" if there is none
  std::string text;
};

/// One of two paths: structures of what it combines, its structure in shared memory, what it does.
struct KernelPath {
  std::string combines, shared, text;
};

/// Blocks of a multiprocessor that registers have to suffice for; 0: as ptxas likes it.
int least_blocks(const KernelPlan &plan) {
  const auto reduces_angles = [](Op op) {
    const ir::OpCost cost = ir::op_cost(op);
    return cost == ir::OpCost::angle || cost == ir::OpCost::series;
  };
  // Of columns one block loads while another waits for the part before.
  if (const auto *row = std::get_if<RowWalk>(&plan.walk);
      row && row->columns && plan.graph.look_back)
    return 2;
  return combines(plan.graph) || any_computes(plan.graph, reduces_angles) ? 1 : plan.resident;
}

/// When the first of a kernel's two paths is taken.
std::string first_path(const KernelPlan &plan) {
  if (!plan.checked.sizes.empty())
    return std::string(kMisaligned) + " == 0";
  const LookBack &parts = *plan.graph.look_back;
  return "static_cast<" + std::string(plan.wide_index ? "long long" : "int") + ">(blockIdx.x) < " +
         symbolic::print_cpp(parts.rows * (parts.parts - 1), plan.graph.ranges);
}

KernelBody print_body(const ir::Module &module, const KernelPlan &plan,
                      const Parameters &parameters, const std::string &name, bool is_part) {
  KernelBody body;
  if (!plan.otherwise) {
    if (std::holds_alternative<WindowWalk>(plan.walk)) {
      const WindowsText windows = print_windows(module, plan, parameters, name, "", is_part);
      body.types = windows.types;
      body.shared = body.types.empty() ? "" : name + "_shared";
      body.text = windows.text;
      body.text = narrowed_sizes(plan, parameters, body.text) + body.text;
      return body;
    }
    const bool has_copies = !plan.block_copies.empty();
    const bool in_turns = has_copies || plan.has_turns();
    Printer printer(module, plan, parameters, name, "", is_part || in_turns);
    body.text = has_copies ? printer.print_with_copies(is_part)
                : in_turns ? printer.print_with_tables(is_part)
                           : printer.print(1);
    body.types = printer.shared_struct();
    body.shared = body.types.empty() ? "" : name + "_shared";
    body.types = printer.combine_structs() + body.types;
    body.text = narrowed_sizes(plan, parameters, body.text) + body.text;
    return body;
  }
  const auto print_path = [&](const KernelPlan &path_plan, const std::string &path) {
    if (std::holds_alternative<WindowWalk>(path_plan.walk)) {
      WindowsText windows = print_windows(module, path_plan, parameters, name, path, is_part);
      return KernelPath{"", std::move(windows.types), std::move(windows.text)};
    }
    Printer printer(module, path_plan, parameters, name, path, is_part);
    std::string text = printer.print(2);
    return KernelPath{printer.combine_structs(), printer.shared_struct(), std::move(text)};
  };
  const KernelPath aligned = print_path(plan, "aligned"),
                   other = print_path(*plan.otherwise, "other");
  const std::string bodies =
      "  if (" + first_path(plan) + ") {\n" + aligned.text + "  } else {\n" + other.text + "  }\n";
  body.types = aligned.shared + other.shared;
  std::string declared;
  if (!body.types.empty()) {
    body.types += "union " + name + "_shared {\n";
    for (const auto &[path, used] :
         {std::pair("aligned", !aligned.shared.empty()), std::pair("other", !other.shared.empty())})
      if (used)
        body.types += "  " + name + "_shared_" + path + " " + path + ";\n";
    body.types += "};\n\n";
    body.shared = name + "_shared";
    if (!is_part)
      declared = "  TC_SMEM(" + name + "_shared, memory);\n";
  }
  body.types = aligned.combines + other.combines + body.types;
  body.text = narrowed_sizes(plan, parameters, bodies) + declared + bodies;
  return body;
}

} // namespace

std::string pointer_text(DType dtype, bool is_const, bool restricted) {
  return (is_const ? "const " : "") + std::string(storage_type(dtype)) + " *" +
         (restricted ? "TC_RESTRICT " : "");
}

std::string kernel_head(int block, const std::string &name, const std::string &parameters,
                        int least_blocks) {
  return "TC_KERNEL void __launch_bounds__(" + std::to_string(block) +
         (least_blocks > 0 ? ", " + std::to_string(least_blocks) : "") + ") " + name + "(" +
         parameters + ") {\n";
}

std::string export_line(const std::string &name, bool has_barriers, bool shared) {
  return "TC_EXPORT(" + name + ", " + (has_barriers ? "TC_HAS_BARRIERS" : "0") +
         (shared ? ", " + name + "_shared" : "") + ")\n";
}

bool mentions(const std::string &body, const std::string &name) {
  const auto in_word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  for (size_t at = body.find(name); at != std::string::npos; at = body.find(name, at + 1)) {
    const size_t end = at + name.size();
    if ((at == 0 || !in_word(body[at - 1])) && (end == body.size() || !in_word(body[end])))
      return true;
  }
  return false;
}

std::string member_type(const program::KernelParameter &parameter) {
  if (parameter.kind == program::KernelParameter::Kind::size)
    return "long long ";
  return (parameter.is_const ? "const " : "") + std::string(storage_type(parameter.dtype)) + " *";
}

Members members_of(const Parameters &parameters, const std::string &body) {
  Members members;
  for (const program::KernelParameter &parameter : parameters.list) {
    if (!mentions(body, parameter.name))
      continue;
    members.declarations += "  " + member_type(parameter) + parameter.name + ";\n";
    members.values += (members.values.empty() ? "" : ", ") + parameter.name;
  }
  return members;
}
std::string print_kernel(const ir::Module &module, const KernelPlan &plan,
                         const Parameters &parameters, const std::string &name) {
  const KernelBody body = print_body(module, plan, parameters, name, false);
  return body.types +
         kernel_head(plan.block, name, parameter_list(plan, parameters), least_blocks(plan)) +
         body.text + "}\n" + export_line(name, plan.has_barriers, !body.shared.empty());
}

PartText print_part(const ir::Module &module, const KernelPlan &plan, const Parameters &parameters,
                    const std::string &name) {
  const KernelBody body = print_body(module, plan, parameters, name, true);
  std::string list = parameter_list(plan, parameters);
  if (!body.shared.empty())
    list += ", " + body.shared + (plan.otherwise ? " &memory" : " &shared");
  return {body.types + "TC_FN void " + name + "(const int block, " + list + ") {\n" + body.text +
              "}\n\n",
          !body.shared.empty()};
}

ValueId copied_load(const KernelPlan &plan) {
  const KernelGraph &graph = plan.graph;
  if (graph.stores.size() != 1)
    return ir::kNone;
  const Value &store = graph[graph.stores[0]];
  ValueId id = store.args[0];
  const auto is_zero = [&](ValueId other) {
    return graph[other].op == Op::constant && is_positive_zero(graph[other].constant);
  };
  // where(mask, load under that mask, 0)
  if (graph[id].op == Op::where && is_zero(graph[id].args[2])) {
    const ValueId mask = graph[id].args[0];
    id = graph[id].args[1];
    if (graph[id].guard != mask)
      return ir::kNone;
  }
  const Value &load = graph[id];
  const bool whole = load.op == Op::load && load.dtype == store.dtype && load.args.empty() &&
                     plan.access[id] == Access::vector;
  return whole ? id : ir::kNone;
}

std::string print_product_run(const ir::Module &module, const KernelPlan &plan,
                              const Parameters &parameters, RunUse use,
                              std::vector<AheadLoad> *ahead, Expr row) {
  return Printer(module, plan, parameters, "", "", false).print_run(use, ahead, row);
}

} // namespace tsc::codegen
