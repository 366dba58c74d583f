#include "scheduler/cost.h"

#include "support/diagnostic.h"
#include "templates/product/tc_product_geometry.h"
#include "templates/sort/tc_radix_geometry.h"

#include <algorithm>
#include <cmath>
#include <span>

namespace tsc::scheduler {

namespace {

// Measured on an H200, 16-bit floats (docs/templates.md, docs/attention.md): shares of what its
// data sheet says. Other dtypes and GPUs are taken to reach the same shares, until they are
// measured; a product of 4096 x 4096 x 4096 floats was, at 0.76 of the roof.
constexpr double kLibraryShare = 700.0 / 989;
constexpr double kAttentionShare = 250.0 / 989, kAttentionByGroupsShare = 590.0 / 989;
/// Of float32's roof: 40 TFLOP/s at depth 64 and 37 at 128, of 67. What a block that has its
/// multiprocessor to itself reaches was not measured. Products of as few terms as a head is deep,
/// and scores between them, take longer than estimated: 48 heads of 577 x 577 x 64 187 us, not 130.
constexpr double kFloatAttentionShare = 0.6, kLoneFloatAttentionShare = 0.35,
                 kWrittenFloatAttention = 1.35;
/// Of its backward pass: of the products that each form has, five where groups of warps divide the
/// work and what comes to queries is added up (530 TFLOP/s of an operator's five at 4096 keys of
/// 128), seven else. The form with mma.sync is taken to be as fast as in the forward pass.
constexpr double kAttentionBackwardShare = 200.0 / 989,
                 kAttentionBackwardByGroupsShare = 545.0 / 989;
constexpr double kAchievedBandwidth = 0.85;
constexpr double kLibraryStart = 5000; // nanoseconds: launch, first loads, last stores
constexpr double kKernelStart = 2500;
constexpr double kTemplateStart = 3500;
constexpr double kRoundStart = 500; // of each round of blocks
/// Sums of blocks that share a tile's terms put together, nanoseconds a result; not measured.
constexpr double kJoin = 0.1;
/// The same where blocks of a multiprocessor share it, and each reads its share of all sums: 4
/// bytes of about 25 a nanosecond that a multiprocessor gets from others, for each of the blocks.
constexpr double kJoinShared = 0.16;
// A block loads, multiplies and stores one after the other: alone on its multiprocessor it leaves
// memory idle most of the time, unless groups of its warps divide the work.
constexpr double kAloneBandwidth = 0.32, kSharedBandwidth = 0.65;
constexpr double kNotOverlapped = 0.1; // of computing and memory's time, the shorter's share
constexpr double kLanesANanosecond = 128 * 1.4; // of a multiprocessor
/// The same while results of products are finished, which other warps' products partly hide:
/// measured with GELU in both forms and SiLU behind 96 to 384 terms.
constexpr double kFinishingLanes = 128 * 1.75;
/// Two blocks begin, and end, together.
constexpr double kPairStart = 2200;
/// Where one of two groups finishes while the other multiplies. Nothing else is between rounds:
/// 8192 x 2304 x 768 with ReLU 45.2 us, 4.6 of it at its ends, 8192 x 4800 x 1600 175.
constexpr double kTurnLanes = 128 * 1.2;
/// Instructions of a result that is finished with few: its way to memory, 12544 x 672 x 192 15.7
/// us.
constexpr double kTurn = 18;
/// What a round takes where the left operand is no matrix in memory (windows that are brought tap
/// by tap, runs that threads read), of a matrix's time; its start counts then, as it was measured.
constexpr double kTaps = 1.05;
/// Of a line that a bulk copy brings, nanoseconds, where only a part of it is in memory: 24 terms
/// of 16 bits, 320 lines a tile, 6 us. Lines of 64 bytes and more are as fast as whole ones.
constexpr double kNarrowLine = 17;
constexpr int64_t kNarrowTerms = 32;
/// Of one element in one chunk, with what else a merge does: 1.87 ms for a row of 4194304
/// floats, 2.67 for 8 rows of 1048576, 11.8 for 16000001 64-bit integers. Launches: of the chunks,
/// of each merge.
constexpr double kSearch = 0.021, kWideSearch = 0.031; // nanoseconds
constexpr int kChunkLaunches = 2, kMergeLaunches = 3;
constexpr double kMergedAtOnce = 8;

struct Measured {
  ProductTile tile;
  double flops;       // a nanosecond, all multiprocessors of an H200 (132)
  double gathers = 0; // the same where threads bring the left operand; 0: as fast
};
constexpr Measured kTiles[] = {
    {{128, 256, 3, 1, 1, true}, 790e3, 670e3},
    {{128, 192, 4, 1, 1, true}, 730e3, 648e3},
    {{128, 128, 5, 1, 1, true}, 735e3, 597e3},
    {{256, 128, 3, 1, 1, true}, 710e3, 653e3},
    {{128, 64, 7, 1, 1, true}, 450e3, 419e3},
    {{128, 128, 5, 1, 1, true, 1, true}, 760e3, 609e3},
    {{128, 128, 5, 1, 1, true, 1, true, true}, 770e3, 609e3},
    {{128, 256, 3, 1, 1, true, 1, false, true}, 800e3, 660e3},
    {{128, 192, 4, 1, 1, true, 1, false, true}, 745e3, 640e3},
};
constexpr double kMultiprocessors = 132; // of the H200 that these were measured on
/// Of floats multiplied by threads, not measured yet: the multiply-and-adds among the instructions
/// of a step (8 x 16 results a thread: 4096 of 4460, 8 x 8: 2048 of 2313, 8 x 4: 1024 of 1242) of
/// 60 TFLOP/s, less a tenth for barriers and registers that meet in a bank.
constexpr Measured kSingleTiles[] = {{{128, 128, 3, 0, 2}, 49e3},
                                     {{128, 64, 4, 0, 2}, 47e3},
                                     {{64, 128, 4, 0, 2}, 47e3},
                                     {{64, 64, 4, 0, 3}, 43e3},
                                     {{128, 32, 3, 0, 3}, 42e3}};
/// Of that rate, what one block reaches where several could share its multiprocessor: it waits for
/// its copies and its registers. Not measured.
constexpr double kOneOfSeveral = 0.65;
/// Of 8-bit floats, whose sums of a step threads add up: measured at 4096 to 11008 terms.
constexpr Measured kByteTiles[] = {
    {{128, 256, 3, 1, 1, true}, 1385e3},
    {{128, 192, 4, 1, 1, true}, 1270e3},
    {{128, 128, 5, 1, 1, true}, 1360e3},
    {{256, 128, 3, 1, 1, true}, 1340e3},
    {{128, 64, 7, 1, 1, true}, 835e3},
    {{128, 128, 5, 1, 1, true, 1, true}, 930e3},
    {{128, 128, 5, 1, 1, true, 1, false, true}, 1335e3},
    {{128, 256, 3, 1, 1, true, 1, false, true}, 1410e3},
};
/// As TF32: not measured yet. Taken to reach 60% of 400 TFLOP/s, narrow tiles less as above; by
/// groups of warps half of what 16 bits do.
constexpr Measured kTf32Tiles[] = {
    {{128, 256, 3, 1, 1, true}, 390e3}, {{128, 192, 4, 1, 1, true}, 360e3},
    {{128, 128, 5, 1, 1, true}, 360e3}, {{256, 128, 3, 1, 1, true}, 355e3},
    {{128, 64, 7, 1, 1, true}, 225e3},
};
/// Where threads bring the left operand, rounding it on the way.
constexpr Measured kGatheredTf32Tiles[] = {
    {{128, 256, 4, 0, 1}, 240e3}, {{128, 128, 3, 0, 2}, 220e3}, {{128, 64, 4, 0, 2}, 150e3}};

std::span<const Measured> measured_tiles(const ProductWork &work) {
  switch (work.factors) {
  case ProductWork::Factors::single:
    return kSingleTiles;
  case ProductWork::Factors::tf32:
    if (work.gathers)
      return kGatheredTf32Tiles;
    return kTf32Tiles;
  case ProductWork::Factors::byte:
    return kByteTiles;
  default:
    return kTiles;
  }
}

double memory_nanoseconds(const target::Target &target, double bytes, double achieved) {
  return bytes / (target.bandwidth * 1e-9 * achieved);
}

double compute_nanoseconds(double operations, double peak, double share) {
  return peak > 0 ? operations / (peak * 1e-9 * share) : 0;
}

/// Operations a second at most; products have 16-bit floats of their own, TF32 at half and 8-bit
/// floats at twice their rate on every target.
double peak_of(const target::Target &target, ir::DType dtype, bool is_product, bool tf32 = false) {
  if (dtype == ir::DType::f64)
    return target.flops_f64;
  if (is_product && dtype == ir::DType::f32 && tf32)
    return target.flops_16bit / 2;
  if (is_product &&
      ((tensor::is_float8(dtype) && target.has_matrix_float8) || dtype == ir::DType::i8))
    return target.flops_16bit * 2;
  return is_product && tensor::is_reduced_float(dtype) ? target.flops_16bit : target.flops_f32;
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t tiles_of(const ProductWork &work, const ProductTile &tile) {
  const int64_t own = std::min(work.rows, work.sections); // sections with rows, at most
  if (own > 0)                                            // the last tile of a section is half full
    return std::max(ceil_div(work.rows, tile.rows) + own / 2, own) *
           ceil_div(work.columns, tile.columns);
  const int64_t down =
      tile.pair ? 2 * ceil_div(work.rows, 2 * tile.rows) : ceil_div(work.rows, tile.rows);
  return ceil_div(work.batches, tile.products) * down * ceil_div(work.columns, tile.columns);
}

/// Blocks that share a multiprocessor take turns: two of them take twice as long as one, or a
/// little less where more could share it.
double turns_taken(int64_t turns, int at_once) {
  const auto last = static_cast<double>(turns % at_once);
  if (last == 0)
    return static_cast<double>(turns);
  const double share = kOneOfSeveral + (1 - kOneOfSeveral) * (last - 1) / (at_once - 1);
  return static_cast<double>(turns) - last + last / share;
}

double template_nanoseconds(const target::Target &target, const Measured &way,
                            const ProductWork &work) {
  const ProductTile &tile = way.tile;
  const int64_t blocks = tiles_of(work, tile) * tile.splits;
  const double rate = (work.gathers && way.gathers > 0 ? way.gathers : way.flops) /
                      kMultiprocessors; // of a multiprocessor
  const double block =
      2.0 * tile.rows * tile.columns * static_cast<double>(work.terms * tile.products) / rate;
  const auto instructions = static_cast<double>(work.instructions);
  const double finish = static_cast<double>(work.batches * work.rows) *
                        static_cast<double>(work.columns) * instructions /
                        (kFinishingLanes * target.multiprocessors);
  const int64_t turns = ceil_div(blocks, target.multiprocessors);
  const auto rounds = static_cast<double>(turns);
  const double join = tile.groups ? kJoin : kJoinShared * tile.blocks;
  double compute = turns_taken(turns, tile.blocks) * block / tile.splits +
                   rounds / tile.blocks * kRoundStart + finish +
                   (tile.splits > 1 ? join * static_cast<double>(ceil_div(turns, tile.blocks)) *
                                          tile.rows * tile.columns
                                    : 0);
  if (tile.turns) { // the longer of both hides the other, but that of the last tile
    const double one = tile.rows * tile.columns * std::max(instructions, kTurn) / kTurnLanes,
                 each = std::max(block, one);
    compute = rounds * (work.prologue ? each * kTaps + kRoundStart : each) + one;
  }
  if (work.terms < kNarrowTerms && tile.groups && work.batches == 1 && work.sections == 0 &&
      work.factors == ProductWork::Factors::half) {
    const int brought = tile.pair                      ? tile.columns / 2
                        : work.columns <= tile.columns ? 0 // it stays in shared memory
                                                       : tile.columns;
    compute = std::max(compute, rounds * kNarrowLine * (tile.rows + brought));
  }
  if (tile.pair)
    compute += kPairStart;
  const double memory =
      memory_nanoseconds(target, static_cast<double>(work.bytes),
                         tile.blocks > 1 || tile.groups ? kSharedBandwidth : kAloneBandwidth);
  return kTemplateStart + std::max(compute, memory) + kNotOverlapped * std::min(compute, memory);
}

/// Into how many parts terms are cut, where that fills multiprocessors that tiles leave idle.
Measured best_split(const target::Target &target, const Measured &way, const ProductWork &work) {
  constexpr int kSplits[] = {2, 4, 8};
  constexpr int kMostOfGroups = 4;    // where groups of warps divide the work
  constexpr int64_t kFewestSteps = 4; // of a block
  using Factors = ProductWork::Factors;
  const int64_t bytes = work.factors == Factors::half   ? 2
                        : work.factors == Factors::byte ? 1
                                                        : 4,
                steps = ceil_div(work.terms * way.tile.products * bytes, tc_product_line);
  Measured best = way;
  for (const int splits : kSplits) {
    Measured split = way;
    split.tile.splits = splits;
    const ProductTile &tile = split.tile;
    const int64_t places = int64_t{target.multiprocessors} * (tile.groups ? 1 : tile.blocks);
    constexpr int kRun = tc_product_run; // columns of each block, at least
    const bool has_room =
        tile.columns >= splits * kRun &&
        (!tile.groups || (splits <= kMostOfGroups &&
                          tc_product_joined_bytes(tile.rows, tile.columns, splits) <=
                              tile.stages * tc_product_stage_bytes(tile.rows, tile.columns)));
    const bool fits = has_room && !tile.turns && !tile.pair && work.sections == 0 &&
                      !(tile.groups && work.any_number) && // of many rows each has several tiles
                      tiles_of(work, tile) * splits <= places && steps >= splits * kFewestSteps;
    if (fits &&
        template_nanoseconds(target, split, work) < template_nanoseconds(target, best, work))
      best = split;
  }
  return best;
}

} // namespace

std::string microseconds(double nanoseconds) {
  const auto tenths = static_cast<int64_t>(nanoseconds / 100 + 0.5);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " us";
}

int64_t shared_bytes(const ProductTile &tile) {
  return tile.groups ? tc_product_group_bytes(tile.rows, tile.columns, tile.stages)
                     : tc_product_shared_bytes(tile.rows, tile.columns, tile.stages);
}

// H100: 18.5 million floats added at places apart in 0.35 ms, 22.4 million 16-bit floats in runs of
// 16 bytes in 0.03; 7.2 million 64-bit integers to 101 places in 2.3 ms, the sector (32 bytes) that
// most go to taking 13% of them.
double atomic_nanoseconds(const AtomicWork &work) {
  constexpr double kApart = 50, kBeside = 300; // a nanosecond
  constexpr double kOneSector = 2.5;           // nanoseconds from one update of it to the next
  constexpr double kUneven = 4;                // times as many as go to others, a guess
  const double sectors = std::max(1.0, work.places * static_cast<double>(work.bytes) / 32);
  return std::max(work.updates / (work.neighbours ? kBeside : kApart),
                  work.updates / sectors * kUneven * kOneSector);
}

// Counted: a float is added by a loop that compares and swaps, ten cycles of a multiprocessor for a
// warp's if no two meet, and thrice that at places apart, in banks that others want too.
double block_copies_nanoseconds(const target::Target &target, const AtomicWork &work, double blocks,
                                double threads) {
  constexpr double kApart = 1.5, kBeside = 5; // of a multiprocessor, a nanosecond
  constexpr double kBusy = 1024;              // threads that keep it busy
  constexpr double kBroughtBack = 300;        // a nanosecond
  constexpr double kTurns = 1000;             // filling, barriers
  const double busy = std::min(1.0, blocks * threads / (kBusy * target.multiprocessors));
  return work.updates / ((work.neighbours ? kBeside : kApart) * target.multiprocessors * busy) +
         blocks * work.places / kBroughtBack + kTurns;
}

ProductWork::Factors factors_of(ir::DType dtype, bool tf32) {
  using Factors = ProductWork::Factors;
  if (tensor::size_in_bytes(dtype) == 1)
    return Factors::byte;
  if (dtype != ir::DType::f32)
    return Factors::half;
  return tf32 ? Factors::tf32 : Factors::single;
}

double operations_of(const ProductWork &work) {
  return 2.0 * static_cast<double>(work.batches * work.rows) * static_cast<double>(work.columns) *
         static_cast<double>(work.terms);
}

namespace {

// What the library's kernels without vector accesses reach on an H200: 5000 x 4999 x 3001 of bf16
// 104 TFLOP/s, 4097 x 4097 x 4097 126, 11336 x 577 x 5984 of f16, whose factors lie whole, 94.
constexpr double kUnalignedShare = 115.0 / 989;

} // namespace

bool is_between_vectors(ir::DType dtype, int64_t columns) {
  constexpr int64_t kVector = 8, kDivided = 1024; // as the device has it (cuda_matmul.cpp)
  return tensor::is_reduced_float(dtype) && columns < kDivided && columns % kVector != 0;
}

double library_nanoseconds(const target::Target &target, double bytes, double operations,
                           ir::DType dtype, bool tf32, bool between_vectors) {
  const double peak = peak_of(target, dtype, true, tf32);
  return kLibraryStart +
         std::max(compute_nanoseconds(operations, peak,
                                      between_vectors ? kUnalignedShare : kLibraryShare),
                  memory_nanoseconds(target, bytes, kAchievedBandwidth));
}

double library_batch_nanoseconds(const target::Target &target, ir::DType dtype, bool tf32,
                                 double batches, double rows, double columns, double terms) {
  // H200: 2 products of 64 x 1024 x 27440 took 1.04 ms, what 16 multiprocessors take for tiles of
  // 128 x 64. Smaller tiles are assumed, which leave fewer idle, and narrow ones for narrow
  // matrices.
  constexpr double kTile = 64, kNarrow = 16;
  if (dtype != ir::DType::f32 || tf32 || batches < 2)
    return 0;
  const auto side = [&](double size) {
    return std::min(kTile, std::ceil(size / kNarrow) * kNarrow);
  };
  const double tiles = batches * std::ceil(rows / kTile) * std::ceil(columns / kTile),
               busy = std::min(tiles, static_cast<double>(target.multiprocessors)),
               operations = 2 * side(rows) * side(columns) * terms;
  return kLibraryStart + compute_nanoseconds(tiles / busy * target.multiprocessors * operations,
                                             target.flops_f32, kLibraryShare);
}

bool pays_to_align(const target::Target &target, const UnalignedProduct &product) {
  // What one block brings, bytes a nanosecond: 32 products of 64 x 3136 x 49 took 46 us, which 32
  // of 132 multiprocessors worked on; 13 or so with whole vectors.
  constexpr double kUnalignedBlock = 18, kBlock = 60;
  // 777 x 333 x 999, 21 tiles, takes 20 us, and 31 x 257 x 100003, 3 tiles, 79: blocks share terms,
  // so many each.
  constexpr double kTermsOfBlock = 256;
  const double blocks = product.tiles * std::max(1.0, product.shared_terms / kTermsOfBlock);
  const auto time = [&](double share, double rate) {
    const double at_once = std::min(blocks, static_cast<double>(target.multiprocessors)),
                 brought = at_once > 0 ? product.tiles * product.tile_bytes / (at_once * rate) : 0;
    return std::max({compute_nanoseconds(product.operations, target.flops_16bit, share),
                     memory_nanoseconds(target, product.bytes, kAchievedBandwidth), brought});
  };
  return time(kLibraryShare, kBlock) + product.copies * kKernelStart +
             memory_nanoseconds(target, product.copied_bytes, kAchievedBandwidth) <
         time(kUnalignedShare, kUnalignedBlock);
}

double attention_nanoseconds(const target::Target &target, double bytes, double operations,
                             ir::DType dtype) {
  const bool floats = dtype == ir::DType::f32;
  const double share = floats             ? kFloatAttentionShare
                       : target.has_wgmma ? kAttentionByGroupsShare
                                          : kAttentionShare;
  return kTemplateStart +
         std::max(compute_nanoseconds(operations,
                                      floats ? peak_of(target, dtype, false) : target.flops_16bit,
                                      share),
                  memory_nanoseconds(target, bytes, kAchievedBandwidth));
}

namespace {

double rows_of(const tc_few_work &work) {
  return static_cast<double>(work.batches) * static_cast<double>(work.heads) *
         static_cast<double>(work.queries);
}
/// Queries, keys, values and results, 16 bits each.
double attention_bytes(const tc_few_work &work) {
  return 4.0 * work.depth *
         (rows_of(work) + static_cast<double>(work.batches * work.key_heads * work.keys));
}

/// The kernel of many queries: its roof, and what items take where they have few keys.
double many_queries_nanoseconds(const target::Target &target, const tc_few_work &work) {
  // A step of 128 keys and 128 queries takes 2 us, whoever asked for them: 1536 items of two steps
  // take 49 us on an H200 (64 x 12 heads of 197 rows, depth 64).
  constexpr double kKey = 16;
  constexpr int64_t kStep = 128, kRows = tc_attention_rows;
  const int64_t items = work.batches * work.heads * ceil_div(work.queries, kRows);
  const double steps = static_cast<double>(ceil_div(items, target.multiprocessors)) *
                       static_cast<double>(ceil_div(work.keys, kStep) * kStep) * kKey;
  return std::max(
      kTemplateStart + steps,
      attention_nanoseconds(target, attention_bytes(work),
                            4.0 * rows_of(work) * static_cast<double>(work.keys) * work.depth,
                            ir::DType::bf16));
}

/// The kernel of few queries whose keys are cut into `parts`.
double few_queries_nanoseconds(const target::Target &target, const tc_few_work &work,
                               int64_t parts) {
  // Bytes a nanosecond that the loads under way in one block bring, 64 KiB each 1.6 us; not
  // measured.
  constexpr double kOfBlock = 40;
  constexpr double kRound = 1000;    // nanoseconds: first loads, last stores
  constexpr double kTogether = 2500; // the kernel that puts parts together
  const int64_t keys = tc_few_part(work.keys, parts);
  const int step = 2 * tc_few_step_bytes(work.depth),
            stages = tc_few_stages(step, 0, 1, target.shared_bytes_per_block, keys);
  const int at_once = std::clamp(target.shared_bytes_per_multiprocessor /
                                     (tc_few_bytes(work.depth, step, 0, stages, 1) + 1024),
                                 1, 3);
  const int64_t slots = int64_t{target.multiprocessors} * at_once;
  const int64_t rows = work.queries * (work.heads / std::max<long long>(1, work.key_heads));
  const int64_t blocks =
      work.batches * work.key_heads * ceil_div(rows, 16 * tc_few_tiles(work.depth, rows));
  const double bandwidth = target.bandwidth * kAchievedBandwidth / 1e9; // bytes a nanosecond
  const double bytes = 4.0 * static_cast<double>(std::min<int64_t>(keys, work.keys) * work.depth);
  const int64_t all = blocks * parts, last = all % slots;
  double nanoseconds = static_cast<double>(all - last) * bytes / bandwidth +
                       static_cast<double>(ceil_div(all, slots)) * kRound;
  if (last > 0)
    nanoseconds += std::max(static_cast<double>(last) * bytes / bandwidth, bytes / kOfBlock);
  if (parts > 1)
    nanoseconds +=
        kTogether + 8.0 * static_cast<double>(parts) * rows_of(work) * work.depth / bandwidth;
  return nanoseconds;
}

} // namespace

AttentionWay attention_way(const target::Target &target, const tc_few_work &work) {
  if (work.queries > tc_few_queries || work.depth > tc_few_depth)
    return {0, many_queries_nanoseconds(target, work)};
  AttentionWay best;
  for (int64_t parts = 1; parts <= tc_few_parts; ++parts) {
    if (parts > 1 && (parts - 1) * tc_few_part(work.keys, parts) >= work.keys) // one is empty
      continue;
    const double nanoseconds = few_queries_nanoseconds(target, work, parts);
    if (parts == 1 || nanoseconds < best.nanoseconds)
      best = {parts, nanoseconds};
  }
  const double other = many_queries_nanoseconds(target, work);
  return work.queries > tc_few_products && other <= best.nanoseconds ? AttentionWay{0, other}
                                                                     : best;
}

int64_t attention_parts(const target::Target &target, const tc_few_work &work) {
  return attention_way(target, work).parts;
}

double written_attention_nanoseconds(const target::Target &target, const tc_few_work &work,
                                     int changes, bool in_floats) {
  const double rows = rows_of(work), scores = rows * static_cast<double>(work.keys);
  const double bytes = scores * (in_floats ? 4 : 2), operations = 2 * scores * work.depth;
  const double product =
      library_nanoseconds(target, attention_bytes(work) / 2 + bytes, operations, ir::DType::bf16);
  return 2 * product +
         kernel_nanoseconds(target, 2 * bytes + changes * static_cast<double>(work.keys) * 2, 0);
}

bool float_attention_pays(const target::Target &target, const tc_few_work &work, bool causal) {
  constexpr int kReserved = 1024; // bytes of shared memory that a block takes beside its own
  if (work.queries < tc_float_queries)
    return false;
  const int rows =
      tc_float_rows(work.depth, work.batches * work.heads, work.queries, target.multiprocessors);
  const int bytes = tc_float_bytes(work.depth, rows);
  if (bytes > target.shared_bytes_per_block)
    return false;
  const int64_t blocks = work.batches * work.heads * ceil_div(work.queries, rows);
  const int64_t most = ceil_div(blocks, target.multiprocessors); // of a multiprocessor
  const bool alone = most == 1 || 2 * (bytes + kReserved) > target.shared_bytes_per_multiprocessor;
  const double roof = peak_of(target, ir::DType::f32, false);
  const double keys =
      static_cast<double>(ceil_div(work.keys, tc_float_keys) * tc_float_keys) *
      (causal ? 0.5 + 0.5 * std::min(1.0, 64.0 / static_cast<double>(work.keys)) : 1);
  const double operations = 4.0 * static_cast<double>(most * target.multiprocessors * rows) * keys *
                            tc_float_padded(work.depth, rows);
  const double kernel =
      kTemplateStart +
      std::max(compute_nanoseconds(operations, roof,
                                   alone ? kLoneFloatAttentionShare : kFloatAttentionShare),
               memory_nanoseconds(target, 2 * attention_bytes(work), kAchievedBandwidth));
  const double scores = rows_of(work) * static_cast<double>(work.keys);
  const double product = library_nanoseconds(target, attention_bytes(work) + 4 * scores,
                                             2 * scores * work.depth, ir::DType::f32);
  return kernel <
         kWrittenFloatAttention * (2 * product + kernel_nanoseconds(target, 8 * scores, 0));
}

double attention_backward_nanoseconds(const target::Target &target, double bytes, double operations,
                                      bool by_groups) {
  const double share =
      by_groups && target.has_wgmma ? kAttentionBackwardByGroupsShare : kAttentionBackwardShare;
  return kTemplateStart + std::max(compute_nanoseconds(operations, target.flops_16bit, share),
                                   memory_nanoseconds(target, bytes, kAchievedBandwidth));
}

double kernel_nanoseconds(const target::Target &target, double bytes, double operations,
                          ir::DType dtype) {
  return kKernelStart + std::max(compute_nanoseconds(operations, peak_of(target, dtype, false), 1),
                                 memory_nanoseconds(target, bytes, kAchievedBandwidth));
}

double radix_count_instructions() { return 12; }
double radix_move_instructions(bool positions) { return positions ? 85 : 70; }
double instruction_nanoseconds(const target::Target &target, double instructions, double blocks) {
  constexpr double kIssued = 0.75; // of the lanes, what dependences leave
  return instructions / (kLanesANanosecond * kIssued *
                         std::min(blocks, static_cast<double>(target.multiprocessors)));
}

namespace {

/// Rows that a block sorts, of a length that a launch finds. Instructions of a thread for each
/// element: of merges from 8413 rows of 519 int32 (147 us, an H200) and 3254 of 1500 int64 (210),
/// of a step of words from 7810 rows of 4096 f16 (349, an H100).
Cost short_sort_cost(const target::Target &target, const SortWork &work) {
  constexpr double kOnce = 60, kMerge = 40, kWideMerge = 62, kStep = 2.5;
  constexpr double kResult = 8; // bytes of a position
  const auto bytes = static_cast<double>(work.bytes);
  int kind = 0;
  while (work.length > tc_short_length(kind))
    ++kind;
  double elements = work.rows * work.length, each = kOnce;
  Cost cost;
  cost.bytes = elements * (bytes + (work.values ? bytes : 0) + (work.positions ? kResult : 0));
  if (tc_short_packs(kind, static_cast<int>(work.bytes))) {
    const double levels = std::log2(tc_short_length(kind));
    elements = work.rows * tc_short_length(kind);
    each = kStep * levels * (levels + 1) / 2;
  } else {
    each += (work.bytes == 8 ? kWideMerge : kMerge) * std::log2(tc_short_threads(kind));
  }
  cost.operations = elements * each;
  cost.nanoseconds =
      kKernelStart + std::max(memory_nanoseconds(target, cost.bytes, kAchievedBandwidth),
                              instruction_nanoseconds(target, cost.operations,
                                                      work.rows / tc_short_rows(kind) + 1));
  return cost;
}

} // namespace

bool is_sorted_whole(const target::Target &target, const SortWork &work) {
  const int kinds = tc_short_kinds_of(static_cast<int>(work.bytes), target.shared_bytes_per_block);
  return work.any_length && work.length <= tc_short_length(kinds - 1);
}

Cost radix_sort_cost(const target::Target &target, const SortWork &work) {
  if (is_sorted_whole(target, work))
    return short_sort_cost(target, work);
  constexpr double kPlace = 4, kResult = 8; // bytes of a position between passes, and at last
  const double elements = work.rows * work.length, blocks = elements / tc_radix_tile + 1;
  const auto bytes = static_cast<double>(work.bytes);
  const int64_t passes = work.bytes * 8 / tc_radix_bits;
  Cost cost;
  for (int64_t pass = 0; pass < passes; ++pass) {
    const bool last = pass == passes - 1;
    double moved = bytes + (last && !work.values ? 0 : bytes);
    if (work.positions)
      moved += (pass > 0 ? kPlace : 0) + (last ? kResult : kPlace);
    const double count = radix_count_instructions() * elements,
                 move = radix_move_instructions(work.positions) * elements;
    cost.bytes += (bytes + moved) * elements;
    cost.operations += count + move;
    cost.nanoseconds += 3 * kKernelStart;
    cost.nanoseconds += std::max(memory_nanoseconds(target, bytes * elements, kAchievedBandwidth),
                                 instruction_nanoseconds(target, count, blocks)) +
                        std::max(memory_nanoseconds(target, moved * elements, kAchievedBandwidth),
                                 instruction_nanoseconds(target, move, blocks));
  }
  return cost;
}

double merge_sort_nanoseconds(const target::Target &target, const SortWork &work) {
  double chunks = std::ceil(work.length / (work.length <= 65536 ? 4096 : 8192));
  double searches = 0;
  int launches = kChunkLaunches;
  while (chunks > 1) {
    const double group = std::min(chunks, kMergedAtOnce);
    searches += group - 1;
    launches += kMergeLaunches;
    chunks = std::ceil(chunks / group);
  }
  const double busy = target.multiprocessors / kMultiprocessors;
  return launches * kKernelStart +
         work.rows * work.length * searches * (work.bytes == 8 ? kWideSearch : kSearch) / busy;
}

namespace {

/// What a tile of few rows takes, nanoseconds. From 60 measurements on an H200 (weights of 8 bits,
/// 4096 x 4096, 11008 x 4096, 1024 x 4096 and 4096 x 11008, 8 to 64 rows), off by 14% in the mean,
/// and 56 of one row and of 16 (8 and 4 bits): weights at the speed of memory or of the lanes that
/// compute them, and the left operand, which every warp reads for its columns. One block of a
/// multiprocessor, eight warps, waits more than two.
double few_tile_nanoseconds(const target::Target &target, const FewWork &work, const FewTile &tile,
                            int run) {
  // 5900 between two events; other estimates here leave out 3300 of that.
  constexpr double kStart = 2600, kCluster = 100;   // of each block of a cluster
  constexpr double kRead = 4.2;                     // a warp's access to shared memory
  constexpr double kLanes = 130, kMultiplied = 2.5; // instructions of a weight more
  constexpr double kAlone = 0.8, kReadOnce = 0.4;
  const int down = tc_few_rows_warps / tile.across;
  const double columns = tc_few_rows_columns_of(tile.column_tiles, tile.across),
               blocks = std::ceil(static_cast<double>(work.columns) / columns) * tile.splits,
               each = std::ceil(blocks / target.multiprocessors),
               steps = tc_few_rows_own_steps(static_cast<int>(work.terms), down, run, tile.splits),
               weights = each * columns * steps * down * 4 * run;
  const double bandwidth = target.bandwidth * 1e-9 / target.multiprocessors;
  return kStart + kCluster * tile.splits +
         std::max(weights * work.weight_bytes / bandwidth,
                  weights * (work.weight_instructions + kMultiplied) / kLanes) /
             (each > 1 ? 1 : kAlone) +
         each * steps * tc_few_rows_warps * tile.column_tiles * tile.row_tiles * run / 8 * kRead *
             (tile.single ? kReadOnce : 1);
}

/// Whether all that a block needs of a single row is one stage.
bool few_is_single(const FewWork &work, const FewTile &tile, int run) {
  return work.rows == 1 &&
         tc_few_rows_stages(1, static_cast<int>(work.terms), tc_few_rows_warps / tile.across, run,
                            tile.splits) == 1;
}

} // namespace

FewChoice few_choice(const target::Target &target, const FewWork &work, int run, int words) {
  // Warps beside each other and blocks that share the terms: those that were best of 20 such.
  constexpr int kShapes[][2] = {{4, 2}, {2, 2}, {1, 1}, {2, 1}, {1, 2}, {4, 4}, {8, 4}, {4, 1}};
  constexpr int kRegisters = 64000; // of a multiprocessor, less what rounding takes
  constexpr int kBusy = 2;          // blocks of a multiprocessor, where none waits for another
  const auto rows = static_cast<int>(std::clamp<int64_t>(work.rows, 1, kMostFewRows));
  FewChoice best;
  for (const auto &[across, splits] : kShapes) {
    FewTile tile{(rows + 7) / 8, 1, across, splits};
    const int down = tc_few_rows_warps / across, terms = static_cast<int>(work.terms);
    const int64_t blocks = ceil_div(work.columns, tc_few_rows_columns_of(1, across)) * splits;
    tile.single = few_is_single(work, tile, run);
    const int bytes =
        tc_few_rows_bytes(tile.row_tiles, 1, across, splits, terms, run, words, tile.single);
    const bool is_last = across == 1 && best.nanoseconds == 0;
    if ((splits > 1 && !target.has_wgmma) || splits > tc_few_rows_steps(terms, down, run) ||
        bytes > target.shared_bytes_per_block ||
        (splits == 1 && !is_last && target.has_wgmma &&
         blocks < int64_t{kBusy} * target.multiprocessors))
      continue;
    const int registers = 60 + tile.row_tiles * 4 + run + run / 2;
    tile.blocks = std::clamp(kRegisters / (registers * tc_few_rows_threads), 1, 4);
    const double time = few_tile_nanoseconds(target, work, tile, run);
    if (best.nanoseconds == 0 || time < best.nanoseconds)
      best = {tile, time};
  }
  return best;
}

double few_nanoseconds(const target::Target &target, const FewWork &work) {
  constexpr int kRun = 16, kWords = 1; // of bytes; others are near
  const FewChoice choice = few_choice(target, work, kRun, kWords);
  return choice.nanoseconds == 0 ? 1e12
                                 : choice.nanoseconds + memory_nanoseconds(target, work.other_bytes,
                                                                           kAchievedBandwidth);
}

ProductWork with_more_rows(ProductWork work) {
  work.rows *= kMoreRows;
  work.bytes *= kMoreRows;
  return work;
}

double way_nanoseconds(const target::Target &target, const ProductWork &work,
                       const ProductTile &tile) {
  for (Measured measured : measured_tiles(work)) {
    measured.tile.splits = tile.splits;
    measured.tile.products = tile.products;
    if (measured.tile == tile)
      return template_nanoseconds(target, measured, work);
  }
  support::require(false, "scheduler", "a product's tile is none of the template's");
  return 0;
}

namespace {

std::string name_of(const ProductTile &tile) {
  std::string name =
      std::to_string(tile.rows) + " x " + std::to_string(tile.columns) + " results a block";
  if (tile.turns)
    name += ", in turns";
  if (tile.pair)
    name += ", in pairs";
  if (tile.products > 1)
    name += ", " + std::to_string(tile.products) + " products beside each other";
  if (tile.splits > 1)
    name += ", " + std::to_string(tile.splits) + " blocks share the terms";
  return name;
}

} // namespace

std::vector<ProductWay> template_ways(const target::Target &target, const ProductWork &work) {
  constexpr int64_t kNarrow = 16; // rows of a section
  std::vector<ProductWay> ways;
  if (!target.has_wgmma) // what was measured
    return ways;
  for (Measured measured : measured_tiles(work)) {
    measured.tile.products = work.together;
    if (work.together > 1 && (measured.tile.turns || measured.tile.pair || !measured.tile.groups ||
                              measured.tile.columns < work.together * work.columns))
      continue;
    // Few rows of each section: memory is what it takes, and how many sections have any is not
    // known.
    const bool narrow = work.sections > 0 && work.rows < kNarrow * work.sections;
    if (narrow && measured.tile.columns > 64)
      continue;
    if (shared_bytes(measured.tile) + tc_product_section_bytes(static_cast<int>(work.sections)) >
            target.shared_bytes_per_block ||
        (work.sections > 0 && (measured.tile.turns || measured.tile.pair)))
      continue;
    const Measured best = best_split(target, measured, work);
    ways.push_back({name_of(best.tile), best.tile, template_nanoseconds(target, best, work)});
    if (work.any_number && best.tile.splits > 1) // of more rows each may have tiles enough
      ways.push_back(
          {name_of(measured.tile), measured.tile, template_nanoseconds(target, measured, work)});
  }
  std::stable_sort(ways.begin(), ways.end(), [](const ProductWay &a, const ProductWay &b) {
    return a.nanoseconds < b.nanoseconds;
  });
  if (work.any_number && !ways.empty()) { // good for more rows, too: who exports has one or two
    const ProductWork more = with_more_rows(work);
    const auto then = [&](const ProductWay &way) {
      return way_nanoseconds(target, more, way.tile);
    };
    double best_then = then(ways.front());
    for (const ProductWay &way : ways)
      best_then = std::min(best_then, then(way));
    const double best = ways.front().nanoseconds;
    const auto regret = [&](const ProductWay &way) {
      return way.nanoseconds / best + then(way) / best_then;
    };
    std::stable_sort(ways.begin(), ways.end(), [&](const ProductWay &a, const ProductWay &b) {
      return regret(a) < regret(b);
    });
  }
  return ways;
}

} // namespace tsc::scheduler
