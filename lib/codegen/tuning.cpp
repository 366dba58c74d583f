#include "codegen/tuning.h"

#include "codegen/plan.h"
#include "codegen/plan_steps.h"

#include "support/text.h"

#include <charconv>

namespace tsc::codegen {

namespace {

struct Field {
  std::string_view name;
  int PlanChoice::*number;
};
constexpr Field kFields[] = {
    {"vector", &PlanChoice::vector}, {"steps", &PlanChoice::steps},
    {"block", &PlanChoice::block},   {"threads", &PlanChoice::threads},
    {"rows", &PlanChoice::rows},     {"columns", &PlanChoice::columns},
    {"tile", &PlanChoice::tile},     {"turns", &PlanChoice::turns},
    {"pair", &PlanChoice::pair},
};

} // namespace

std::string to_text(const PlanChoice &choice) {
  std::string text;
  for (const Field &field : kFields)
    if (const int number = choice.*field.number; number != 0)
      text += (text.empty() ? "" : " ") + std::string(field.name) + "=" + std::to_string(number);
  return text;
}

std::optional<PlanChoice> parse_choice(std::string_view text) {
  PlanChoice choice;
  if (text.empty())
    return choice;
  for (const std::string &word : support::split(std::string(text), ' ')) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos)
      return std::nullopt;
    int number = 0;
    const char *end = word.data() + word.size();
    const auto [at, error] = std::from_chars(word.data() + equals + 1, end, number);
    if (error != std::errc() || at != end || number < 1)
      return std::nullopt;
    bool known = false;
    for (const Field &field : kFields)
      if (field.name == std::string_view(word).substr(0, equals) && choice.*field.number == 0) {
        choice.*field.number = number;
        known = true;
      }
    if (!known)
      return std::nullopt;
  }
  return choice;
}

std::vector<PlanChoice> alternatives_of(const ir::Module &module, const KernelPlan &plan) {
  constexpr int kLeastBlock = 64, kMostThreads = 1024;
  std::vector<PlanChoice> found;
  if (plan.otherwise || !plan.graph.elements().is_integer())
    return found;
  if (const auto *flat = std::get_if<FlatWalk>(&plan.walk)) {
    for (const int steps : {1, 2, 4})
      if (steps != flat->steps)
        found.push_back({.steps = steps});
    for (const int block : {128, 512})
      found.push_back({.block = block});
    if (flat->vector > 1 && plan.choices.empty() && plan.interleaved.empty())
      for (const int steps : {1, 2})
        found.push_back({.vector = flat->vector / 2, .steps = steps});
  } else if (const auto *through = std::get_if<TileWalk>(&plan.walk)) {
    for (const int elements : {4, 8, 16})
      if (elements * through->block < through->elements())
        found.push_back({.tile = elements});
    if (through->vector > 1) {
      found.push_back({.vector = through->vector / 2});
      found.push_back({.vector = through->vector / 2, .tile = 8});
    }
  } else if (const auto *row = std::get_if<RowWalk>(&plan.walk)) {
    if (plan.graph.sorts() || row->threads == 1 || plan.graph.look_back)
      return found;
    if (!plan.tables.empty()) {
      for (const int threads : {256, 512, 1024})
        if (threads != row->threads)
          found.push_back({.threads = threads});
      return found;
    }
    if (!plan.graph.reduces) { // parts of rows: as long as their threads take
      for (const int threads : {64, 128, 256})
        if (threads != row->threads)
          found.push_back({.threads = threads});
      return found;
    }
    if (row->columns) { // that registers hold
      constexpr int64_t kMostSteps = 64;
      for (const int columns : {8, 16, 32, 64})
        for (int threads = 2; threads * columns <= kMostThreads; threads *= 2)
          if (const int64_t steps = (plan.graph.elements().value() + threads - 1) / threads;
              steps >= 2 && steps <= kMostSteps && threads * columns >= 2 * kLeastBlock &&
              (columns != row->rows || threads != row->threads))
            found.push_back({.threads = threads, .rows = columns});
      return found;
    }
    const int64_t runs = longest_row_in_runs(plan, row->vector);
    const int most =
        std::max(1, static_cast<int>(kRegistersForRow /
                                     (registers_per_element(module, plan) * row->vector)));
    for (const int threads :
         {row->threads / 4, row->threads / 2, row->threads * 2, row->threads * 4})
      if (threads >= kFewestRowThreads && threads <= kMostThreads &&
          (row->steps == 0 ? threads >= 128 : (runs + threads - 1) / threads <= most))
        found.push_back({.threads = threads});
    for (const int rows : {row->rows / 2, row->rows * 2, row->rows * 4})
      if (rows > 0 && row->threads * rows >= kLeastBlock && row->threads * rows <= kMostThreads)
        found.push_back({.rows = rows});
  } else if (const auto *column = std::get_if<ColumnWalk>(&plan.walk)) {
    for (const int threads : {4, 8, 16, 32})
      if (column->threads > 1 && threads != column->threads &&
          threads * column->columns <= kMostThreads)
        found.push_back({.threads = threads});
    for (const int columns : {32, 64, 128}) // of a block, of as many threads or twice as many
      for (const int threads : {column->block() / columns, 2 * column->block() / columns})
        if (column->threads > 1 && columns != column->columns && threads > 1 &&
            columns * threads <= kMostThreads)
          found.push_back({.threads = threads, .columns = columns});
  } else if (const auto *window = std::get_if<WindowWalk>(&plan.walk)) {
    for (const int tile : {1, 2, 4, 8})
      if (window->threads == 1 && tile != window->tile)
        found.push_back({.tile = tile});
    for (const int threads : {window->threads / 4, window->threads / 2, window->threads * 2})
      if (window->threads > 1 && window->kept == 0 && threads * window->columns() >= kLeastBlock &&
          threads * window->columns() <= kMostThreads)
        found.push_back({.threads = threads});
  }
  return found;
}

} // namespace tsc::codegen
