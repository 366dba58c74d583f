/* C ABI of a compiled model. One shared library holds one model; everything it needs is inside, but
 * the weights.
 *
 *   const TscModel *model = NAME_model();                      NAME_model.h
 *   TscWeights *weights;    model->weights_load(0, "weights.safetensors", &weights);
 *   TscInstance *instance;  model->instance_create(weights, &instance);
 *   model->instance_bind(instance, shapes, &workspace_bytes);     shapes[i]: the sizes of input i
 *   model->instance_run(instance, stream, inputs, outputs, workspace);
 *
 * Every function gives a status and throws nothing. A null handle, array or place for a result is
 * TSC_BAD_ARGUMENT, and destroying null does nothing. One TscWeights serves many instances, also on
 * several threads unless the model mutates weights; an instance is used by one thread at a time.
 * Memory and streams are the caller's: a run allocates nothing and does not wait for the device,
 * but where the model branches or loops by what it computed, or where that decides a size: there it
 * reads a bool or a number back (reads_predicates of TscModelInfo), and cannot be captured in a
 * CUDA graph. A number that it reads may break what the model asserts: then the run fails. */
#ifndef TSC_MODEL_H
#define TSC_MODEL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TSC_ABI_VERSION 4u
#define TSC_API __attribute__((visibility("default")))

typedef enum TscStatus {
  TSC_OK = 0,
  TSC_BAD_ARGUMENT = 1, /* shapes, weights or pointers that do not fit the model */
  TSC_DEVICE_FAILED = 2,
  TSC_OUT_OF_MEMORY = 3,
  TSC_INTERNAL = 4,        /* a defect of the compiler or of this library */
  TSC_ASSERTION_FAILED = 5 /* the model asserts something that does not hold of shapes or data */
} TscStatus;

typedef enum TscDType {
  TSC_BOOL,
  TSC_U8,
  TSC_I8,
  TSC_I16,
  TSC_I32,
  TSC_I64,
  TSC_U16,
  TSC_U32,
  TSC_U64,
  TSC_F16,
  TSC_BF16,
  TSC_F32,
  TSC_F64,
  TSC_F8E4M3FN,
  TSC_F8E5M2,
  TSC_F8E4M3FNUZ,
  TSC_F8E5M2FNUZ,
  TSC_F8E8M0FNU
} TscDType;

/* A number, or an expression over the model's symbols ("4*s0 + 1") with its bounds, both inclusive.
 */
typedef struct TscSize {
  int64_t value; /* if expression is null */
  const char *expression;
  int64_t low, high;
} TscSize;

/* A tensor of the signature: element i sits at offset + sum(i_k * strides_k), in elements, of its
 * memory. */
typedef struct TscTensorInfo {
  const char *name;
  TscDType dtype;
  int32_t rank;
  const TscSize *sizes, *strides;
  TscSize offset;
  int32_t
      is_mutated; /* input, weight: a run writes it. output: it shows a mutated input or weight */
  const char *constant; /* output that is no tensor: its text ("None", "3"); else null */
  const TscSize *value; /* input that is an integer, no tensor: what it says about the symbols; else
                           null. It has no memory */
  const char *path; /* output: where it is in what the user's model gives, keys and positions with
                       dots between ("logits", "cache.0"); null if that is not known */
} TscTensorInfo;

typedef struct TscModelInfo {
  uint32_t abi_version; /* as in TscModel */
  const char *name;
  const char *device; /* "host" or "cuda" */
  size_t input_count, output_count, weight_count;
  const TscTensorInfo *inputs, *outputs, *weights;
  int32_t reads_predicates; /* a run waits for the device, see above */
} TscModelInfo;

typedef struct TscWeights TscWeights;
typedef struct TscInstance TscInstance;

/* A weight in host memory, contiguous. */
typedef struct TscTensorData {
  const char *name;
  const void *data;
  TscDType dtype;
  int32_t rank;
  const int64_t *sizes;
} TscTensorData;

/* What a model can do. Functions are only added within a version, at the end. */
typedef struct TscModel {
  uint32_t abi_version; /* TSC_ABI_VERSION of the library: compare it before anything else */

  const TscModelInfo *(*describe)(void); /* null only if the host has no memory left */

  /* Copies the weights to device number `device` and runs what depends on them alone. Tensors that
   * the model does not know are ignored. On failure *weights is null and create_error says why.
   */
  TscStatus (*weights_create)(int device, const TscTensorData *tensors, size_t count,
                              TscWeights **weights);
  /* The same from a .safetensors file, or from a folder that holds weights.safetensors. */
  TscStatus (*weights_load)(int device, const char *path, TscWeights **weights);
  void (*weights_destroy)(TscWeights *weights); /* instances may still exist: the last one frees */
  size_t (*weights_bytes)(const TscWeights *weights); /* device memory held */

  TscStatus (*instance_create)(TscWeights *weights, TscInstance **instance);
  void (*instance_destroy)(TscInstance *instance);

  /* shapes[i] points at the sizes of input i, or at the value of an integer input. Shapes seen
   * before cost a lookup. */
  TscStatus (*instance_bind)(TscInstance *instance, const int64_t *const *shapes,
                             size_t *workspace_bytes);
  /* `inputs` and `outputs` are device pointers, one per input and output, aligned to 16 bytes, of
   * the sizes that instance_bytes gives; `workspace` is aligned to 256. None of them overlap;
   * before the last step outputs may hold intermediate values. Constant outputs and those that show
   * a mutated tensor may be null. `stream` is a cudaStream_t; the host ignores it. */
  TscStatus (*instance_run)(TscInstance *instance, void *stream, void *const *inputs,
                            void *const *outputs, void *workspace);

  /* Waits for the stream, and fails (TSC_ASSERTION_FAILED, instance_error says which) if an
   * assertion about data did not hold in some run since the last check: what that run left in
   * outputs and mutated tensors is not to be used. On the host instance_run fails so itself. */
  TscStatus (*instance_check)(TscInstance *instance, void *stream);

  /* Of the bound shapes: bytes of memory of each input and output (arrays as long as the counts;
   * may be null). Of an output whose size the data decides the most that it can be; where nothing
   * says that, 0 before a run: no memory is given for it, instance_output_memory says where it is.
   */
  TscStatus (*instance_bytes)(TscInstance *instance, size_t *inputs, size_t *outputs);
  /* Actual sizes, strides and offset of an output (arrays as long as its rank; any may be null).
   * Where the data decides them, those of the last run; before one TSC_BAD_ARGUMENT. */
  TscStatus (*instance_output)(TscInstance *instance, size_t output, int64_t *sizes,
                               int64_t *strides, int64_t *offset);
  /* After a run: where an output is. *memory is `given`, what the run got for it, or, for an output
   * whose size nothing bounds (see instance_bytes), memory of the instance's, good until its next
   * run. */
  TscStatus (*instance_output_memory)(TscInstance *instance, size_t output, void *given,
                                      void **memory);
  /* On: workspace and outputs are filled with 0xFF before each run, so that a read of what was
   * never written shows. */
  void (*instance_set_poison)(TscInstance *instance, int on);

  /* On, as at first: the second run of some shapes is captured as a CUDA graph, and later ones
   * replay it, with other pointers after an update of the graph; the host then makes one call a
   * run. No effect on the host, on runs that wait for the device (reads_predicates), on a stream
   * that the caller captures. */
  void (*instance_set_graphs)(TscInstance *instance, int on);

  /* Random numbers of the next run are those of (seed, call), of the run after it those of (seed,
   * call
   * + 1), and so on; an instance starts with (0, 0). Equal pairs give equal numbers on every
   * device. No effect on a model that draws none. Queued on the stream: runs on it see it in order.
   */
  TscStatus (*instance_set_seed)(TscInstance *instance, void *stream, uint64_t seed, uint64_t call);

  /* Text of the last failure: of this instance, or of this thread's last call that had no instance.
   */
  const char *(*instance_error)(const TscInstance *instance);
  const char *(*create_error)(void);

  /* Memory of the weights' device, for callers that have no allocator of their own. */
  TscStatus (*memory_allocate)(TscWeights *weights, size_t bytes, void **memory);
  void (*memory_release)(TscWeights *weights, void *memory);
  TscStatus (*memory_upload)(TscWeights *weights, void *to, const void *from_host, size_t bytes,
                             void *stream);
  TscStatus (*memory_download)(TscWeights *weights, void *to_host, const void *from, size_t bytes,
                               void *stream); /* waits for the stream */

  /* For models that communicate: the groups of ranks that their collectives name. Number `index`
   * from 0 on; null behind the last. *ranks (may be null) is how many ranks the group has, 0 where
   * nothing says that. */
  const char *(*group_name)(size_t index, int64_t *ranks);
  /* Before the first run each group that the model names gets a communicator of NCCL, on all ranks:
   * the caller's own (an ncclComm_t of the weights' device, which outlives the instance; a
   * collective that hangs is the caller's to abort), */
  TscStatus (*instance_set_communicator)(TscInstance *instance, const char *group, void *nccl_comm);
  /* or one that is made here of an id (TSC_COMMUNICATOR_ID_BYTES), which one rank gets and brings
   * to the others. All ranks of the group call it at once; ranks that do not come, and collectives
   * that do not end, within the time are TSC_DEVICE_FAILED of this call, of instance_run or of
   * instance_check. Communicators of one instance are made in one order on all ranks. Host builds
   * have none: TSC_BAD_ARGUMENT. */
  TscStatus (*communicator_id)(void *id);
  TscStatus (*instance_make_communicator)(TscInstance *instance, const char *group, const void *id,
                                          int64_t rank, int64_t ranks, double timeout_seconds);
} TscModel;
#define TSC_COMMUNICATOR_ID_BYTES 128

/* Of the library that a handle of dlopen stands for: dlsym(handle, "tsc_model"). A program that
 * links models calls NAME_model() of each one's header NAME_model.h: that name is the model's own.
 */
typedef const TscModel *(*TscModelFunction)(void);

#ifdef __cplusplus
}
#endif
#endif
