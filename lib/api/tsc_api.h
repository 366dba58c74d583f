/* The compiler inside another process: graphs in, programs ready to run, with the caller's memory.
 *
 *   TscApiProgram *program;
 *   tsc_api_compile(bytes, size, "model.json", "{\"device\": \"host\"}", &program);
 *   tsc_api_bind(program, inputs, count, &workspace_bytes);
 *   tsc_api_output(program, i, sizes, strides, &offset, &bytes);    to allocate outputs
 *   tsc_api_run(program, stream, input_data, output_data, workspace);
 *
 * Every function that can fail gives a status, the exit codes of the command line; the text of the
 * calling thread's last failure is tsc_api_error(). Nothing is thrown.
 *
 * Threads: any number of them may compile, load, check, run and destroy at once. A program is used
 * by one thread at a time, not always the same one.
 *
 * Forks: a fork waits, 10 s at most, for calls of other threads. The child may compile, and run
 * what was compiled before, on the host; on a GPU only what it compiles itself, and if its parent
 * has not used the GPU (CUDA's rule). If the fork waited in vain every call in the child fails
 * with TSC-R019. The process may end while calls are at work; the library is not unloaded before.
 */
#ifndef TSC_API_H
#define TSC_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TSC_API_VERSION 1u

typedef enum TscApiStatus {
  TSC_API_OK = 0,
  TSC_API_USAGE = 2,       /* options, or calls in the wrong order */
  TSC_API_BAD_INPUT = 3,   /* a graph, a folder, tensors that do not fit */
  TSC_API_UNSUPPORTED = 4, /* well-formed, but uses what tsc does not have */
  TSC_API_DEVICE = 5,      /* a device, a compiler or a library failed */
  TSC_API_INTERNAL = 70    /* a defect of tsc */
} TscApiStatus;

typedef struct TscApiProgram TscApiProgram;

/* A tensor as the caller has it; strides in elements. dtype: TscDType of tsc_model.h. A complex
 * tensor is given as its parts, with a last dimension of 2. An integer input has rank 0, dtype
 * int64 and its value, in host memory, at `data`. */
typedef struct TscApiTensor {
  void *data;
  int32_t dtype, rank;
  const int64_t *sizes, *strides;
} TscApiTensor;

uint32_t tsc_api_version(void);
/* Of the calling thread; good until its next call. */
const char *tsc_api_error(void);

/* `bytes`: graph JSON, a torch.export model.json or a .pt2 archive; `label` stands for its path in
 * messages. `options`: a JSON object or null; its keys, all optional, mean what the options of
 * tsc run do: "device" ("host", "cuda"), "device_index", "plan" ("serial", "cuda"), "arch",
 * "policy", "policy_options", "tf32", "deterministic", "locks", "operators", "use_cache",
 * "use_graphs", "cache_folder". */
TscApiStatus tsc_api_compile(const void *bytes, size_t size, const char *label, const char *options,
                             TscApiProgram **program);
/* The same for a folder or a package (NAME.tsc) that `tsc compile -o` wrote, with its weights. A
 * package with code for what runs here needs no compiler. */
TscApiStatus tsc_api_load(const char *folder, const char *options, TscApiProgram **program);
void tsc_api_destroy(TscApiProgram *program);

/* What tsc_api_compile would refuse, all of it, as JSON: {"status", "problems": [{"code",
 * "message", "nodes", "target", "next_step"}]}. Good until the thread's next call. */
TscApiStatus tsc_api_check(const void *bytes, size_t size, const char *label, const char *options,
                           const char **report);

/* The signature as JSON: {"name", "device", "draws", "inputs": [{"name", "dtype", "rank",
 * "is_integer", "is_complex", "mutated"}], "outputs": [{"name", "path", "dtype", "rank",
 * "is_complex", "constant", "mutation"}], "structure" (of outputs that are no mutations,
 * docs/graph-format.md; null if it is not known), "kernels", "library_calls", "compiled",
 * "from_cache", "compile_ms"}. Good as long as the program. */
TscApiStatus tsc_api_describe(const TscApiProgram *program, const char **json);

/* What of it is needed to call a program without reading JSON. Any place may be null. */
TscApiStatus tsc_api_count(const TscApiProgram *program, size_t *inputs, size_t *outputs);
TscApiStatus tsc_api_input_info(const TscApiProgram *program, size_t input, const char **name,
                                int32_t *dtype, size_t *rank);
/* `path`: in what the model gives ("logits"); "" if it is not known. A constant has dtype -1. */
TscApiStatus tsc_api_output_info(const TscApiProgram *program, size_t output, const char **name,
                                 const char **path, int32_t *dtype, size_t *rank);

/* Takes the sizes of the inputs (strides and data are not looked at, but of integers). */
TscApiStatus tsc_api_bind(TscApiProgram *program, const TscApiTensor *inputs, size_t count,
                          size_t *workspace_bytes);
/* Of the bound shapes: the strides that input memory has to have, from the pointer that a run is
 * given on, and its bytes. Any may be null. */
TscApiStatus tsc_api_input(const TscApiProgram *program, size_t input, int64_t *strides,
                           size_t *bytes);
/* Where in that memory the first element is, in elements: not 0 where the graph's input begins
 * behind an aligned place (a slice of another tensor). The pointer that a run takes is that of the
 * memory, not of the element. */
TscApiStatus tsc_api_input_offset(const TscApiProgram *program, size_t input, int64_t *offset);
/* Sizes, strides and offset (elements) of an output in its memory of `bytes`. Where data decides
 * sizes, `bytes` is the most that they can be before a run, and the rest is asked for after it. */
TscApiStatus tsc_api_output(const TscApiProgram *program, size_t output, int64_t *sizes,
                            int64_t *strides, int64_t *offset);
TscApiStatus tsc_api_output_bytes(const TscApiProgram *program, size_t output, size_t *bytes);
/* After a run: where an output is. *memory is `given`, what the run got for it, or, where nothing
 * bounds a size that the data decides (`bytes` was 0 before the first run), memory of the
 * program's, good until its next run. */
TscApiStatus tsc_api_output_memory(const TscApiProgram *program, size_t output, void *given,
                                   void **memory);
/* Queues a run on `stream` (a cudaStream_t; null on the host, where the run is done when this
 * returns). Data of inputs and outputs is aligned to 16 bytes, the workspace to 256. Outputs that
 * are constants or show a mutated tensor may be null. */
TscApiStatus tsc_api_run(TscApiProgram *program, void *stream, void *const *inputs,
                         void *const *outputs, void *workspace);
/* Waits for the stream and says whether a value was out of range, or an assertion did not hold, in
 * a run since the last check. On the host a run says so itself. */
TscApiStatus tsc_api_check_runs(TscApiProgram *program, void *stream);
/* Other weights from here on (a fine-tuned model, LoRA merged into its matrices): those of a
 * .safetensors or .npz file, and for names that it lacks those from before. Kernels stay as they
 * are; shapes have to be bound again. If it fails, the program has the weights that it had. */
TscApiStatus tsc_api_load_weights(TscApiProgram *program, const char *file);
TscApiStatus tsc_api_set_seed(TscApiProgram *program, void *stream, uint64_t seed, uint64_t call);

/* Expressions of sizes and indices that stay in the process: those of a compilation end with it.
 * Their number does not grow with compilations. */
size_t tsc_api_expression_count(void);

#ifdef __cplusplus
}
#endif
#endif
