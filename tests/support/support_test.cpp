#include "support/diagnostic.h"
#include "support/hash.h"
#include "support/text.h"
#include "support/thread_pool.h"
#include "testing/catch.h"

#include <atomic>
#include <limits>
#include <vector>

using namespace tsc::support;

TEST_CASE("a diagnostic prints its place and the next step") {
  Diagnostic diagnostic{
      "TSC-G012", "unknown dtype 'flaot'",  "m.json", "/nodes/3/val/dtype", "add_1",
      "",         "did you mean 'float32'?"};
  CHECK(to_string(diagnostic) == "error TSC-G012: unknown dtype 'flaot'\n"
                                 "  at m.json: /nodes/3/val/dtype (node add_1)\n"
                                 "  next: did you mean 'float32'?");
  UserError error(ExitCode::bad_input, Diagnostic{"TSC-G001", "no such file", "", "", "", "", ""});
  CHECK(std::string(error.with_file("x.json").what()) ==
        "error TSC-G001: no such file\n  at x.json");
}

TEST_CASE("did_you_mean finds a near word and nothing far") {
  CHECK(did_you_mean("aten.ad.Tensor", {"aten.mul.Tensor", "aten.add.Tensor"}) ==
        "aten.add.Tensor");
  CHECK(did_you_mean("zzzz", {"aten.add.Tensor"}).empty());
}

TEST_CASE("python_repr prints doubles as Python does") {
  CHECK(python_repr(1e-05) == "1e-05");
  CHECK(python_repr(0.0001) == "0.0001");
  CHECK(python_repr(3.0) == "3.0");
  CHECK(python_repr(-0.0) == "-0.0");
  CHECK(python_repr(0.7978845608028654) == "0.7978845608028654");
  CHECK(python_repr(1e16) == "1e+16");
  CHECK(python_repr(123456789012345680.0) == "1.2345678901234568e+17");
  CHECK(python_repr(-3.3895313892515355e+38) == "-3.3895313892515355e+38");
  CHECK(python_repr(std::numeric_limits<double>::infinity()) == "inf");
  CHECK(python_repr("it's") == "\"it's\"");
}

TEST_CASE("a content hash separates its parts and is stable") {
  CHECK(ContentHash().add("ab").add("c").hex() != ContentHash().add("a").add("bc").hex());
  CHECK(ContentHash().add("ab").hex() == ContentHash().add("ab").hex());
  CHECK(ContentHash().add("x").hex().size() == 32);
  // SHA-256 of the parts, each behind its length as 8 bytes.
  CHECK(ContentHash().add("abc").hex() == "ce91dc5eec0139adf091900d225971d6");
  CHECK(ContentHash().add(std::string(1000, 'a')).add("").hex() ==
        "221d35460bf43d204599e24863d1d962");
  for (size_t size = 0; size < 200; ++size) { // every place where a block may end
    const std::string text(size, 'x');
    CHECK(ContentHash().add(text).hex() != ContentHash().add(text + "x").hex());
  }
  CHECK(ContentHash().add(std::string(48, 'x')).hex() == "67e13a06479e345abebc25cda7c2c72f");
}

TEST_CASE("parallel_for visits every index once and rethrows the first error") {
  std::vector<std::atomic<int>> seen(1000);
  parallel_for(seen.size(), [&](size_t i) { seen[i]++; });
  for (const std::atomic<int> &count : seen)
    REQUIRE(count == 1);
  CHECK_THROWS_WITH(parallel_for(64,
                                 [](size_t i) {
                                   if (i == 7)
                                     throw std::runtime_error("seven");
                                 }),
                    "seven");
  std::atomic<int> nested{0};
  parallel_for(4, [&](size_t) { parallel_for(4, [&](size_t) { nested++; }); });
  CHECK(nested == 16);
}

TEST_CASE("a comment's text ends no comment") {
  CHECK(comment_text("x = y / z") == "x = y / z");
  CHECK(comment_text("a\nint b;\r\tc") == "a int b;  c");
  CHECK(comment_text(std::string("a\0b", 3)) == "a b");
  CHECK(comment_text("path\\") == "path");
  CHECK(comment_text("what?"
                     "?/ ") == "what?"
                               "?");
  CHECK(comment_text("a */ b /* c") == "a  / b  * c");
  CHECK(comment_text("\\ / \\") == "");
}
