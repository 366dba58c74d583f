#include "scheduler/dependency.h"
#include "scheduler/loop_nest.h"
#include "testing/catch.h"

using namespace tsc;
using scheduler::common_refinement;
using scheduler::LoopNest;
using symbolic::Expr;
using Sizes = std::vector<Expr>;

TEST_CASE("the common refinement cuts both lists where either is cut") {
  CHECK(common_refinement(Sizes{6, 4}, Sizes{24}) == Sizes{6, 4});
  CHECK(common_refinement(Sizes{24}, Sizes{6, 4}) == Sizes{6, 4});
  CHECK(common_refinement(Sizes{2, 3, 4}, Sizes{6, 2, 2}) == Sizes{2, 3, 2, 2});
  CHECK(common_refinement(Sizes{1, 5}, Sizes{5, 1, 1}) == Sizes{5});
  CHECK(common_refinement(Sizes{}, Sizes{1}) == Sizes{});
  CHECK(common_refinement(Sizes{6, 4}, Sizes{8, 3}) == std::nullopt);
}

TEST_CASE("the common refinement of symbolic sizes needs exact quotients") {
  const Expr s = symbolic::symbol(symbolic::SymbolSort::size, 0),
             t = symbolic::symbol(symbolic::SymbolSort::size, 1);
  CHECK(common_refinement(Sizes{s, 64}, Sizes{s * 64}) == Sizes{s, 64});
  CHECK(common_refinement(Sizes{s, t}, Sizes{s * t}) == Sizes{s, t});
  CHECK(common_refinement(Sizes{s, t}, Sizes{t, s}) == std::nullopt);
}

TEST_CASE("nests join over rows, over whole rows, and not across the border") {
  const LoopNest rows{{8}, {32}, false};
  const auto whole = scheduler::join_nests(rows, LoopNest{{256}, {}, false}, 8, 32);
  REQUIRE(whole);
  CHECK(whole->iteration == Sizes{8});
  CHECK(whole->reduction == Sizes{32});
  const auto once_a_row = scheduler::join_nests(LoopNest{{2, 4}, {}, false}, rows, 8, 32);
  REQUIRE(once_a_row);
  CHECK(once_a_row->iteration == Sizes{2, 4});
  CHECK(once_a_row->reduction == Sizes{32});
  const auto finer = scheduler::join_nests(rows, LoopNest{{8, 4, 8}, {}, false}, 8, 32);
  REQUIRE(finer);
  CHECK(finer->iteration == Sizes{8});
  CHECK(finer->reduction == Sizes{4, 8});
  // 6 x 4 against 8 x 3: the border after 6 would lie inside a loop.
  CHECK_FALSE(scheduler::join_nests(LoopNest{{6}, {4}, false}, LoopNest{{8, 3}, {}, false}, 6, 4));
  const auto flat =
      scheduler::join_nests(LoopNest{{6, 4}, {}, false}, LoopNest{{8, 3}, {}, false}, 24, 1);
  REQUIRE(flat);
  CHECK(flat->flattened);
  CHECK(flat->iteration == Sizes{24});
}

namespace {

/// A body that only loads `indices` over loops z0, z1, ... of `sizes`.
ir::LoopBody loads(const Sizes &sizes, const Sizes &indices) {
  ir::LoopBody body;
  body.sizes = sizes;
  body.iteration_count = sizes.size();
  body.indices = indices;
  body.blocks.emplace_back();
  for (size_t i = 0; i < sizes.size(); ++i)
    body.variables.push_back(symbolic::symbol(symbolic::SymbolSort::loop, i));
  for (uint32_t i = 0; i < indices.size(); ++i) {
    ir::BodyOp load;
    load.op = ir::Op::load;
    load.index = i;
    load.buffer = i;
    body.ops.push_back(load);
    body.blocks[0].ops.push_back(i);
  }
  return body;
}

} // namespace

TEST_CASE("a body over other loops reads the same elements in the same order") {
  const Expr z0 = symbolic::symbol(symbolic::SymbolSort::loop, 0),
             z1 = symbolic::symbol(symbolic::SymbolSort::loop, 1);
  const ir::LoopBody body = loads({6, 4}, {4 * z0 + z1, z0, z1 * 10});
  const LoopNest nests[] = {{{2, 3, 4}, {}, false}, {{6}, {4}, false}, {{24}, {}, true}};
  for (const LoopNest &nest : nests) {
    const ir::LoopBody other = scheduler::express_over(body, nest);
    REQUIRE(symbolic::numel(other.sizes) == Expr(24));
    CHECK(other.iteration_count == nest.iteration.size());
    for (int64_t position = 0; position < 24; ++position) {
      const auto point = [&](const ir::LoopBody &b) {
        symbolic::Bindings bindings;
        int64_t rest = position;
        for (size_t i = b.sizes.size(); i-- > 0;) {
          bindings[b.variables[i]] = rest % b.sizes[i].value();
          rest /= b.sizes[i].value();
        }
        return bindings;
      };
      for (size_t k = 0; k < body.ops.size(); ++k)
        CHECK(symbolic::evaluate(body.indices[body.ops[k].index], point(body)) ==
              symbolic::evaluate(other.indices[other.ops[k].index], point(other)));
    }
  }
}

TEST_CASE("each index is normalized on its own") {
  const Expr z0 = symbolic::symbol(symbolic::SymbolSort::loop, 0),
             z1 = symbolic::symbol(symbolic::SymbolSort::loop, 1);
  ir::Module module;
  module.buffers.resize(4);
  for (size_t i = 0; i < 4; ++i)
    module.buffers[i].name = "b" + std::to_string(i);
  const ir::LoopBody body = loads({6, 4}, {4 * z0 + z1, z0, z1, Expr(0)});
  const auto accesses = scheduler::find_accesses(module, body);
  std::vector<std::string> texts;
  for (const scheduler::Dependency &read : accesses.reads)
    texts.push_back(scheduler::to_text(module, read, false));
  CHECK(texts == std::vector<std::string>{
                     "MemoryDep('b0', c0, {c0: 24}, None)", "MemoryDep('b1', c0, {c0: 6}, None)",
                     "MemoryDep('b2', c1, {c0: 6, c1: 4}, None)", "MemoryDep('b3', 0, {}, None)"});
}
