// How a kernel's text finds its elements: the row, column or tile of a thread, the loop over its
// runs, their coordinates and their guards.
#pragma once

#include "codegen/reduction_text.h"

#include <span>
#include <string>
#include <vector>

namespace tsc::codegen {

/// A run is `vector_` elements that one thread handles together.
class WalkText : protected ReductionText {
public:
  /// `path`: which of a kernel's paths this is; "" for a kernel that has one.
  /// `is_part`: of a launch that deals its blocks to several parts; the number of its own block and
  /// its shared memory are parameters then.
  WalkText(const ir::Module &module, const KernelPlan &plan, const Parameters &parameters,
           const std::string &name, const std::string &path, bool is_part)
      : ReductionText(module, plan, parameters, name, path.empty() ? name : name + "_" + path),
        path_(path), is_part_(is_part) {
    if (is_part)
      block_ = "block";
  }

protected:
  // ---- frame
  /// The structure in shared memory.
  std::string shared_type() const;
  /// Its definition, or nothing if nothing is in it. After everything is printed.
  std::string shared_struct() const;
  void declare_shared();
  std::string as_index(const std::string &text) const;
  /// Declares variables of a nest from a flat position, those that `used` names (none: all); `flat`
  /// is a name, or the only variable's value.
  void decompose(std::span<const Expr> variables, std::span<const Expr> sizes,
                 const std::string &flat, const std::vector<bool> &used = {});
  /// The same where sizes are symbols whose inverses the launch brings; false if none is.
  bool decompose_by_inverses(std::span<const Expr> variables, std::span<const Expr> sizes,
                             const std::string &flat, const std::vector<bool> &used);
  std::string quotient(const std::string &text, Expr divisor) const;
  std::string remainder(const std::string &text, Expr divisor) const;
  std::string factor(Expr e) const;
  /// The same, where it divides: a size may be 0.
  std::string divisor(Expr e) const;
  /// Which row, column or tile is the thread's; and the declaration of shared memory.
  void coordinates();
  /// Loads `count` whole runs of `vector` elements of `load`'s buffer from `first` on, a multiple
  /// of a run; those outside of the buffer are zeros. `places`: statements that say what `first`
  /// mentions. Their array's name.
  std::string bring_runs(const Value &load, int vector, int count, Expr first,
                         const std::vector<std::string> &places);
  /// Of such runs the element `before` elements behind element `place`.
  static std::string element_of_runs(const std::string &runs, const std::string &place, int before,
                                     int vector);
  /// Whether it needs shared memory: tiles, and what warps of a block tell each other.
  bool has_shared() const;
  void column_parts();
  void row_coordinates(const std::string &row, bool guard);
  /// A block of the serial plan walks its rows, each as a whole.
  void open_serial_rows();

  // ---- runs: loop k, its coordinates and its guard
  /// What statements mention of where they are.
  struct Position {
    std::vector<bool> variables; // of graph_.element_variables
    bool flat = false;           // the place in the row
    bool tiles = false;          // a tile's elements, or (its guard) the place in it
    bool any() const {
      return flat || std::find(variables.begin(), variables.end(), true) != variables.end();
    }
  };
  Position nowhere() const;
  /// Adds what the statements that define `ids` mention.
  void mark(Position &position, std::span<const ValueId> ids) const;
  Position position_of(const PhasePlan &phase) const;
  Position everywhere() const; // what any phase mentions
  Expr runs() const { return symbolic::floor_div(graph_.elements(), vector_); }
  std::string scaled(const std::string &run) const;
  /// Opens the loop over runs; returns how many braces to close.
  int open_runs(const Position &position);
  /// Runs whose loads are under way at once in a loop over a row, or a column.
  int ahead() const { return row_ ? row_->ahead : column_ ? column_->ahead : 1; }
  /// Opens the loop over as many runs at a time as are loaded ahead; within it,
  /// open_ahead opens the loop over them. Each returns how many braces to close.
  int open_ahead_runs();
  int open_ahead(const Position &position, bool stores, bool loads);
  /// Whether loads of what lies past the end of a loop of symbolic length may be of its last run
  /// instead: a condition of 64 bits for each keeps ptxas from having all of them under way
  /// (columns of any number of floats: 136 us, 76 without; of a number that is known, conditions
  /// cost no more than loads that are not wanted). `at_once`: elements of an iteration. What is
  /// loaded in vain comes from the first-level cache, the last run being wanted by the same thread.
  bool loads_last_run(int64_t at_once) const;
  /// open_ahead where threads stay at their places in the pieces of the row (RowWalk::pieces).
  int open_ahead_pieces(const Position &position);
  /// The words of a draw of KernelPlan::by_warp, before the walk.
  void draw_words(ValueId id);
  /// Whether a phase has stores of KernelPlan::by_lanes; the memory that a warp's lanes make one
  /// from together; a run into it; the stores of a step, or of rows that lanes have alone, which
  /// all lanes of the warp take part in.
  bool stores_lanes(const PhasePlan &phase) const;
  static std::string lanes_memory(ValueId id);
  void put_lane(ValueId id, const std::string &run);
  void declare_lanes(ValueId id);
  Value start_of_row(ValueId id) const; // the access to its row's first element
  /// Loads of rows that lanes have alone, all of them in `vectors`.
  void load_own_row(ValueId id, const std::string &vectors);
  void store_lanes(const PhasePlan &phase);
  Expr pieces() const; // of the row, all
  /// The loads of a phase that depend on nothing but where the run is.
  std::vector<ValueId> loads_ahead(const PhasePlan &phase) const;
  /// The same for the runs at both ends of a row, which open_runs leaves out (RowWalk::ends_apart).
  int open_end_runs(const Position &position);
  /// True if a value is computed in more than one phase.
  bool computes_again() const;
  /// `at_once`: iterations that one of the loop's does.
  std::string loop_header(int at_once = 1) const;
  /// Of a row that starts anywhere: where its last whole run ends.
  std::string whole_runs() const;
  int run_coordinates(const std::string &run, const std::string &guard, const Position &position);
  void close_runs(int braces);

  // ---- tiles through shared memory
  size_t tile_down() const { return graph_.element_variables.size() - 2; }
  /// Where the block's tile starts, and the variables outside of it.
  void tile_coordinates();
  /// Runs of a tile: along the inner variable, or (`turned`) along the outer one.
  int open_tile_runs(bool turned, bool down_used);
  /// Declares the variables of the tile and opens the guard of tiles that reach past the end.
  int open_tile_elements(int braces, const Position &position);

  /// Whether the kernel has another path, of which this one's braces are the inner ones.
  bool is_path() const { return !path_.empty(); }

protected:
  std::string path_;
  bool is_part_;
};

} // namespace tsc::codegen
