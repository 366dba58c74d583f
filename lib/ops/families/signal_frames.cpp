// Short-time Fourier transforms: frames of a signal, and a signal out of frames.
#include "ops/families/assertions.h"
#include "ops/families/fourier.h"
#include "ops/table/complex_calls.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

struct Frames {
  int64_t length, hop, window_length;
};

Frames frames_of(const Call &call) {
  Frames frames{};
  frames.length = call.integer("n_fft");
  frames.hop = call.has("hop_length") ? call.integer("hop_length") : frames.length / 4;
  frames.window_length = call.has("win_length") ? call.integer("win_length") : frames.length;
  if (frames.length < 1 || frames.hop < 1 || frames.window_length < 1 ||
      frames.window_length > frames.length)
    call.fail("TSC-O154",
              call.node().target + ": frames of " + std::to_string(frames.length) + ", " +
                  std::to_string(frames.hop) + " apart, with a window of " +
                  std::to_string(frames.window_length),
              "give lengths above 0, and a window no longer than the frame");
  if (call.has("window") && call.tensor("window").layout.sizes != Sizes{Expr(frames.window_length)})
    call.fail("TSC-O154",
              call.node().target + ": a window of sizes " +
                  print_sizes(call.tensor("window").layout.sizes) + ", its length is " +
                  std::to_string(frames.window_length),
              "give a window of one dimension of that length");
  return frames;
}

/// The window in the middle of a frame; None where it is 1 all over.
Argument window_of(GraphBuilder &builder, const Call &call, const Frames &frames, DType dtype,
                   tensor::Device device) {
  const bool whole = frames.window_length == frames.length;
  if (!call.has("window") && whole)
    return graph::None{};
  Argument window = call.has("window")
                        ? call["window"]
                        : builder.call("aten.full.default", {Arguments{frames.window_length}, 1.0},
                                       {{"dtype", dtype}, {"device", device}});
  if (whole)
    return window;
  const int64_t before = (frames.length - frames.window_length) / 2;
  return builder.call(
      "aten.constant_pad_nd.default",
      {window, Arguments{before, frames.length - frames.window_length - before}, 0});
}

/// `self` with a batch in front, and whether it was put there.
std::pair<Argument, bool> batched(GraphBuilder &builder, const Call &call, size_t rank) {
  const size_t given = call.tensor("self").layout.rank();
  if (given != rank && given + 1 != rank)
    call.fail("TSC-O154", call.node().target + " of " + std::to_string(given) + " dimensions",
              "give " + std::to_string(rank - 1) + " or " + std::to_string(rank));
  if (given == rank)
    return {call["self"], false};
  return {builder.call("aten.unsqueeze.default", {call["self"], 0}), true};
}

Argument stft(GraphBuilder &builder, const Call &call) {
  const Frames frames = frames_of(call);
  auto [x, was_single] = batched(builder, call, 2);
  if (tensor::is_integral(builder.meta(x).dtype, true))
    call.fail("TSC-O154", call.node().target + " of integers", "convert to a floating dtype first");
  bool centered = false;
  for (const Parameter &parameter : call.schema().parameters)
    centered = centered || (parameter.name == "center" && call.boolean("center"));
  if (call.has("align_to_window") && call.boolean("align_to_window"))
    call.refuse("TSC-O155", call.node().target + " with align_to_window is not supported",
                "pad the signal outside of it");
  if (centered) {
    const int64_t half = frames.length / 2;
    x = builder.call("aten.pad.default", {x, Arguments{half, half}, call["pad_mode"]});
  }
  const TensorMeta meta = builder.meta(x);
  const Expr size = meta.layout.sizes[1];
  if (size.is_integer() && size.value() < frames.length)
    call.fail("TSC-O154",
              call.node().target + ": a frame of " + std::to_string(frames.length) +
                  " of a signal of " + symbolic::print(size),
              "give a longer signal");
  const Argument window = window_of(builder, call, frames, part_dtype(meta.dtype), meta.device);
  Argument cut = builder.call("aten.unfold.default", {x, 1, frames.length, frames.hop});
  if (!window.is_none())
    cut = builder.call(kMul, {cut, window});
  const bool is_complex = tensor::is_complex(builder.meta(cut).dtype);
  const bool onesided = call.has("onesided") ? call.boolean("onesided") : !is_complex;
  if (onesided && is_complex)
    call.fail("TSC-O154", call.node().target + ": one side of a complex signal",
              "give onesided=False");
  const Scaling scaling = call.boolean("normalized") ? Scaling::by_root : Scaling::none;
  const Argument spectra = is_complex
                               ? fourier_of_complex(builder, call, cut, {2}, scaling, true)
                               : fourier_of_real(builder, call, cut, {2}, scaling, true, onesided);
  Argument result = builder.call("aten.transpose.int", {spectra, 1, 2});
  if (was_single)
    result = builder.call("aten.squeeze.dims", {result, Arguments{0}});
  const bool gives_complex =
      call.has("return_complex") ? call.boolean("return_complex") : is_complex;
  return gives_complex ? result : builder.call("aten.view_as_real.default", {result});
}

/// Frames [.., count, length] added up where they overlap: in blocks of `hop`, each shifted by as
/// many blocks as stand before it.
Argument added_up(GraphBuilder &builder, const Argument &x, const Frames &frames) {
  const TensorMeta meta = builder.meta(x);
  const int64_t blocks = (frames.length + frames.hop - 1) / frames.hop;
  const Argument padded = builder.call("aten.constant_pad_nd.default",
                                       {x, Arguments{0, blocks * frames.hop - frames.length}, 0});
  Argument sum;
  for (int64_t i = 0; i < blocks; ++i) {
    const Argument block =
        builder.call("aten.slice.Tensor", {padded, -1, i * frames.hop, (i + 1) * frames.hop});
    const Argument shifted = builder.call("aten.constant_pad_nd.default",
                                          {block, Arguments{0, 0, i, blocks - 1 - i}, 0});
    sum = i == 0 ? shifted : builder.call(kAdd, {sum, shifted});
  }
  const Expr count = meta.layout.sizes[1];
  const Argument flat = builder.call(
      "aten.reshape.default",
      {sum, sizes_argument({meta.layout.sizes[0], (count + Expr(blocks - 1)) * Expr(frames.hop)})});
  const Expr length = Expr(frames.length) + Expr(frames.hop) * (count - Expr(1));
  return builder.call("aten.slice.Tensor", {flat, 1, 0, size_argument(length)});
}

/// [start, end) of a signal and of the sum of its squared windows; zeros beyond its end.
Argument istft(GraphBuilder &builder, const Call &call) {
  const Frames frames = frames_of(call);
  if (!tensor::is_complex(call.tensor("self").dtype))
    call.fail("TSC-O151", call.node().target + " of a real tensor", "give a complex tensor");
  const auto [spectra, was_single] = batched(builder, call, 3);
  const TensorMeta meta = builder.meta(spectra);
  const Expr height = meta.layout.sizes[1], count = meta.layout.sizes[2];
  const bool onesided =
      call.has("onesided") ? call.boolean("onesided") : height != Expr(frames.length);
  const int64_t expected = onesided ? frames.length / 2 + 1 : frames.length;
  if (height != Expr(expected))
    call.fail("TSC-O154",
              call.node().target + ": " + symbolic::print(height) + " frequencies of frames of " +
                  std::to_string(frames.length),
              "give " + std::to_string(expected));
  Argument x = builder.call("aten.transpose.int", {spectra, 1, 2});
  const Scaling scaling = call.boolean("normalized") ? Scaling::by_root : Scaling::by_length;
  if (call.boolean("return_complex")) {
    if (onesided)
      call.fail("TSC-O154", call.node().target + ": a complex signal of one side",
                "give onesided=False");
    x = fourier_of_complex(builder, call, x, {2}, scaling, false);
  } else {
    x = fourier_to_real(builder, call, x, 2, Expr(frames.length), scaling);
  }
  const DType dtype = part_dtype(meta.dtype);
  Argument window = window_of(builder, call, frames, dtype, meta.device);
  if (window.is_none())
    window = builder.call("aten.full.default", {Arguments{frames.length}, 1.0},
                          {{"dtype", dtype}, {"device", meta.device}});
  const Argument signal = added_up(builder, builder.call(kMul, {x, window}), frames);
  const Argument squares =
      builder.call("aten.expand.default", {builder.call(kMul, {window, window}),
                                           Arguments{1, size_argument(count), frames.length}});
  const Argument weights = added_up(builder, squares, frames);
  const Expr whole = Expr(frames.length) + Expr(frames.hop) * (count - Expr(1));
  const Expr start = call.boolean("center") ? Expr(frames.length / 2) : Expr(0);
  const Expr end = call.has("length")       ? start + call.size("length")
                   : call.boolean("center") ? whole - Expr(frames.length / 2)
                                            : whole;
  const Expr last = symbolic::simplify(symbolic::minimum(end, whole), call.ranges());
  const auto cut = [&](const Argument &along) {
    return builder.call("aten.slice.Tensor", {along, 1, size_argument(start), size_argument(last)});
  };
  const Argument divisor = cut(weights);
  const Argument lowest =
      builder.call("aten.amin.default", {builder.call("aten.abs.default", {divisor})});
  assert_condition(builder, builder.call("aten.gt.Tensor", {lowest, 1e-11}),
                   "istft: the windows add up to 0 somewhere");
  Argument result = builder.call(kDiv, {cut(signal), divisor});
  const Expr missing = symbolic::simplify(end - last, call.ranges());
  if (!missing.is_integer(0))
    result = builder.call("aten.constant_pad_nd.default",
                          {result, Arguments{0, size_argument(missing)}, 0});
  return was_single ? builder.call("aten.squeeze.dims", {result, Arguments{0}}) : result;
}

} // namespace

void add_signal_frames(Table &table) {
  const std::string start = "(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, "
                            "Tensor? window=None, ";
  const std::string end = "bool normalized=False, bool? onesided=None, bool? return_complex=None, "
                          "bool? align_to_window=None) -> Tensor";
  table.add(keep_text("stft" + start + end)).decompose(stft);
  table.add(keep_text("stft.center" + start + "bool center=True, str pad_mode='reflect', " + end))
      .decompose(stft);
  table
      .add(keep_text("istft" + start +
                     "bool center=True, bool normalized=False, bool? onesided=None, int? "
                     "length=None, bool return_complex=False) -> Tensor"))
      .decompose(istft);
}

} // namespace tsc::ops
