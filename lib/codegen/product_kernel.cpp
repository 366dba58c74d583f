#include "codegen/product_kernel.h"

#include "codegen/expression.h"
#include "codegen/halo_kernel.h"
#include "codegen/matrix_loops.h"
#include "codegen/operand_text.h"
#include "codegen/plan_steps.h"
#include "codegen/product_results.h"
#include "codegen/window_map.h"
#include "scheduler/cost.h"
#include "support/diagnostic.h"
#include "templates/product/tc_product_geometry.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace tsc::codegen {

namespace {

using ir::Op;
using support::require;
using symbolic::SymbolSort;

class ProductBuilder {
public:
  ProductBuilder(const ir::Module &module, const scheduler::Schedule &schedule,
                 const scheduler::Group &group, const target::Target &target, bool with_halo = true)
      : with_halo_(with_halo), module_(module), schedule_(schedule), group_(group), target_(target),
        parts_(*group.parts), operation_(module.operations[schedule.nodes[parts_.root].operation]),
        call_(std::get<ir::Extern>(operation_.kind)), out_(operation_.outputs[0]),
        factors_(call_.inputs[0].dtype),
        element_bytes_(static_cast<int>(tensor::size_in_bytes(factors_))),
        word_(tc_product_word_of(element_bytes_)), tile_(parts_.candidate) {
    tile_.pair = tile_.pair && is_mapped(1); // bulk copies alone reach two blocks
    if (!is_mapped(1))
      tile_.products = 1;
  }

  BuiltKernel build() {
    plan_after();
    if (parts_.few)
      plan_right();
    if (parts_.prologue)
      plan_before();
    if (!windows_)
      tile_.products = 1;
    find_inplace();
    find_parameters();
    BuiltKernel built;
    built.inplace = inplace_;
    program::Kernel &kernel = built.kernel;
    kernel.parameters = parameters_.list;
    count_bytes(kernel);
    if (right_) {
      plan_few(built);
      return built;
    }
    const scheduler::ProductTile &tile = tile_;
    kernel.plan = "product, " + plan_words();
    const auto variant = [&](int threads) {
      program::KernelVariant result;
      result.text = print(threads);
      const auto tiles_of = [&](int rows) {
        const Expr ends = sections() > 0 ? symbolic::minimum(parts_.rows, Expr(sections())) : 0;
        return (symbolic::ceil_div(parts_.batches, Expr(tile.products)) *
                    symbolic::ceil_div(parts_.rows, Expr(rows)) +
                ends) *
               symbolic::ceil_div(Expr(parts_.columns), Expr(tile.columns));
      };
      const auto at_most = [](Expr blocks, int64_t most) {
        return symbolic::minimum(blocks, Expr(most));
      };
      const Expr tiles = tiles_of(tile.rows);
      result.grid = {tile.splits > 1 ? tiles * Expr(tile.splits)
                     : tile.pair
                         ? Expr(2) * at_most(tiles_of(2 * tile.rows), target_.multiprocessors / 2)
                     : tile.groups ? at_most(tiles, target_.multiprocessors)
                                   : tiles,
                     Expr(1), Expr(1)};
      result.block = {threads, 1, 1};
      return result;
    };
    kernel.cuda = variant(threads());
    kernel.cuda.shared_bytes = Expr(scheduler::shared_bytes(tile) +
                                    tc_product_section_bytes(static_cast<int>(sections())));
    if (halo_) {
      kernel.cuda.grid = grid_of(*halo_, *windows_, target_);
      kernel.cuda.shared_bytes = Expr(scheduler::shared_bytes(halo_->work, halo_->tile));
    }
    for (const size_t side : {0, 1})
      if (is_mapped(side))
        kernel.cuda.maps.push_back(map_of(side));
    kernel.serial = variant(1);
    std::vector<std::string_view> includes = {halo_         ? "tc_product_halo.h"
                                              : tile.groups ? "tc_product_groups.h"
                                                            : "tc_product.h"};
    include_functions(after_.graph, includes);
    include_functions(before_.graph, includes);
    finish_kernel(built, origins_of(module_, schedule_, group_), "product, tile by tile", includes);
    built.pointers = parameters_.storages;
    built.sizes = parameters_.sizes;
    return built;
  }

private:
  bool with_halo_; // where windows allow it and it is faster
  const ir::Module &module_;
  const scheduler::Schedule &schedule_;
  const scheduler::Group &group_;
  const target::Target &target_;
  const scheduler::TemplateParts &parts_;
  const ir::Operation &operation_;
  const ir::Extern &call_;
  BufferId out_;
  DType factors_;            // of operands; results may be wider
  int element_bytes_, word_; // of operands: elements of 16 bytes
  scheduler::ProductTile tile_;
  const Expr row_ = symbolic::symbol(SymbolSort::matrix_row),
             column_ = symbolic::symbol(SymbolSort::matrix_column),
             term_ = symbolic::symbol(SymbolSort::matrix_term);
  KernelPlan after_, before_;
  std::optional<OperandText> right_; // computed as it is read
  scheduler::FewChoice few_;
  /// The left operand is windows that bulk copies bring, and in whose memory.
  std::optional<WindowMap> windows_;
  BufferId windows_from_ = ir::kNone;
  /// What windows slide over comes once and stays for all taps.
  std::optional<HaloPlan> halo_;
  /// Of the left operand 128 bytes of terms lie together, or are zeros.
  bool whole_lines_ = false;
  int row_run_ = 0; // results are finished in runs of so many rows (parts_.along_rows)
  RowParts row_parts_{row_, term_};
  Parameters parameters_;
  std::vector<std::pair<BufferId, BufferId>> inplace_; // as in BuiltKernel

  /// Threads multiply, not matrix units.
  bool by_threads() const { return element_bytes_ == 4 && !parts_.by_tf32; }
  int threads() const {
    if (tile_.groups)
      return tc_product_all_threads;
    return by_threads() ? tc_product_float_threads : tc_product_threads;
  }
  /// Of rows, each with a matrix of its own; 0: they share it.
  int64_t sections() const { return parts_.sections; }
  bool is_batch() const { return !parts_.batches.is_integer(1); }
  /// Of results: those of all products, one below the other.
  Expr all_rows() const { return parts_.batches * parts_.rows; }
  /// In the kernel's text, an int.
  std::string integer(Expr e) const {
    return e.is_integer() ? symbolic::print(e)
                          : "static_cast<int>(" + symbolic::print_cpp(e, module_.ranges) + ")";
  }

  // ---- plans

  std::string plan_words() const {
    const scheduler::ProductTile &tile = tile_;
    const std::string finished =
        row_run_ > 0        ? ", results finished in runs of " + std::to_string(row_run_) + " rows"
        : parts_.along_rows ? ", results finished along the rows"
        : run() == 1        ? ", results finished one by one"
                            : "";
    if (halo_)
      return words_of(*halo_, windows_->kernel.size()) + finished;
    return std::to_string(tile.rows) + " x " + std::to_string(tile.columns) +
           (tile.turns
                ? " results at a time, groups of warps that multiply in turns and one that brings, "
            : tile.groups
                ? " results at a time, groups of warps that multiply and one that brings, "
                : " results a block, ") +
           std::to_string(tile.stages) + " steps of " +
           std::to_string(tc_product_terms_of(element_bytes_)) + " terms in shared memory" +
           (is_batch() ? ", " + symbolic::print(parts_.batches) + " products" : "") +
           (tile.products > 1 ? ", " + std::to_string(tile.products) + " beside each other" : "") +
           (sections() > 0 ? ", rows in " + std::to_string(sections()) + " sections" : "") +
           finished +
           (tile.splits > 1 ? ", " + std::to_string(tile.splits) + " blocks share the terms" : "") +
           (tile.pair ? ", pairs of blocks bring columns for each other" : "") +
           (parts_.by_tf32 ? ", factors rounded to TF32" : "") +
           (windows_          ? ", windows brought tap by tap"
            : parts_.prologue ? ", left operand read where it comes from"
                              : "");
  }
  /// The members' loops alone, what the product shares with them being memory.
  KernelGraph graph_of(const scheduler::Group &part, BufferId shared) const {
    scheduler::Group apart = part;
    for (const BufferId id : group_.internal_buffers)
      if (id != shared)
        apart.internal_buffers.push_back(id);
    return build_kernel_graph(module_, apart, {.two_pass_statistics = true});
  }
  void plan_runs(KernelPlan &plan, int run) {
    ProductWalk walk;
    walk.vector = run;
    plan.walk = walk;
    classify_accesses(module_, plan, run);
    if (row_run_ > 0) // results come in the runs that are wanted
      for (ValueId id = 0; id < plan.graph.values.size(); ++id)
        if (is_result(plan.graph[id]))
          plan.access[id] = Access::vector;
    fill_phases(module_, plan, group_, true);
    plan.wide_index = needs_wide_index(plan.graph);
    plan.block = by_threads() ? tc_product_float_threads : tc_product_threads;
    choose_divisions(plan);
    plan.quick = quick_functions(module_, plan.graph);
    require(plan.phases.size() == 1, "codegen", "a product's neighbour reduces");
  }
  void plan_after(bool may_have_row_runs = true) {
    KernelGraph graph = parts_.epilogue ? graph_of(*parts_.epilogue, out_)
                                        : stored_results(module_, out_, all_rows(), parts_.columns);
    after_.graph =
        with_results(module_, call_, out_,
                     over_matrix(std::move(graph), row_, column_, all_rows(), parts_.columns),
                     place_of_results());
    row_run_ = 0;
    if (may_have_row_runs && parts_.along_rows && tile_.groups && tile_.products == 1)
      for (int run = tc_product_run; run >= tc_product_short_run && row_run_ == 0; run /= 2)
        if (has_row_runs(after_.graph, run))
          row_run_ = run;
    if (row_run_ > 0)
      turn(after_.graph);
    plan_runs(after_, run());
    for (ValueId id = 0; id < after_.graph.values.size(); ++id)
      if (is_result(after_.graph[id])) {
        require(run() == 1 || after_.access[id] == Access::vector, "codegen",
                "a product's results are not read in runs");
        after_.result = id;
      }
  }
  /// Columns go around rows.
  static void turn(KernelGraph &graph) {
    std::reverse(graph.element_variables.begin(), graph.element_variables.end());
    std::reverse(graph.element_sizes.begin(), graph.element_sizes.end());
  }
  /// Whether all that is stored lies in runs of so many rows, whichever multiple they begin at.
  bool has_row_runs(KernelGraph graph, int run) const {
    turn(graph);
    KernelPlan plan;
    plan.graph = std::move(graph);
    classify_accesses(module_, plan, run);
    return symbolic::known_multiple_of(parts_.rows, run, module_.ranges) &&
           std::all_of(plan.graph.stores.begin(), plan.graph.stores.end(),
                       [&](ValueId store) { return plan.access[store] == Access::vector; });
  }
  /// Neighbouring results that are finished at once: of a row, or of a column.
  int run() const { return row_run_ > 0 ? row_run_ : parts_.run; }
  void plan_before() {
    KernelGraph graph = graph_of(*parts_.prologue, call_.inputs[0].buffer);
    if (is_batch())
      take_first(graph, parts_.batches);
    before_.graph = over_matrix(std::move(graph), row_, term_, parts_.rows, parts_.terms);
    const KernelGraph plain = before_.graph; // without row parts
    for (Value &value : before_.graph.values)
      value.index = row_parts_.without(value.index, before_.graph.ranges);
    plan_runs(before_, word_);
    const int line = tc_product_terms_of(element_bytes_);
    KernelPlan lines = before_;
    classify_accesses(module_, lines, line);
    whole_lines_ = parts_.terms % line == 0 && copied_load(lines) != ir::kNone;
    const scheduler::NodeId producer = parts_.prologue->members.front();
    const ir::Windows *noted =
        module_.windows_of(module_.operations[schedule_.nodes[producer].operation]);
    const ValueId load = copied_load(before_);
    if (!tile_.groups || noted == nullptr || load == ir::kNone)
      return;
    if (noted->batch * symbolic::numel(noted->positions) != parts_.rows)
      return;
    const GroupsOfChannels groups = {parts_.batches.as_integer().value_or(0), parts_.prologue_step,
                                     tile_.products};
    windows_ = window_map(*noted, groups, plain, load, factors_, row_, term_, tile_.rows);
    windows_from_ = module_.storage_of(plain[load].buffer);
    if (windows_ && with_halo_)
      choose_halo();
    if (windows_ && windows_->parts == 0 && !halo_)
      windows_.reset(); // threads bring them
  }
  void choose_halo() {
    if (element_bytes_ != 2 || is_batch() || sections() > 0 || right_ || !is_deep(1) ||
        !is_mapped(1))
      return;
    scheduler::HaloWork work;
    work.columns = parts_.columns;
    work.bytes = halo_bytes();
    work.instructions = parts_.instructions;
    work.along_rows = parts_.along_rows;
    work.row_runs = row_run_ == tc_product_run;
    halo_ = plan_halo(module_, target_, *windows_, work, tile_);
    if (!halo_)
      return;
    tile_.pair = tile_.turns = false; // as threads alone compute it
    tile_.splits = 1;
    if (row_run_ > 0 && !halo_->work.row_runs) // they would go on in another row of positions
      plan_after(false);
  }
  /// That pass through memory where what windows slide over is read once.
  int64_t halo_bytes() const {
    std::set<BufferId> storages = {windows_from_, module_.storage_of(call_.inputs[1].buffer)};
    for (const Value &value : after_.graph.values)
      if ((value.op == Op::load || value.op == Op::store) && !is_result(value))
        storages.insert(module_.storage_of(value.buffer));
    int64_t bytes = 0;
    for (const BufferId id : storages)
      bytes += likely(module_, module_.buffer(id).layout.storage_size()).value_or(0) *
               static_cast<int64_t>(tensor::size_in_bytes(module_.buffer(id).dtype));
    return bytes;
  }
  void plan_right() {
    const KernelGraph graph = parts_.right
                                  ? over_matrix(graph_of(*parts_.right, call_.inputs[1].buffer),
                                                column_, term_, Expr(parts_.columns), parts_.terms)
                                  : moved_operand(module_, call_.inputs[1], column_, term_);
    for (const int words : {8, 4, 2, 1, 0}) { // as many as shared memory has room for
      right_ = OperandText::make(module_, graph, {column_}, term_, parts_.terms, words);
      require(right_.has_value(), "codegen", "a product's right operand is not read in runs");
      few_ = scheduler::few_choice(target_, few_work(), right_->run(), right_->words());
      if (few_.nanoseconds > 0)
        return;
    }
    require(false, "codegen", "no tile of few rows fits " + target_.name);
  }
  scheduler::FewWork few_work() const {
    double bytes = 0;
    for (const Value &value : right_->graph().values)
      if (value.op == Op::load)
        bytes = std::max(
            bytes,
            static_cast<double>(
                likely(module_, module_.buffer(value.buffer).layout.storage_size()).value_or(0)) *
                static_cast<double>(tensor::size_in_bytes(module_.buffer(value.buffer).dtype)));
    scheduler::FewWork work{
        parts_.rows.as_integer().value_or(symbolic::bounds(parts_.rows, module_.ranges).high),
        parts_.columns, parts_.terms, bytes / static_cast<double>(parts_.columns * parts_.terms)};
    work.weight_instructions = right_->instructions();
    return work;
  }
  bool is_result(const Value &value) const { return reads_results(module_, value, out_); }

  /// Of a result: product of a batch, row and column.
  std::array<Expr, 3> place_of_results() const {
    return {symbolic::floor_div(row_, parts_.rows),
            is_batch() ? symbolic::mod(row_, parts_.rows) : row_, column_};
  }

  // ---- parameters

  /// Runs of results may be stored over the runs that they are computed from.
  void find_inplace() {
    for (const auto &pair : group_.inplace)
      if (same_elements(module_, after_.graph, pair.first, pair.second))
        inplace_.push_back(pair);
  }
  bool shares_memory(BufferId storage) const {
    return std::any_of(inplace_.begin(), inplace_.end(), [&](const auto &pair) {
      return module_.storage_of(pair.first) == storage ||
             module_.storage_of(pair.second) == storage;
    });
  }
  void add_pointer(std::vector<BufferId> &list, BufferId storage) const {
    if (std::find(list.begin(), list.end(), storage) == list.end())
      list.push_back(storage);
  }
  void find_parameters() {
    std::vector<BufferId> read, written;
    const auto add_graph = [&](const KernelGraph &graph) {
      for (const Value &value : graph.values)
        if (value.op == Op::store && !is_operand(value))
          add_pointer(written, module_.storage_of(value.buffer));
        else if (value.op == Op::load && !is_result(value))
          add_pointer(read, module_.storage_of(value.buffer));
    };
    if (parts_.prologue)
      add_graph(before_.graph);
    else
      add_pointer(read, module_.storage_of(call_.inputs[0].buffer));
    if (right_)
      add_graph(right_->graph());
    else
      add_pointer(read, module_.storage_of(call_.inputs[1].buffer));
    if (sections() > 0)
      add_pointer(read, module_.storage_of(call_.inputs[2].buffer));
    add_graph(after_.graph);
    const auto push = [&](BufferId storage, const std::string &name, bool is_const) {
      parameters_.list.push_back(
          {program::KernelParameter::Kind::pointer, name, module_.buffer(storage).dtype, is_const});
      parameters_.storages.push_back(storage);
      parameters_.restricted.push_back(!shares_memory(storage));
    };
    size_t inputs = 0, outputs = 0;
    for (const BufferId storage : read)
      if (std::find(written.begin(), written.end(), storage) == written.end())
        push(storage, "in" + std::to_string(inputs++), true);
    for (const BufferId storage : written)
      push(storage, "out" + std::to_string(outputs++), false);
    std::set<Expr, symbolic::ExprLess> symbols;
    const auto add_symbols = [&](Expr e) {
      for (const Expr symbol : symbolic::free_symbols(e))
        if (const SymbolSort sort = symbol.sort(); sort == SymbolSort::size ||
                                                   sort == SymbolSort::data ||
                                                   sort == SymbolSort::computed_size)
          symbols.insert(symbol);
    };
    std::vector<const KernelGraph *> graphs = {&before_.graph, &after_.graph};
    if (right_)
      graphs.push_back(&right_->graph());
    for (const KernelGraph *graph : graphs)
      for (const Value &value : graph->values) {
        add_symbols(value.index);
        add_symbols(value.extent);
      }
    for (const RowParts::Part &part : row_parts_.list())
      add_symbols(part.value);
    for (const Expr e : {parts_.rows, parts_.batches, batch_stride(0), batch_stride(1)})
      add_symbols(e);
    if (windows_)
      std::for_each(windows_->positions.begin(), windows_->positions.end(), add_symbols);
    if (halo_)
      add_symbols(windows_->map.sizes.back());
    for (const Expr symbol : symbols) {
      parameters_.list.push_back(
          {program::KernelParameter::Kind::size, symbol.spelling(), DType::i64, true});
      parameters_.sizes.push_back(symbol);
    }
  }
  /// The store of an operand that is computed as it is read.
  bool is_operand(const Value &value) const {
    const auto stores = [&](size_t side) {
      return module_.storage_of(value.buffer) == module_.storage_of(call_.inputs[side].buffer);
    };
    return (parts_.prologue && stores(0)) || (parts_.few && stores(1));
  }

  // ---- few rows

  void plan_few(BuiltKernel &built) {
    program::Kernel &kernel = built.kernel;
    const scheduler::FewTile &tile = few_.tile;
    const int64_t rows = tc_few_rows_of(tile.row_tiles),
                  columns = tc_few_rows_columns_of(tile.column_tiles, tile.across);
    kernel.plan =
        "product of few rows, " + std::to_string(rows) + " x " + std::to_string(columns) +
        " results a block, " + (parts_.right ? "right operand computed as it is read, " : "") +
        std::to_string(right_->run()) + " terms at once" +
        (tile.splits > 1 ? ", " + std::to_string(tile.splits) + " blocks share the terms" : "");
    tile_.rows = static_cast<int>(rows);
    const auto variant = [&](int threads) {
      program::KernelVariant result;
      result.text = print_few(tile, threads);
      result.grid = {Expr((parts_.columns + columns - 1) / columns * tile.splits),
                     symbolic::ceil_div(parts_.rows, Expr(rows)), Expr(1)};
      result.block = {threads, 1, 1};
      return result;
    };
    kernel.cuda = variant(tc_few_rows_threads);
    kernel.cuda.shared_bytes = Expr(static_cast<int64_t>(tc_few_rows_bytes(
        tile.row_tiles, tile.column_tiles, tile.across, tile.splits, static_cast<int>(parts_.terms),
        right_->run(), right_->words(), tile.single)));
    kernel.cuda.maps.push_back(map_of(0));
    kernel.serial = variant(1);
    std::vector<std::string_view> includes = {"tc_product_few.h"};
    include_functions(after_.graph, includes);
    include_functions(right_->graph(), includes);
    finish_kernel(built, origins_of(module_, schedule_, group_), "product, tile by tile", includes);
    built.pointers = parameters_.storages;
    built.sizes = parameters_.sizes;
  }
  std::string print_few(const scheduler::FewTile &tile, int threads) {
    const std::string name(kKernelPlaceholder),
        right = right_->print(module_, parameters_, factors_);
    const Members members = members_of(right);
    std::vector<AheadLoad> loads;
    Members after;
    const std::string finish = finish_struct(name, nullptr, after),
                      shape = std::to_string(tile.row_tiles) + ", " +
                              std::to_string(tile.column_tiles) + ", " +
                              std::to_string(tile.across);
    std::string text =
        "struct " + name + "_right {\n" + members.declarations + right + "};\n\n" + finish +
        "TC_KERNEL void __launch_bounds__(" + std::to_string(threads) +
        (threads > 1 ? ", " + std::to_string(tile.blocks) : "") + ") " +
        (threads > 1 && tile.splits > 1 ? "TC_CLUSTER(" + std::to_string(tile.splits) + ") " : "") +
        name + "(" + parameter_list() +
        (threads > 1 ? std::string(", TC_TENSOR_MAP ") + kMapNames[0] : "") + ") {\n" +
        operand("left", 0, threads > 1) + "  const " + name + "_right right = {" + members.values +
        "};\n  const " + name + "_finish finish = {" + after.values +
        "};\n  tc_product_of_few<tc_few_rows_tile<" + shape + ", " + std::to_string(tile.splits) +
        ", " + std::to_string(parts_.terms) + (tile.single ? ", true" : ", false") + ">, " +
        type() + ">(left, right, finish, " + integer(parts_.rows) + ", " +
        std::to_string(parts_.columns) + ", " + std::to_string(parts_.terms) + ");\n}\n";
    return text + "TC_EXPORT(" + name + ", " + (threads > 1 ? "TC_HAS_BARRIERS" : "0") + ")\n";
  }

  void count_bytes(program::Kernel &kernel) const {
    const auto bytes = [&](BufferId id) {
      const ir::Buffer &buffer = module_.buffer(id);
      return buffer.layout.storage_size() *
             Expr(static_cast<int64_t>(tensor::size_in_bytes(buffer.dtype)));
    };
    kernel.bytes_read = 0;
    kernel.bytes_written = 0;
    for (size_t i = 0; i < parameters_.storages.size(); ++i)
      (parameters_.list[i].is_const ? kernel.bytes_read : kernel.bytes_written) +=
          bytes(parameters_.storages[i]);
  }

  // ---- text

  /// How it is multiplied: the elements' type, or that of what they are rounded to.
  std::string factors() const { return parts_.by_tf32 ? "tc_tf32" : type(); }
  std::string type() const { return std::string(storage_type(factors_)); }
  Members members_of(const std::string &body) const {
    return codegen::members_of(parameters_, body);
  }

  /// The function that results go to; `loads`: null, or what it loads before it has them.
  std::string finish_struct(const std::string &name, std::vector<AheadLoad> *loads,
                            Members &after) const {
    const std::string finish =
        print_product_run(module_, after_, parameters_, RunUse::stored, loads, row_);
    std::string loaded[2], members[2]; // of a row, of all rows
    int bytes[2] = {0, 0};
    for (const AheadLoad &load : loads ? *loads : std::vector<AheadLoad>()) {
      loaded[load.is_along] += (loaded[load.is_along].empty() ? "" : ", ") + load.load;
      members[load.is_along] += "    " + load.type + " " + load.name + ";\n";
      bytes[load.is_along] += load.bytes;
    }
    after = members_of(finish + loaded[0] + loaded[1]);
    const bool is_ahead = bytes[0] + bytes[1] > 0;
    const std::string run = std::to_string(this->run());
    const bool wide = after_.wide_index; // places in memory, which rows are multiplied to
    const std::string results = std::string(wide ? "(long long" : "(int") +
                                " row, int column, const float (&results)[" + run + "]";
    std::string text =
        "struct " + name + "_finish {\n" + after.declarations +
        "  static constexpr int run = " + run +
        ";\n  static constexpr bool heavy = " + (is_heavy(after_.graph) ? "true" : "false") +
        (parts_.along_rows ? ", along_rows = true" : ", along_rows = false");
    if (loads)
      text += std::string(", loads_ahead = ") + (is_ahead ? "true" : "false");
    text += ";\n";
    if (is_ahead)
      text += "  static constexpr int ahead_bytes = " + std::to_string(bytes[0]) +
              ", along_bytes = " + std::to_string(bytes[1]) + ";\n  struct of_row {\n" +
              members[0] + "  };\n  struct of_all_rows {\n" + members[1] +
              "  };\n  TC_MEMBER of_row load_ahead(" + (wide ? "long long" : "int") +
              " row, int column) const {\n    return {" + loaded[0] +
              "};\n  }\n  TC_MEMBER of_all_rows load_along(int column) const {\n    return {" +
              loaded[1] + "};\n  }\n  TC_MEMBER void operator()" + results +
              ") const {\n    (*this)(row, column, results, load_ahead(row, column), "
              "load_along(column));\n  }\n";
    return text + "  TC_MEMBER void operator()" + results +
           (is_ahead ? ", const of_row &ahead, const of_all_rows &along" : "") + ") const {\n" +
           finish + "  }\n};\n\n";
  }
  std::string parameter_list() const {
    std::string list;
    for (size_t i = 0; i < parameters_.list.size(); ++i)
      list +=
          (list.empty() ? "" : ", ") + member_type(parameters_.list[i]) +
          (i < parameters_.restricted.size() && parameters_.restricted[i] ? "TC_RESTRICT " : "") +
          parameters_.list[i].name;
    return list;
  }

  std::string print(int threads) {
    const std::string name(kKernelPlaceholder);
    const scheduler::ProductTile &tile = tile_;
    std::string text, left;
    if (parts_.prologue)
      text += left_struct(name, threads > 1, left);
    else
      left = operand("left", 0, threads > 1);
    std::vector<AheadLoad> loads;
    Members after;
    text += finish_struct(name, threads > 1 && tile.groups ? &loads : nullptr, after);
    std::string list = parameter_list();
    if (threads > 1)
      for (const size_t side : {0, 1})
        if (is_mapped(side))
          list += std::string(", TC_TENSOR_MAP ") + kMapNames[side];
    const int cluster = tile.pair ? 2 : tile.splits;
    text += "TC_KERNEL void __launch_bounds__(" + std::to_string(threads) +
            (threads > 1 ? ", " + std::to_string(tile.blocks) : "") + ") " +
            (threads > 1 && cluster > 1 ? "TC_CLUSTER(" + std::to_string(cluster) + ") " : "") +
            name + "(" + list + ") {\n" + left + operand("right", 1, threads > 1) + "  const " +
            name + "_finish finish = {" + after.values + "};\n";
    const std::string shape = std::to_string(tile.rows) + ", " + std::to_string(tile.columns) +
                              ", " + std::to_string(tile.stages);
    if (threads > 1 && halo_)
      return text + tile_text(*halo_) + "  tc_product_by_halo<tile, " + factors() +
             ">(left, right, finish, " + integer(parts_.rows) + ", " +
             std::to_string(parts_.columns) + ", " + std::to_string(parts_.terms) +
             ");\n}\nTC_EXPORT(" + name + ", 0)\n";
    if (threads > 1)
      text += std::string("  static_assert(") +
              (tile.groups    ? "tc_product_all_threads"
               : by_threads() ? "tc_product_float_threads"
                              : "tc_product_threads") +
              " == " + std::to_string(threads) + " && " +
              (tile.groups ? "tc_product_group_bytes(" : "tc_product_shared_bytes(") + shape +
              ") == " + std::to_string(scheduler::shared_bytes(tile)) +
              ", \"as the launch has it\");\n";
    text += std::string("  ") +
            (sections() > 0 ? "tc_product_in_sections"
             : tile.groups  ? "tc_product_by_groups"
                            : "tc_product") +
            "<tc_product_tile<" + shape + ", " + std::to_string(tile.lag) +
            (tile.splits > 1 || tile.turns || tile.pair || tile.products > 1
                 ? ", " + std::to_string(tile.splits)
                 : "") +
            (tile.turns                       ? ", true"
             : tile.pair || tile.products > 1 ? ", false"
                                              : "") +
            (tile.pair           ? ", true"
             : tile.products > 1 ? ", false, " + std::to_string(tile.products) + ", " +
                                       std::to_string(parts_.columns)
                                 : "") +
            ">, " + factors() + ">(left, right, finish, " +
            (sections() > 0 ? at_offset(2) + ", " + std::to_string(sections()) + ", " : "") +
            integer(parts_.rows) + ", " + std::to_string(parts_.columns) + ", " +
            std::to_string(parts_.terms) + (is_batch() ? ", " + integer(parts_.batches) : "") +
            ");\n}\n";
    return text + "TC_EXPORT(" + name + ", 0)\n";
  }

  static constexpr const char *kMapNames[] = {"left_map", "right_map"};
  /// Elements are neighbours along the terms; a dimension of size 1 has any stride, then runs lie
  /// along the other.
  bool is_deep(size_t side) const { return stride(side, 1 - side).is_integer(1); }
  Expr line_stride(size_t side) const { return stride(side, is_deep(side) ? side : 1 - side); }
  /// Of the matrix, along its rows or its columns.
  Expr stride(size_t side, size_t dimension) const {
    const tensor::Layout &layout = call_.inputs[side].layout;
    return layout.strides[layout.rank() - 2 + dimension];
  }
  /// From one product's matrix to the next one's; 0: all have the same one.
  Expr batch_stride(size_t side) const {
    return is_batch() || (side == 1 && sections() > 0) ? call_.inputs[side].layout.strides[0]
                                                       : Expr(0);
  }
  Expr extent(size_t side) const { return side == 0 ? parts_.rows : Expr(parts_.columns); }
  /// Elements that lie beside each other; known.
  int64_t line_size(size_t side) const {
    return is_deep(side) ? parts_.terms : extent(side).value();
  }
  /// Whether bulk copies bring the operand: it lies in memory as a matrix whose lines do not
  /// overlap.
  bool is_mapped(size_t side) const {
    if (right_)
      return side == 0;
    if (side == 0 && parts_.prologue)
      return windows_.has_value();
    const auto stride = line_stride(side).as_integer();
    return tile_.groups && stride && *stride >= line_size(side);
  }
  uint32_t parameter_of(BufferId storage) const {
    const auto found = std::find(parameters_.storages.begin(), parameters_.storages.end(), storage);
    return static_cast<uint32_t>(found - parameters_.storages.begin());
  }
  program::TensorMap map_of(size_t side) const {
    if (side == 0 && windows_) {
      program::TensorMap map = halo_ ? map_of_inputs(*halo_, *windows_) : windows_->map;
      map.tf32 = parts_.by_tf32;
      map.parameter = parameter_of(windows_from_);
      return map;
    }
    const ir::BufferView &view = call_.inputs[side];
    const int tile = side == 0 ? tile_.rows : tile_.columns;
    const int line = tc_product_terms_of(element_bytes_);
    program::TensorMap map;
    map.parameter = parameter_of(module_.storage_of(view.buffer));
    map.offset = view.layout.offset;
    map.tf32 = parts_.by_tf32;
    map.strides = {Expr(1),
                   right_ && extent(0).is_integer(1) ? Expr(parts_.terms) : line_stride(side)};
    if (is_deep(side)) {
      map.sizes = {Expr(parts_.terms), extent(side)};
      map.box = {line, side == 1 && tile_.pair ? tile / 2 : tile};
      if (side == 1 && tile_.products > 1)
        map.box = {line / tile_.products, static_cast<int>(parts_.columns)};
    } else {
      map.sizes = {extent(side), Expr(parts_.terms)};
      map.box = {line, line};
    }
    if (halo_)
      return map_of_weights(*halo_, std::move(map));
    if (!batch_stride(side).is_integer(0)) {
      map.sizes.push_back(sections() > 0 ? Expr(sections()) : parts_.batches);
      map.strides.push_back(batch_stride(side));
      map.box.push_back(side == 1 ? tile_.products : 1);
    }
    return map;
  }
  /// Where an input's first element is.
  std::string at_offset(size_t input) const {
    const ir::BufferView &view = call_.inputs[input];
    const Expr offset = view.layout.offset;
    return parameters_.name_of(module_.storage_of(view.buffer)) +
           (offset.is_integer(0) ? "" : " + " + symbolic::print(offset));
  }
  /// `side` 0: [rows, terms]; 1: [terms, columns].
  std::string operand(const std::string &name, size_t side, bool for_cuda) const {
    std::string type =
        std::string(is_deep(side) ? "tc_deep_operand<" : "tc_flat_operand<") + this->type() + ">";
    std::string values = "{" + at_offset(side) + ", " + symbolic::print(line_stride(side)) + ", " +
                         integer(extent(side)) + ", " + std::to_string(parts_.terms) + "}";
    if (!batch_stride(side).is_integer(0)) {
      type = "tc_batched_operand<" + type + ">";
      values = "{" + values + ", " + symbolic::print_cpp(batch_stride(side), module_.ranges) + "}";
    }
    if (for_cuda && is_mapped(side))
      return "  const tc_mapped_operand<" + type + "> " + name + " = {" + values + ", &" +
             kMapNames[side] + "};\n";
    return "  const " + type + " " + name + " = " + values + ";\n";
  }

  /// The operand that is computed as it is read; `made`: the line that makes one.
  std::string left_struct(const std::string &name, bool for_cuda, std::string &made) const {
    const bool copied = is_copied();
    const std::string run =
        print_product_run(module_, before_, parameters_, copied ? RunUse::copied : RunUse::operand);
    std::string place, found, taken;
    for (const RowParts::Part &part : row_parts_.list()) {
      place += "    int " + part.symbol.spelling() + ";\n";
      found += symbolic::print_cpp(part.value, before_.graph.ranges) + ", ";
      taken +=
          "    const int " + part.symbol.spelling() + " = place." + part.symbol.spelling() + ";\n";
    }
    if (mentions(run, "row")) {
      place += before_.wide_index ? "    long long row;\n" : "    int row;\n";
      found += "row, ";
      taken += std::string("    const ") + (before_.wide_index ? "long long" : "int") +
               " row = place.row;\n";
    }
    const std::string outside = "!place.inside || term >= " + std::to_string(parts_.terms);
    const std::string rows = symbolic::print_cpp(parts_.rows, module_.ranges);
    const Members members = members_of(run + found + rows);
    std::string text =
        "struct " + name + "_left {\n" + members.declarations +
        "  static constexpr bool deep = true, copied = " + (copied ? "true" : "false") +
        ", whole_lines = " + (whole_lines_ ? "true" : "false") +
        ";\n  static constexpr int terms = " + std::to_string(parts_.terms) +
        ";\n  struct place {\n" + place +
        "    bool inside;\n  };\n  TC_MEMBER place at(int row) const {\n    return {" + found +
        "row < " + rows + "};\n  }\n";
    if (is_batch()) {
      const auto &values = before_.graph.values; // of a copy, one of which is a load
      const auto load = std::find_if(values.begin(), values.end(),
                                     [](const Value &value) { return value.op == Op::load; });
      require(load != values.end(), "codegen", "left operands of a batch are no copies");
      const std::string from = parameters_.name_of(module_.storage_of(load->buffer));
      text += "  TC_MEMBER void move(long long elements) { " + from + " += elements; }\n";
    }
    if (copied)
      text += "  TC_MEMBER const " + type() + " *run(const place &place, int term) const {\n" +
              "    if (" + outside + ")\n      return nullptr;\n" + taken + run + "  }\n};\n\n";
    else
      text += "  TC_MEMBER void run(const place &place, int term, float (&values)[" +
              std::to_string(word_) + "]) const {\n    if (" + outside +
              ") {\n      tc_clear_run(values);\n      return;\n    }\n" + taken + run +
              "  }\n};\n\n";
    std::string type = name + "_left", values = "{" + members.values + "}";
    if (is_batch()) {
      type = "tc_batched_operand<" + type + ">";
      values = "{" + values + ", " + std::to_string(parts_.prologue_step) + "}";
    }
    made = "  const " + type + " left = " + values + ";\n";
    if (for_cuda && halo_) {
      made = "  const tc_halo_operand<" + type + "> left = {" + values + ", &" + kMapNames[0] +
             ", " + places_text(*windows_, [this](Expr e) { return integer(e); }) + "};\n";
    } else if (for_cuda && windows_) {
      const auto list = [this](const auto &values) {
        std::string result;
        for (const auto &value : values)
          result += (result.empty() ? "" : ", ") + integer(Expr(value));
        return ", {" + result + "}";
      };
      made = "  const tc_windows_operand<" + type + ", " + std::to_string(windows_->kernel.size()) +
             (windows_->parts > 1 ? ", " + std::to_string(windows_->parts) : "") + "> left = {" +
             values + ", &" + kMapNames[0] + ", " + std::to_string(windows_->channels) +
             list(windows_->positions) + list(windows_->kernel) + list(windows_->stride) +
             list(windows_->padding) + list(windows_->dilation) + "};\n";
    }
    return text;
  }
  /// The operand's runs are runs of memory, or zeros.
  bool is_copied() const { return copied_load(before_) != ir::kNone; }
};

} // namespace

BuiltKernel build_product(const ir::Module &module, const scheduler::Schedule &schedule,
                          const scheduler::Group &group, const target::Target &target,
                          const Tuning *tuning) {
  BuiltKernel built = ProductBuilder(module, schedule, group, target).build();
  const auto rows = group.parts->rows.as_integer(), batches = group.parts->batches.as_integer();
  if (!tuning || !rows || !batches || group.parts->few)
    return built;
  std::vector<scheduler::ProductTile> tiles;
  std::vector<PlanChoice> alternatives;
  scheduler::ProductWork work;
  const ir::Operation &product = module.operations[schedule.nodes[group.parts->root].operation];
  work.factors = scheduler::factors_of(std::get<ir::Extern>(product.kind).inputs[0].dtype,
                                       group.parts->by_tf32);
  work.rows = *rows;
  work.columns = group.parts->columns;
  work.terms = group.parts->terms;
  work.batches = *batches;
  work.sections = group.parts->sections;
  work.together = group.parts->candidate.products;
  work.gathers =
      group.parts->by_tf32 ? !group.parts->candidate.groups : group.parts->prologue.has_value();
  work.prologue = group.parts->prologue.has_value();
  constexpr size_t kAlternatives = 7; // the best
  for (const scheduler::ProductWay &way : scheduler::template_ways(target, work))
    if (way.tile != group.parts->candidate && tiles.size() < kAlternatives) {
      tiles.push_back(way.tile);
      alternatives.push_back({.rows = way.tile.rows,
                              .columns = way.tile.columns,
                              .turns = way.tile.turns ? 2 : 0,
                              .pair = way.tile.pair ? 2 : 0});
    }
  const std::vector<PlanChoice> all = alternatives;
  const PlanChoice *choice = choose(built, std::move(alternatives), target, *tuning);
  if (!choice)
    return built;
  scheduler::TemplateParts parts = *group.parts;
  parts.candidate =
      tiles[static_cast<size_t>(std::find(all.begin(), all.end(), *choice) - all.begin())];
  scheduler::Group other = group;
  other.parts = std::make_shared<const scheduler::TemplateParts>(std::move(parts));
  TunableKernel tunable = std::move(built.tunable);
  built = ProductBuilder(module, schedule, other, target, false).build();
  built.tunable = std::move(tunable);
  return built;
}

} // namespace tsc::codegen
