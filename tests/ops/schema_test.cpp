#include "ops/table/operator.h"
#include "testing/catch.h"

using namespace tsc;
using namespace tsc::ops;

TEST_CASE("a schema keeps types, aliases, defaults and keyword-only marks") {
  Schema schema = parse_schema(
      "f.x(Tensor(a!) self, int[1]? dim=None, float eps=1e-05, str mode='none', *, "
      "bool flag=True, Scalar? s=-1.5, SymInt[] pad=[]) -> (Tensor(a!) out, Tensor[])");
  REQUIRE(schema.parameters.size() == 7);
  CHECK(schema.parameters[0].type == "Tensor");
  CHECK(schema.parameters[0].alias == "a!");
  CHECK(schema.is_mutable());
  CHECK(schema.parameters[1].type == "int[1]?");
  CHECK(schema.parameters[1].default_value->is_none());
  CHECK(schema.parameters[2].default_value == graph::Argument(1e-05));
  CHECK(schema.parameters[3].default_value == graph::Argument("none"));
  CHECK_FALSE(schema.parameters[3].keyword_only);
  CHECK(schema.parameters[4].keyword_only);
  CHECK(schema.parameters[4].default_value == graph::Argument(true));
  CHECK(schema.parameters[5].default_value == graph::Argument(-1.5));
  CHECK(schema.parameters[6].default_value == graph::Argument(graph::Argument::List{}));
  REQUIRE(schema.returns.size() == 2);
  CHECK(schema.returns[1].type == "Tensor[]");
}

TEST_CASE("every row says how its values are known and what becomes of it") {
  REQUIRE(operators().size() > 400);
  for (const Operator &row : operators()) {
    INFO(row.name);
    CHECK((row.shape || row.decompose));
    bool ends = row.decompose || !row.lowering.empty() || !row.functional.empty() ||
                row.effect == Effect::assertion;
    CHECK(ends);
    if (row.effect == Effect::mutates) {
      CHECK(row.schema.is_mutable());
      const Operator *functional = find_operator(row.functional);
      REQUIRE(functional != nullptr);
      CHECK_FALSE(functional->schema.is_mutable());
      CHECK(functional->schema.parameters.size() == row.schema.parameters.size());
    }
    if (!row.lowering.empty())
      CHECK(row.shape); // lowering reads the value's rule, not the decomposition
  }
  CHECK(find_operator("aten.add.Tensor") != nullptr);
  CHECK(find_operator("aten.add_.Tensor")->functional == "aten.add.Tensor");
  CHECK(find_operator("aten.no_such.default") == nullptr);
}
