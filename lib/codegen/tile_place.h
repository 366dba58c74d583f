// Where the elements of a tile that goes through shared memory lie there.
#pragma once

#include "codegen/plan.h"

#include <algorithm>
#include <string>

namespace tsc::codegen {

class TilePlace {
public:
  /// Of elements of `bytes`; `run`: how many elements of a line a thread takes.
  TilePlace(const TileWalk &tile, size_t bytes, int run)
      : tile_(tile), bank_(std::max(1, 4 / static_cast<int>(bytes))), run_(run) {}

  /// Of the whole tile.
  int elements() const {
    return tile_.lies_across() ? tile_.height * pitch() : tile_.edge * pitch() + runs() * bank_;
  }
  /// The place of element `across` + `more` (in the same run) of line `down`, as text.
  std::string text(const std::string &across, const std::string &more,
                   const std::string &down) const {
    const std::string pitch_text = " * " + std::to_string(pitch()) + " + ";
    const auto factor = [](const std::string &text) {
      return text.find(' ') == std::string::npos ? text : "(" + text + ")";
    };
    if (tile_.lies_across())
      return factor(down) + pitch_text + across + more;
    std::string text = (more.empty() ? across : "(" + across + more + ")") + pitch_text + down;
    if (run_ > 1)
      text += " + " + across + " / " + std::to_string(run_) +
              (bank_ > 1 ? " * " + std::to_string(bank_) : "");
    return text;
  }

private:
  const TileWalk &tile_;
  const int bank_; // elements of a bank of shared memory
  const int run_;

  /// Elements from one line to the next: an odd number of banks, so that neighbours of a column lie
  /// in different ones.
  int pitch() const {
    const int line = tile_.lies_across() ? tile_.edge : tile_.height;
    return (line + bank_ - 1) / bank_ / 2 * 2 * bank_ + bank_;
  }
  /// Runs of a line, each moved on by a bank: what neighbouring threads take at once are the
  /// elements of one number in their runs, an odd number of banks apart, too.
  int runs() const { return run_ == 1 ? 0 : (tile_.edge + run_ - 1) / run_; }
};

} // namespace tsc::codegen
