#include "api/tsc_api.h"

#include "api/calls.h"
#include "api/ready_program.h"
#include "support/diagnostic.h"
#include "symbolic/expr.h"
#include "symbolic/expression_scope.h"

#include <algorithm>
#include <deque>
#include <new>

struct TscApiProgram {
  std::unique_ptr<tsc::api::ReadyProgram> ready;
  bool is_bound = false;
};

namespace {

struct Misuse {
  std::string text;
};

std::string &last_error() {
  thread_local std::string text;
  return text;
}
std::string &last_report() {
  thread_local std::string text;
  return text;
}

TscApiStatus fail(TscApiStatus status, const char *text) {
  try {
    last_error() = text;
  } catch (const std::bad_alloc &) {
    last_error().clear();
  }
  return status;
}

TscApiStatus status_of(tsc_engine::Status status) {
  switch (status) {
  case tsc_engine::Status::bad_argument:
  case tsc_engine::Status::assertion:
    return TSC_API_BAD_INPUT;
  case tsc_engine::Status::device:
  case tsc_engine::Status::out_of_memory:
    return TSC_API_DEVICE;
  default:
    return TSC_API_INTERNAL;
  }
}

/// Nothing that is thrown leaves.
template <class Body> TscApiStatus guarded(const Body &body) {
  try {
    last_error().clear();
    const tsc::api::Call call;
    body();
    return TSC_API_OK;
  } catch (const Misuse &misuse) {
    return fail(TSC_API_USAGE, misuse.text.c_str());
  } catch (const tsc::support::UserError &error) {
    return fail(static_cast<TscApiStatus>(error.exit_code()), error.what());
  } catch (const tsc_engine::Error &error) {
    return fail(status_of(error.status), error.what());
  } catch (const std::bad_alloc &) {
    return fail(TSC_API_DEVICE, "the host has no memory left");
  } catch (const std::exception &error) {
    return fail(TSC_API_INTERNAL, error.what());
  } catch (...) {
    return fail(TSC_API_INTERNAL, "something that is no exception was thrown");
  }
}

void need(bool condition, const char *text) {
  if (!condition)
    throw Misuse{text};
}

std::string_view text_or_nothing(const char *text) { return text ? text : ""; }

/// Where the caller asks for it.
template <class T> void put(T *place, const T &value) {
  if (place)
    *place = value;
}

void need_output(const TscApiProgram *program, size_t output) {
  need(program, "the program is null");
  need(program->is_bound, "no shapes are bound");
  need(output < program->ready->tables().outputs.count, "the program has no such output");
}

/// The shape of each input, or the value of an integer, as Instance::bind takes them.
std::vector<const int64_t *> shapes_of(const tsc_engine::Tables &tables, const TscApiTensor *inputs,
                                       std::deque<int64_t> &values) {
  std::vector<const int64_t *> shapes;
  for (size_t i = 0; i < tables.inputs.count; ++i) {
    const tsc_engine::Input &expected = tables.inputs[i];
    const TscApiTensor &given = inputs[i];
    const std::string name = "input " + std::string(expected.name);
    if (static_cast<int32_t>(expected.view.dtype) != given.dtype)
      throw Misuse{name + " has another dtype than the graph's, " +
                   tsc_engine::name_of(expected.view.dtype)};
    if (given.rank != expected.view.sizes.count)
      throw Misuse{name + " has " + std::to_string(given.rank) + " dimensions, not " +
                   std::to_string(expected.view.sizes.count)};
    if (expected.is_scalar) {
      need(given.data, "an integer input has no value");
      shapes.push_back(&values.emplace_back(*static_cast<const int64_t *>(given.data)));
      continue;
    }
    need(given.rank == 0 || given.sizes, "an input has no sizes");
    shapes.push_back(given.sizes);
  }
  return shapes;
}

} // namespace

extern "C" {

uint32_t tsc_api_version(void) { return TSC_API_VERSION; }

const char *tsc_api_error(void) { return last_error().c_str(); }

TscApiStatus tsc_api_compile(const void *bytes, size_t size, const char *label, const char *options,
                             TscApiProgram **program) {
  return guarded([&] {
    const tsc::symbolic::ExpressionScope scope;
    need(program, "there is no place for the program");
    *program = nullptr;
    need(bytes, "there is no graph");
    auto made = std::make_unique<TscApiProgram>();
    made->ready = tsc::api::compile({static_cast<const char *>(bytes), size},
                                    std::string(text_or_nothing(label)),
                                    tsc::api::parse_options(text_or_nothing(options)));
    *program = made.release();
  });
}

TscApiStatus tsc_api_load(const char *folder, const char *options, TscApiProgram **program) {
  return guarded([&] {
    const tsc::symbolic::ExpressionScope scope;
    need(program, "there is no place for the program");
    *program = nullptr;
    need(folder, "there is no folder");
    auto made = std::make_unique<TscApiProgram>();
    made->ready = tsc::api::load(folder, tsc::api::parse_options(text_or_nothing(options)));
    *program = made.release();
  });
}

void tsc_api_destroy(TscApiProgram *program) {
  try {
    const tsc::api::Call call;
    delete program;
  } catch (const tsc::support::UserError &) { // in this process no call can be made
  }
}

TscApiStatus tsc_api_check(const void *bytes, size_t size, const char *label, const char *options,
                           const char **report) {
  return guarded([&] {
    const tsc::symbolic::ExpressionScope scope;
    need(bytes, "there is no graph");
    need(report, "there is no place for the report");
    last_report() = tsc::api::check({static_cast<const char *>(bytes), size},
                                    std::string(text_or_nothing(label)),
                                    tsc::api::parse_options(text_or_nothing(options)));
    *report = last_report().c_str();
  });
}

TscApiStatus tsc_api_describe(const TscApiProgram *program, const char **json) {
  return guarded([&] {
    need(program, "the program is null");
    need(json, "there is no place for the description");
    *json = program->ready->description().c_str();
  });
}

TscApiStatus tsc_api_count(const TscApiProgram *program, size_t *inputs, size_t *outputs) {
  return guarded([&] {
    need(program, "the program is null");
    put(inputs, program->ready->tables().inputs.count);
    put(outputs, program->ready->tables().outputs.count);
  });
}

TscApiStatus tsc_api_input_info(const TscApiProgram *program, size_t input, const char **name,
                                int32_t *dtype, size_t *rank) {
  return guarded([&] {
    need(program, "the program is null");
    const tsc_engine::Tables &tables = program->ready->tables();
    need(input < tables.inputs.count, "the program has no such input");
    put(name, tables.inputs[input].name);
    put(dtype, static_cast<int32_t>(tables.inputs[input].view.dtype));
    put(rank, static_cast<size_t>(tables.inputs[input].view.sizes.count));
  });
}

TscApiStatus tsc_api_output_info(const TscApiProgram *program, size_t output, const char **name,
                                 const char **path, int32_t *dtype, size_t *rank) {
  return guarded([&] {
    need(program, "the program is null");
    const tsc_engine::Tables &tables = program->ready->tables();
    need(output < tables.outputs.count, "the program has no such output");
    const tsc_engine::Output &row = tables.outputs[output];
    put(name, row.name);
    put(path, row.path);
    put(dtype, row.buffer < 0 ? int32_t{-1} : static_cast<int32_t>(row.view.dtype));
    put(rank, static_cast<size_t>(row.view.sizes.count));
  });
}

TscApiStatus tsc_api_bind(TscApiProgram *program, const TscApiTensor *inputs, size_t count,
                          size_t *workspace_bytes) {
  return guarded([&] {
    need(program, "the program is null");
    const tsc_engine::Tables &tables = program->ready->tables();
    need(count == tables.inputs.count, "the program has another number of inputs");
    need(count == 0 || inputs, "there are no inputs");
    std::deque<int64_t> values; // addresses stay
    const std::vector<const int64_t *> shapes = shapes_of(tables, inputs, values);
    const size_t bytes = program->ready->instance().bind(shapes.data());
    program->is_bound = true;
    if (workspace_bytes)
      *workspace_bytes = bytes;
  });
}

TscApiStatus tsc_api_input(const TscApiProgram *program, size_t input, int64_t *strides,
                           size_t *bytes) {
  return guarded([&] {
    need(program, "the program is null");
    need(program->is_bound, "no shapes are bound");
    need(input < program->ready->tables().inputs.count, "the program has no such input");
    const std::vector<int64_t> found = program->ready->instance().input_strides(input);
    if (strides)
      std::copy(found.begin(), found.end(), strides);
    if (bytes)
      *bytes = program->ready->instance().input_bytes(input);
  });
}

TscApiStatus tsc_api_input_offset(const TscApiProgram *program, size_t input, int64_t *offset) {
  return guarded([&] {
    need(program, "the program is null");
    need(program->is_bound, "no shapes are bound");
    need(input < program->ready->tables().inputs.count, "the program has no such input");
    put(offset, program->ready->instance().input_offset(input));
  });
}

TscApiStatus tsc_api_output(const TscApiProgram *program, size_t output, int64_t *sizes,
                            int64_t *strides, int64_t *offset) {
  return guarded([&] {
    need_output(program, output);
    const tsc_engine::Instance &instance = program->ready->instance();
    const std::vector<int64_t> all_sizes = instance.output_sizes(output);
    const std::vector<int64_t> all_strides = instance.output_strides(output);
    if (sizes)
      std::copy(all_sizes.begin(), all_sizes.end(), sizes);
    if (strides)
      std::copy(all_strides.begin(), all_strides.end(), strides);
    if (offset)
      *offset = instance.output_offset(output);
  });
}

TscApiStatus tsc_api_output_bytes(const TscApiProgram *program, size_t output, size_t *bytes) {
  return guarded([&] {
    need_output(program, output);
    need(bytes, "there is no place for the bytes");
    *bytes = program->ready->instance().output_bytes(output);
  });
}

TscApiStatus tsc_api_output_memory(const TscApiProgram *program, size_t output, void *given,
                                   void **memory) {
  return guarded([&] {
    need_output(program, output);
    need(memory, "there is no place for the address");
    *memory = program->ready->instance().output_memory(output, given);
  });
}

TscApiStatus tsc_api_run(TscApiProgram *program, void *stream, void *const *inputs,
                         void *const *outputs, void *workspace) {
  return guarded([&] {
    need(program, "the program is null");
    need(program->is_bound, "no shapes are bound");
    program->ready->instance().run(stream, inputs, outputs, workspace);
  });
}

TscApiStatus tsc_api_check_runs(TscApiProgram *program, void *stream) {
  return guarded([&] {
    need(program, "the program is null");
    program->ready->instance().check(stream);
  });
}

TscApiStatus tsc_api_load_weights(TscApiProgram *program, const char *file) {
  return guarded([&] {
    need(program, "the program is null");
    need(file, "there is no file");
    program->ready->load_weights(file);
    program->is_bound = false;
  });
}

TscApiStatus tsc_api_set_seed(TscApiProgram *program, void *stream, uint64_t seed, uint64_t call) {
  return guarded([&] {
    need(program, "the program is null");
    program->ready->instance().set_seed(stream, seed, call);
  });
}

size_t tsc_api_expression_count(void) { return tsc::symbolic::expression_count(); }

} // extern "C"
