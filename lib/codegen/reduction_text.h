// How reductions, scans and sorts are printed: what accumulates, in which order, and what is left
// of it when a phase ends.
#pragma once

#include "codegen/kernel_text.h"

namespace tsc::codegen {

class ReductionText : protected KernelText {
protected:
  using KernelText::KernelText;

  /// One thread has a column to itself.
  bool alone() const { return column_ && column_->threads == 1; }
  std::string reduction_position() const { // of the element in its row, row-major
    if (graph_.element_variables.empty())
      return "0";
    const bool in_run = vector_ > 1 && !window_;
    if (graph_.element_variables.size() > 1)
      return in_run ? "e + j" : "e";
    return graph_.element_variables[0].spelling() + (in_run ? " + j" : "");
  }
  bool separate_accumulators() const { return serial_ && vector_ > 1; }
  /// What element j is added to.
  std::string accumulator(ValueId id) const {
    const std::string &name = accumulators_.at(id);
    if (window_)
      return name + "[" + in_vectors(tile_row_, "j") + "]";
    return separate_accumulators() ? name + "[j]" : name;
  }

  /// `text` for elements of the row, else `otherwise`.
  std::string taken(const std::string &text, const std::string &otherwise) const {
    return selects_ ? "inside ? " + text + " : " + otherwise : text;
  }
  bool sums_wider(ValueId id) const {
    return !plan_.summed_wider.empty() && plan_.summed_wider[id];
  }
  std::string running_type(ValueId id) const {
    if (!sums_wider(id))
      return accumulator_type(graph_[id]);
    return graph_[id].dtype == tensor::DType::f64 ? "tc_long_sum" : "double";
  }
  void declare_accumulators(const PhasePlan &phase) {
    for (const ValueId id : phase.reductions) {
      const Value &value = graph_[id];
      if (value.op == ir::Op::scan || value.op == ir::Op::sort) {
        value.op == ir::Op::scan ? start_scan(id) : start_sort(id);
        continue;
      }
      const std::string name = "a" + std::to_string(accumulators_.size());
      accumulators_[id] = name;
      const std::string type = running_type(id);
      const std::string start = combiner(value.reduction) + "::identity<" + type + ">()";
      if (!separate_accumulators() && !window_) {
        line(type + " " + name + " = " + start + ";");
        continue;
      }
      const std::string count = std::to_string(vector_ * (window_ ? window_->tile : 1));
      line(type + " " + name + "[" + count + "];");
      if (window_)
        line("TC_UNROLL");
      line("for (int j = 0; j < " + count + "; ++j)");
      line("  " + name + "[j] = " + start + ";");
    }
  }
  /// What the row's first element is scanned with.
  std::string scan_start(const Value &value) const {
    if (value.args.size() > 1)
      return use(value.args[1]);
    return combiner(value.scan) + "::identity<" + scan_type(value) + ">()";
  }
  /// A running value, or the array that the scan works in.
  void start_scan(ValueId id) {
    const Value &value = graph_[id];
    const std::string number = std::to_string(numbers_[id]);
    if (value.combine) {
      start_combining(id);
      return;
    }
    const std::string type = scan_type(value), op = combiner(value.scan);
    if (!graph_.scans_end_phases) {
      line(type + " c" + number + " = " + scan_start(value) + ";");
      return;
    }
    const std::string count = std::to_string(steps_ * vector_);
    line(type + " t" + number + "[" + count + "];");
    if (row_->guard_run) { // runs past the end take no part
      line("TC_UNROLL");
      line("for (int k = 0; k < " + count + "; ++k)");
      line("  t" + number + "[k] = " + op + "::identity<" + type + ">();");
    }
  }
  void start_combining(ValueId id) {
    const std::string number = std::to_string(numbers_[id]);
    if (!graph_.scans_end_phases) {
      line("auto c" + number + " = " + combine_start(id) + ";");
      return;
    }
    const std::string count = std::to_string(steps_ * vector_);
    // Runs past the end combine what is there with what nobody asks for.
    line(element_type(id) + " t" + number + "[" + count + "]" + (row_->guard_run ? " = {};" : ";"));
  }
  /// Where a row is walked once more, what was carried to its end starts anew.
  void restart_scans(const PhasePlan &phase) {
    if (graph_.scans_end_phases)
      return;
    for (const ValueId id : phase.elements) {
      const Value &value = graph_[id];
      if (value.op == ir::Op::scan &&
          std::find(phase.reductions.begin(), phase.reductions.end(), id) == phase.reductions.end())
        line("c" + std::to_string(numbers_[id]) + " = " +
             (value.combine ? combine_start(id) : scan_start(value)) + ";");
    }
  }
  void finish_scan(ValueId id) {
    const Value &value = graph_[id];
    if (!graph_.scans_end_phases)
      return;
    const std::string name = "a" + std::to_string(accumulators_.size());
    accumulators_[id] = name;
    const int slots = row_->columns ? row_->block() : std::max(1, row_->block() / 32);
    shared_.push_back(element_type(id) + " " + name + "[" + std::to_string(slots) + "]");
    if (graph_.look_back) {
      look_back(id, name);
      return;
    }
    // The order in which a sort leaves a row is that of threads.
    const int run = row_->order == RunOrder::by_thread ? steps_ * vector_ : vector_;
    if (value.combine) {
      line("tc_row_combine<" + combine_type(id) + ", " + std::to_string(row_->threads) + ", " +
           std::to_string(run) + ">(t" + std::to_string(numbers_[id]) + ", shared." + name + ", " +
           combine_start(id) + ");");
      return;
    }
    line("tc_row_scan<" + combiner(value.scan) + ", " + std::to_string(row_->threads) + ", " +
         std::to_string(run) + ">(t" + std::to_string(numbers_[id]) + ", shared." + name + ");");
    if (value.args.size() < 2)
      return;
    line("TC_UNROLL");
    line("for (int k = 0; k < " + std::to_string(steps_ * vector_) + "; ++k)");
    const std::string element = "t" + std::to_string(numbers_[id]) + "[k]";
    line("  " + element + " = " + combiner(value.scan) + "::apply(" + scan_start(value) + ", " +
         element + ");");
  }
  /// A scan of a part of a row; `name`: of its warps' sums.
  void look_back(ValueId id, const std::string &name) {
    const LookBack &parts = *graph_.look_back;
    const Value &value = graph_[id];
    int64_t number = 0; // of the first member
    for (ValueId other = 0; other < id; ++other)
      if (graph_[other].op == ir::Op::scan)
        number += static_cast<int64_t>(scanned_members(graph_[other]));
    const std::string told = "told" + name.substr(1);
    const std::string words = std::string(kExchange) + " + " +
                              size_text(look_back_words(parts.rows, parts.parts, number)) + ", ";
    const std::string apart = size_text(words_of_member(parts.rows, parts.parts)) + ", ";
    const std::string array = "(t" + std::to_string(numbers_[id]) + ", shared." + name + ", ";
    if (row_->columns) {
      shared_.push_back("unsigned " + told);
      line("if (threadIdx.x == 0)");
      line("  shared." + told + " = tc_launch_of(counted);");
      line("tc_column_combine<" + combine_type(id) + ", " + std::to_string(row_->rows) + ", " +
           std::to_string(row_->threads) + ">" + array + "shared." + told + ", " + words + apart +
           size_text(parts.rows) + ", " + index_text(parts.row) + ", " + index_text(parts.part) +
           ");");
      return;
    }
    const std::string type =
        value.combine ? element_type(id) : std::string(value_type(total_dtype(value)));
    shared_.push_back("tc_look_back<" + type + ", " +
                      std::to_string(value.combine ? 2 : row_->threads / 32) + "> " + told);
    line("if (lane == 0)");
    line("  shared." + told + ".launch = tc_launch_of(counted);");
    line((value.combine ? "tc_part_combine<" + combine_type(id)
                        : "tc_part_scan<" + combiner(value.scan) + ", " + type) +
         (value.combine ? ", " + std::to_string(kTuplesTogether) : "") + ", " +
         std::to_string(row_->threads) + ", " + std::to_string(vector_) + ">" + array + "shared." +
         told + ", " + words + (value.combine ? apart : "") + size_text(parts.rows) + ", " +
         index_text(parts.row) + ", " + size_text(parts.parts) + ", " + index_text(parts.part) +
         ");");
  }
  /// Elements of the array that a row is sorted in: a thread's, or all of it.
  int64_t sorted_elements() const {
    return row_ ? int64_t{steps_} * vector_ : longest_row(graph_).value();
  }
  void start_sort(ValueId id) {
    const std::string type = std::string(value_type(graph_[id].dtype)),
                      number = std::to_string(numbers_[id]),
                      count = std::to_string(sorted_elements());
    line(type + " t" + number + "[" + count + "];");
    line("unsigned short " + places(id) + "[" + count + "];");
    if (row_ && row_->guard_run) { // runs past the end stay there
      line("TC_UNROLL");
      line("for (int k = 0; k < " + count + "; ++k)");
      line("  t" + number + "[k] = tc_sorts_last<" + (graph_[id].descending ? "true" : "false") +
           ", " + type + ">();");
    }
  }
  void finish_sort(ValueId id) {
    const std::string flags = std::string(graph_[id].descending ? "true" : "false") + ", " +
                              (graph_.finds_positions(id) ? "true" : "false");
    const std::string arrays = "t" + std::to_string(numbers_[id]) + ", " + places(id) + ", ";
    if (row_ && row_->packed)
      line("tc_row_sort_packed<" + flags + ", " + std::to_string(row_->threads) + ", " +
           std::to_string(row_->rows) + ", " + std::to_string(vector_) + ", " +
           std::string(storage_type(graph_[id].dtype)) + ">(" + arrays + "merging);");
    else if (row_)
      line("tc_row_sort<" + flags + ", " + std::to_string(row_->threads) + ", " +
           std::to_string(row_->rows) + ">(" + arrays + "merging);");
    else
      line("tc_sort_alone<" + flags + ">(" + arrays + "static_cast<int>(" +
           size_text(graph_.elements()) + "));");
  }
  bool by_run(ValueId id) const { return !plan_.by_run.empty() && plan_.by_run[id]; }
  /// Where a reduction's elements wait until the run is complete.
  std::string gathered(ValueId id) const { return "g" + accumulators_.at(id).substr(1); }
  /// How much each of them counts.
  std::string weights(ValueId id) const { return "w" + accumulators_.at(id).substr(1); }
  bool has_weights(ValueId id) const {
    return graph_[id].reduction == ir::ReductionKind::welford_reduce;
  }
  void gather_runs(const PhasePlan &phase) {
    for (const ValueId id : phase.reductions)
      if (by_run(id)) {
        const std::string count = "[" + std::to_string(vector_) + "]";
        line(std::string(value_type(graph_[id].dtype)) + " " + gathered(id) + count +
             (has_weights(id) ? ", " + weights(id) + count : "") + ";");
      }
  }
  std::string nothing_gathered(ValueId id) const {
    return has_weights(id)
               ? "0"
               : "tc_limits<" + std::string(value_type(graph_[id].dtype)) + ">::lowest()";
  }
  void gather(ValueId id, const std::string &x, const std::string &weight) {
    line(gathered(id) + "[j] = " + x + ";");
    if (has_weights(id))
      line(weights(id) + "[j] = " + weight + ";");
  }
  /// Where a branch leaves elements out.
  void gather_nothing(const PhasePlan &phase) {
    for (const ValueId id : phase.reductions)
      if (by_run(id))
        gather(id, nothing_gathered(id), "0");
  }
  /// What says that a run of elements that have ends lies between them.
  static std::string full(bool has_ends) { return has_ends ? "full" : "true"; }
  void define_full(const PhasePlan &phase, const std::string &whole, const std::string &first) {
    if (std::none_of(phase.reductions.begin(), phase.reductions.end(),
                     [&](ValueId id) { return by_run(id) && has_weights(id); }))
      return;
    const std::string end = ", " + size_text(graph_.elements()) + ")";
    line("const bool full = " + (whole.empty() ? "" : "(" + whole + ") || ") + "(tc_is_inside(" +
         first + end + " && tc_is_inside(" + first + " + " + std::to_string(vector_ - 1) + end +
         ");");
  }
  void accumulate_runs(const PhasePlan &phase, bool has_ends) {
    for (const ValueId id : phase.reductions)
      if (by_run(id))
        line(accumulators_.at(id) + " = " + combiner(graph_[id].reduction) + "::take_run(" +
             accumulators_.at(id) + ", " + gathered(id) +
             (has_weights(id) ? ", " + weights(id) + ", " + full(has_ends) : "") + ");");
  }
  void accumulate(const PhasePlan &phase) {
    for (const ValueId id : phase.reductions) {
      const Value &value = graph_[id];
      if (by_run(id)) {
        const std::string x = converted(use(value.args[0]), dtype_of(value.args[0]), value.dtype);
        gather(id, taken(x, nothing_gathered(id)), taken("1", "0"));
        continue;
      }
      if (value.op == ir::Op::scan || value.op == ir::Op::sort) {
        if (value.op == ir::Op::sort || graph_.scans_end_phases)
          line(use(id) + " = " +
               (value.combine ? combined_input(id) : taken(scan_input(value), use(id))) + ";");
        continue;
      }
      std::vector<ArgumentText> inputs;
      for (const ValueId arg : value.args)
        inputs.push_back({use(arg), dtype_of(arg)});
      const std::string name = accumulator(id);
      if (value.reduction != ir::ReductionKind::sum || value.dtype == tensor::DType::boolean)
        line(name + " = " + taken(accumulated(value, name, inputs, reduction_position()), name) +
             ";");
      else if (const std::string x = converted(inputs[0].text, inputs[0].dtype, value.dtype);
               selects_)
        line(name + " = " + taken(name + " + " + x, name) + ";");
      else
        line(name + " += " + x + ";");
    }
  }
  void finish_reductions(const PhasePlan &phase) {
    for (const ValueId id : phase.reductions) {
      const Value &value = graph_[id];
      if (value.op == ir::Op::scan || value.op == ir::Op::sort) {
        value.op == ir::Op::scan ? finish_scan(id) : finish_sort(id);
        continue;
      }
      const std::string type = accumulator_type(value), op = combiner(value.reduction),
                        name = accumulators_[id];
      std::string result = window_ ? accumulator(id) : name;
      if (separate_accumulators()) {
        result = "tc_merge<" + op + ">(" + name + ")";
      } else if (column_ && !alone()) {
        shared_.push_back(type + " " + name + "[" + std::to_string(column_->block()) + "]");
        result = "tc_column_reduce<" + op + ", " + std::to_string(column_->columns) + ", " +
                 std::to_string(column_->threads) + ">(" + name + ", shared." + name + ")";
      } else if (row_ && row_->columns) {
        shared_.push_back(type + " " + name + "[" + std::to_string(row_->block()) + "]");
        result = "tc_column_reduce<" + op + ", " + std::to_string(row_->rows) + ", " +
                 std::to_string(row_->threads) + ">(" + name + ", shared." + name + ")";
      } else if (row_ && row_->threads > 32) {
        shared_.push_back(type + " " + name + "[" + std::to_string(row_->block() / 32) + "]");
        result = "tc_row_reduce<" + op + ", " + std::to_string(row_->threads) + ">(" + name +
                 ", shared." + name + ")";
      } else if (row_) {
        result = "tc_lanes_reduce<" + op + ", " + std::to_string(row_->threads) + ">(" + name + ")";
      }
      if (finds_position(id))
        result = "tc_found(" + result + ")";
      if (sums_wider(id))
        result = "static_cast<" + type + ">(" + result + ")";
      line("const " + type + " t" + std::to_string(numbers_[id]) + " = " + result + ";");
      if (!is_tuple(value.reduction))
        define_inverse(id);
    }
  }
};

} // namespace tsc::codegen
