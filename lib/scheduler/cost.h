// The one cost model: how long kernels, library calls and groups take on a target. Whoever chooses
// (fusion, templates, overlap) or tells (explain, dump-schedule --json) asks here, so that they
// agree. Rates are what was achieved in measurements, as shares of the target's peaks.
#pragma once

#include "scheduler/schedule.h"
#include "templates/attention/tc_attention_geometry.h"

#include <functional>
#include <string>
#include <vector>

namespace tsc::scheduler {

struct Cost {
  double bytes = 0;       // of memory read and written; of a collective: sent over links by a rank
  double operations = 0;  // arithmetic, a multiplication with its addition counting two
  double nanoseconds = 0; // launch included
};

/// What a group takes. Sizes that are not known take their hint. Nodes that only allocate, waits
/// and changes of storage take nothing.
Cost cost_of(const ir::Module &module, const Schedule &schedule, const Group &group,
             const target::Target &target);

/// Bytes of memory that one kernel of `members` moves: of each storage what accesses touch, no more
/// than it has, reads and writes apart. Without what `stays_inside` says the kernel keeps to
/// itself.
int64_t moved_bytes(const ir::Module &module, const Schedule &schedule,
                    const std::vector<NodeId> &members,
                    const std::function<bool(ir::BufferId)> &stays_inside);

/// A kernel over loops that reads and writes `bytes` and computes `operations` in `dtype`.
double kernel_nanoseconds(const target::Target &target, double bytes, double operations = 0,
                          ir::DType dtype = ir::DType::f32);
/// Whether a product of so many columns runs in the matrix library's kernels without vector
/// accesses: they do not fill whole vectors, and are too few for the device to divide them into
/// those that do and a rest, which would read all of the left factor again.
bool is_between_vectors(ir::DType dtype, int64_t columns);
/// A product of `dtype` in the matrix library, `operations` of it, operands and result `bytes`;
/// `tf32`: factors of f32 may be rounded; `between_vectors`: see above.
double library_nanoseconds(const target::Target &target, double bytes, double operations,
                           ir::DType dtype, bool tf32 = false, bool between_vectors = false);
/// What the library takes at least for a batch of products of f32, whose blocks do not share terms:
/// few tiles leave multiprocessors idle. 0 of others.
double library_batch_nanoseconds(const target::Target &target, ir::DType dtype, bool tf32,
                                 double batches, double rows, double columns, double terms);
/// A product of 16-bit floats whose factors' lines start anywhere, and what it costs that they
/// start at whole vectors.
struct UnalignedProduct {
  double operations = 0, bytes = 0; // of the product
  double tiles = 0, tile_bytes = 0; // of 128 x 128 results; of both factors, that each reads
  double shared_terms = 0;          // that blocks of one tile may share; 0: of a batch
  double copied_bytes = 0;          // read and written
  int copies = 0;
};
/// Whether the copies pay.
bool pays_to_align(const target::Target &target, const UnalignedProduct &product);
/// A product whose rows a collective brings or takes, and that collective.
struct SentProduct {
  int64_t rows = 0, terms = 0, columns = 0;
  ir::DType dtype = ir::DType::f32;
  int64_t ranks = 2, cut_rows = 0; // that exchange; of a rank, that can be cut
  double sent = 0, copied = 0;     // bytes: that a rank sends; read and written by cutting
  double beside = 0;               // nanoseconds of other products that hide the whole collective
};
struct Pieces {
  int64_t count = 1;
  double computing = 0, sending = 0; // nanoseconds, whole
  double whole = 0, in_pieces = 0;   // nanoseconds of both together
};
/// In how many pieces, at most `most`, both run so that one travels while another is computed;
/// whole where the best number takes more than `share` of the time. `in_pieces` is that number's, 0
/// where none was possible.
Pieces pieces_of(const target::Target &target, const SentProduct &product, int64_t most,
                 double share);
/// What sending that many bytes between GPUs of a host takes a rank, in its turns.
double sending_nanoseconds(const target::Target &target, double bytes, int64_t ranks);

/// Attention of 16-bit floats, or of float32, in a kernel of ours.
double attention_nanoseconds(const target::Target &target, double bytes, double operations,
                             ir::DType dtype);
/// Whether there are queries enough for the kernel of float32 (tc_attention_floats.h), a device has
/// room for it, and that is
/// estimated faster than two products and a softmax of scores in memory, which compute what
/// causality hides, too.
bool float_attention_pays(const target::Target &target, const tc_few_work &work, bool causal);
/// Of attention of few queries of 16-bit floats: into how many parts blocks should divide the keys
/// (tc_attention_few.h), so that enough of them are under way, and what results of parts cost is
/// won: 1 where there are enough rows; 0 where the kernel of many queries is as fast, which is not
/// asked for at most tc_few_products of them.
int64_t attention_parts(const target::Target &target, const tc_few_work &work);
/// The same with what the fastest way is estimated to take, of any number of queries.
struct AttentionWay {
  int64_t parts = 0;
  double nanoseconds = 0;
};
AttentionWay attention_way(const target::Target &target, const tc_few_work &work);
/// The same attention as two products and a softmax between them, which `changes` more tensors have
/// a part in; `in_floats`: scores are float32.
double written_attention_nanoseconds(const target::Target &target, const tc_few_work &work,
                                     int changes, bool in_floats);
/// A kernel of its backward pass; `by_groups`: the form for wgmma.
double attention_backward_nanoseconds(const target::Target &target, double bytes, double operations,
                                      bool by_groups);

/// What is changed at run-time indices: so many times, in so many places.
struct AtomicWork {
  double updates = 0, places = 0;
  int64_t bytes = 4;       // of a place
  bool neighbours = false; // what a warp changes lies beside each other
};
/// In the second-level cache, some places being hit more often than others.
double atomic_nanoseconds(const AtomicWork &work);
/// In copies that each of `blocks` blocks of `threads` threads has in shared memory, brought to
/// memory at the end.
double block_copies_nanoseconds(const target::Target &target, const AtomicWork &work, double blocks,
                                double threads);

/// "12.3 us".
std::string microseconds(double nanoseconds);

/// Rows that no block sorts.
struct SortWork {
  double rows = 0, length = 0;          // of a row
  int64_t bytes = 4;                    // of an element
  bool values = true, positions = true; // what is wanted
  bool any_length = false; // a launch finds how long rows are: short ones are sorted whole
};
/// Of a call of ir::Library::sort; sizes that are not known take their hint.
SortWork sort_work(const ir::Module &module, const ir::Extern &call);
/// Whether a kernel sorts the rows whole, their length being what is likely.
bool is_sorted_whole(const target::Target &target, const SortWork &work);
/// By digits of 8 bits, three kernels a pass (codegen/sort_kernels.h), and the bytes they move; or
/// whole, by one kernel that reads and writes them once.
Cost radix_sort_cost(const target::Target &target, const SortWork &work);
/// By chunks of 8192 (4096 of short rows) and merges of 8 of them at a time, as sorts are
/// decomposed in ops. From three measurements on an H200: what counts is how often an element is
/// searched for.
double merge_sort_nanoseconds(const target::Target &target, const SortWork &work);
/// Of the first and the third kernel of a pass: instructions of a thread for each element, counted
/// in the text.
double radix_count_instructions();
double radix_move_instructions(bool positions);
/// How long so many instructions, of all threads, take in `blocks` blocks.
double instruction_nanoseconds(const target::Target &target, double instructions, double blocks);

/// A product in a kernel of ours, with what is fused into it.
struct ProductWork {
  int64_t rows = 0, columns = 0, terms = 0;
  int64_t bytes = 0;        // that pass through memory
  int64_t instructions = 0; // for each result, after the sums are there
  bool gathers = false;     // threads bring the left operand, bulk copies cannot
  bool prologue = false;    // the left operand is no matrix in memory: windows, padding, a slice
  /// What multiplies: matrix units 16-bit floats, threads floats, matrix units floats as TF32,
  /// matrix units 8-bit floats.
  enum class Factors : uint8_t { half, single, tf32, byte } factors = Factors::half;
  int64_t batches = 1; // as many products of these sizes
  /// Rows are in so many sections, each with a right operand of its own; 0: they share it.
  int64_t sections = 0;
  /// Rows and products are what is likely: there may be more, or fewer.
  bool any_number = false;
  /// So many products have their terms beside each other in a line of the left operand, and share a
  /// tile (ProductTile::products).
  int together = 1;
};
ProductWork::Factors factors_of(ir::DType dtype, bool tf32);
double operations_of(const ProductWork &work);
/// Where rows are known at run time only, so many times as many as are likely are thought of, too:
/// who exports a model often does so with one example, or two.
inline constexpr int64_t kMoreRows = 16;
ProductWork with_more_rows(ProductWork work);
/// One way to do it, and how many nanoseconds that takes.
struct ProductWay {
  std::string name; // "128 x 256 results a block"
  ProductTile tile;
  double nanoseconds = 0;
};
/// A product of few rows whose right operand is computed as it is read (tc_product_few.h).
struct FewWork {
  int64_t rows = 0, columns = 0, terms = 0;
  double weight_bytes = 2;        // that memory holds of an element of the right operand
  double weight_instructions = 2; // to compute one
  double other_bytes = 0;         // left operand, results and what they are finished with
};
/// Rows that are few; each 8 of them more are as many more registers.
inline constexpr int64_t kMostFewRows = 64;
/// How a block shares its part of such a product, and how many blocks, a cluster, share the terms.
struct FewTile {
  int row_tiles = 1, column_tiles = 2, across = 4, splits = 1;
  int blocks = 2;      // of a multiprocessor
  bool single = false; // one row
};
struct FewChoice {
  FewTile tile;
  double nanoseconds = 0; // 0: none fits
};
/// The fastest. `run`, `words`: terms of a run, and accesses of 16 bytes that it is made of.
FewChoice few_choice(const target::Target &target, const FewWork &work, int run, int words);
double few_nanoseconds(const target::Target &target, const FewWork &work);
/// Shared memory of a block, in bytes: the stages of both operands or, after them, the results.
int64_t shared_bytes(const ProductTile &tile);
/// Every tile of the template that a block of the target has room for, best first; none where the
/// template's instructions are missing.
std::vector<ProductWay> template_ways(const target::Target &target, const ProductWork &work);
/// How long one of them takes, of `tile`.
double way_nanoseconds(const target::Target &target, const ProductWork &work,
                       const ProductTile &tile);

} // namespace tsc::scheduler
