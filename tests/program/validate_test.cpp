#include "program/validate.h"
#include "sample_program.h"
#include "support/diagnostic.h"

#include "testing/catch.h"

#include <functional>

using namespace tsc;
using program::Program;

namespace {

/// Code and message of the first problem after `change`.
std::string problem_after(const std::function<void(Program &)> &change) {
  Program sample = program::sample_program();
  change(sample);
  try {
    program::validate(sample, "p.json");
  } catch (const support::UserError &error) {
    const support::Diagnostic &first = error.diagnostics().front();
    return first.code + " " + first.place + " " + first.message;
  }
  return "";
}

} // namespace

TEST_CASE("A sound program passes", "[program]") {
  CHECK(problem_after([](Program &) {}).empty());
}

TEST_CASE("Unsound programs are refused", "[program]") {
  CHECK(problem_after([](Program &p) { p.buffers[6].alias_of = 7; }) ==
        "TSC-P009 /buffers/6 the buffers that buffer 6 takes over form a circle");
  CHECK(problem_after([](Program &p) { p.buffers[6].alias_of = 80; }) ==
        "TSC-P006 /buffers/6 buffer 80 does not exist: there are 8");
  CHECK(problem_after([](Program &p) { p.buffers[1].weight = ""; }) ==
        "TSC-P009 /buffers/1 a weight without a name");
  CHECK(problem_after([](Program &p) { p.kernels[2].name = "../relu"; }) ==
        "TSC-P009 /kernels/2 \"../relu\" is no kernel name");
  CHECK(problem_after([](Program &p) { p.kernels[2].name = "add_one"; }) ==
        "TSC-P009 /kernels/2 two kernels with different texts are named \"add_one\"");
  CHECK(problem_after([](Program &p) {
          p.kernels[2].cuda.block = {1024, 2, 1};
        }) == "TSC-P007 /kernels/2/cuda 2048 threads a block are more than 1024");
  CHECK(
      problem_after([](Program &p) { std::get<program::Launch>(p.steps[1].kind).sizes.clear(); }) ==
      "TSC-P009 /steps/1 kernel \"add_one\" takes 2 pointers and 1 sizes, the step gives 2 and 0");
  const auto after_map = [](const program::TensorMap &map) {
    return problem_after([&](Program &p) { p.kernels[1].cuda.maps = {map}; });
  };
  CHECK(after_map({0, 0, {4, 5}, {1, 4}, {32, 16}}).empty());
  CHECK(after_map({2, 0, {4, 5}, {1, 4}, {32, 16}}) ==
        "TSC-P009 /kernels/1/cuda/maps a tensor map is of no pointer");
  const std::string wrong =
      "TSC-P009 /kernels/1/cuda/maps a tensor map has 1 to 5 sizes, the first "
      "one's neighbours 128, 64 or 32 bytes of a box (without windows 16, too), others "
      "whole words of 16 bytes apart; only floats of 32 bits are rounded to TF32";
  CHECK(after_map({0, 0, {4, 5}, {1, 6}, {32, 16}}) == wrong);
  for (const int line : {16, 8, 4})
    CHECK(after_map({0, 0, {4, 5}, {1, 4}, {line, 16}}).empty());
  CHECK(after_map({0, 0, {4, 5}, {1, 4}, {12, 16}}) == wrong);
  CHECK(after_map({0, 0, {64, 7, 2}, {1, 64, 448}, {32, 16}, {-1}, {0}, {1}}).empty());
  CHECK(after_map({0, 0, {64, 7, 2}, {1, 64, 448}, {16, 16}, {-1}, {0}, {1}}).empty());
  CHECK(after_map({0, 0, {64, 7, 2}, {1, 64, 448}, {4, 16}, {-1}, {0}, {1}}) == wrong);
  CHECK(after_map({0, 0, {4, 5}, {1, 4}, {32}}) == wrong);
  CHECK(after_map({0, 0, {}, {}, {}}) == wrong);
  CHECK(problem_after([](Program &p) { p.steps[1].waits = {1}; }) ==
        "TSC-P009 /steps/1 the step waits for step 1, which comes later");
  // add_one writes what the product after it reads.
  const auto beside = [](Program &p) { p.steps[1].stream = 1; };
  CHECK(problem_after(beside) ==
        "TSC-P014 /steps/2 streams: the step touches buffer \"moved\" and does not wait for step 1 "
        "of stream 1, which does so too");
  CHECK(problem_after([&](Program &p) {
          beside(p);
          p.steps[2].waits = {1};
        }) == "");
  CHECK(problem_after([&](Program &p) { // through an event
          beside(p);
          program::Step event{program::Event{}, "added"};
          event.waits = {1};
          p.steps.insert(p.steps.begin() + 2, event);
        }) == "");
  CHECK(problem_after([](Program &p) { p.steps[1].stream = 16; }) ==
        "TSC-P014 /steps/1 streams: there is no stream 16, but 0 to 15");
  CHECK(problem_after([](Program &p) { p.steps[0].stream = 1; }) ==
        "TSC-P014 /steps/0 streams: a step that runs once, decides or depends on a condition is of "
        "stream 0, this one is of 1");
  CHECK(problem_after([](Program &p) { p.steps[1].waits = {0}; }) ==
        "TSC-P014 /steps/1 streams: the step waits for step 0, which a condition may leave out or "
        "which runs once");
  const auto group_of = [](int64_t ranks) {
    program::Collective collective;
    collective.ranks = ranks;
    return program::Step{collective, "gather"};
  };
  CHECK(problem_after([&](Program &p) {
          p.steps.push_back(group_of(2));
          p.steps.push_back(group_of(4));
        }) == "TSC-P009 /steps/6 a group of 4 ranks beside one of 2");
  CHECK(problem_after([&](Program &p) { p.steps.push_back(group_of(0)); }) ==
        "TSC-P007 /steps/5 a group of 0 ranks");
  const auto branch_of = [](uint32_t then_steps, uint32_t else_steps) {
    program::Conditional conditional;
    conditional.condition = symbolic::symbol(symbolic::SymbolSort::size, 0);
    conditional.then_steps = then_steps;
    conditional.else_steps = else_steps;
    return program::Step{conditional, "branch"};
  };
  CHECK(
      problem_after([&](Program &p) { p.steps.insert(p.steps.begin(), branch_of(2, 1)); }).empty());
  CHECK(problem_after([&](Program &p) { p.steps.insert(p.steps.begin(), branch_of(3, 4)); }) ==
        "TSC-P009 /steps/0 3 and 4 steps depend on the step, and 5 follow it");
  CHECK(problem_after([&](Program &p) {
          p.steps.insert(p.steps.begin(), {branch_of(2, 2), branch_of(1, 1)});
        }) == "TSC-P009 /steps/1 1 and 1 steps depend on the step, and 1 follow it");
  CHECK(problem_after([&](Program &p) {
          p.steps.push_back(branch_of(0, 0));
          p.steps.back().once = true;
        }) == "TSC-P009 /steps/5 a step that others depend on runs once");
  CHECK(problem_after([&](Program &p) {
          p.steps.push_back(branch_of(0, 0));
          std::get<program::Conditional>(p.steps.back().kind).predicate = program::Operand{0, 0};
        }) == "TSC-P009 /steps/5 a predicate that is no bool");
  CHECK(problem_after([](Program &p) { p.buffers[6].role = program::Role::failure; }) ==
        "TSC-P009 /buffers/6 a failure that is not four int64 numbers");
  CHECK(problem_after([](Program &p) { p.steps[1].once = true; }) ==
        "TSC-P009 /steps/1 a step that runs once touches buffer \"x\", which belongs to a run");
  CHECK(problem_after([](Program &p) { p.inputs[0].buffer = 5; }) ==
        "TSC-P009 /inputs/0 the buffer of input \"x\" is no input");
  CHECK(problem_after([](Program &p) { p.inputs[0].buffer = 1; }) ==
        "TSC-P008 /symbols/0 no dimension of an input says what \"s0\" is: nothing binds it");
  CHECK(problem_after([](Program &p) { p.outputs[0].buffer = 8; }) ==
        "TSC-P006 /outputs/0 buffer 8 does not exist: there are 8");
  CHECK(problem_after([](Program &p) { p.buffers[1].layout.offset = 1; }) ==
        "TSC-P009 /buffers/1 the layout of weight \"layer.w\" reaches beyond its bytes");
  CHECK(problem_after([](Program &p) { p.buffers[2].weight = "layer.w"; }) ==
        "TSC-P009 /buffers/2 weight \"layer.w\" has two sizes or element types");
  CHECK(problem_after([](Program &p) { p.symbols.push_back(p.symbols[0]); }) ==
        "TSC-P008 /symbols the symbol \"s0\" is declared twice");
  CHECK(problem_after([](Program &p) { p.buffers[5].dtype = program::DType::c64; }) ==
        "TSC-P005 /buffers/5 element type \"c64\" cannot be run");
  CHECK(problem_after([](Program &p) {
          p.buffers.push_back(program::make_buffer("z", program::Role::input, {2, 3}));
          p.buffers.back().is_complex = true;
        }) ==
        "TSC-P009 /buffers/8 complex numbers have parts of f32 or f64 in a last dimension of 2");
}

TEST_CASE("All problems come in one report", "[program]") {
  Program sample = program::sample_program();
  sample.outputs[0].buffer = 8;
  sample.kernels[2].name = "a b";
  try {
    program::validate(sample, "p.json");
    FAIL("no error");
  } catch (const support::UserError &error) {
    CHECK(error.diagnostics().size() == 2);
  }
}

TEST_CASE("Steps know what they read and write", "[program]") {
  Program sample = program::sample_program();
  CHECK(program::reads(sample, sample.steps[1]) == std::vector<uint32_t>{0});
  CHECK(program::writes(sample, sample.steps[1]) == std::vector<uint32_t>{5});
  CHECK(program::reads(sample, sample.steps[2]) == std::vector<uint32_t>{2, 4, 5});
  CHECK(program::writes(sample, sample.steps[3]) == std::vector<uint32_t>{6, 7});
}

TEST_CASE("Steps that find something else in memory are refused", "[program]") {
  CHECK(problem_after([](Program &p) { std::swap(p.steps[1], p.steps[2]); }) ==
        "TSC-P013 /steps/1 memory: the step reads buffer \"moved\", which a later one writes");
  // relu's result takes over y's memory; a step behind it still reads y.
  CHECK(problem_after([](Program &p) {
          program::Step late = p.steps[1];
          auto &launch = std::get<program::Launch>(late.kind);
          launch.pointers[0].buffer = 6;
          p.steps.push_back(late);
        }) ==
        "TSC-P013 /steps/5 memory: the step reads buffer \"y\" after \"out\" took over its memory");
  CHECK(problem_after([](Program &p) { p.outputs[0].buffer = 6; }) ==
        "TSC-P013 /outputs/0 memory: the output reads buffer \"y\" after \"out\" took over its "
        "memory");
  CHECK(problem_after([](Program &p) {
          std::get<program::Launch>(p.steps[0].kind).pointers[1].offset = 13;
        }) == "TSC-P013 /steps/0 memory: an operand begins at element 13 of buffer \"twice\", "
              "which has 12");
}

TEST_CASE("A branch that takes over memory is seen behind both branches", "[program]") {
  // One branch writes out over y, the other leaves y alone: whoever reads either may read anything,
  // and nothing is said; a read in the branch itself is held to what the branch did.
  const auto with_branch = [](uint32_t in_branch) {
    Program p = program::sample_program();
    program::Conditional conditional;
    conditional.condition = 1;
    conditional.then_steps = 2;
    program::Step late = p.steps[1];
    std::get<program::Launch>(late.kind).pointers[0].buffer = in_branch;
    std::vector<program::Step> steps(p.steps.begin(), p.steps.begin() + 3);
    steps.push_back({conditional, "branch"});
    steps.push_back(p.steps[3]);
    steps.push_back(late);
    steps.push_back(p.steps[4]);
    p.steps = steps;
    return p;
  };
  CHECK(problem_after([&](Program &p) { p = with_branch(7); }).empty());
  CHECK(problem_after([&](Program &p) { p = with_branch(6); }) ==
        "TSC-P013 /steps/5 memory: the step reads buffer \"y\" after \"out\" took over its memory");
}
