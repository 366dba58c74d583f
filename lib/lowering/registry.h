// The lowerings, by key (Operator::lowering).
#pragma once

#include "lowering/context.h"
#include "ops/table/operator.h"

#include <functional>
#include <map>
#include <string_view>

namespace tsc::lowering {

using Lowering = std::function<NodeValue(Context &, const ops::Call &)>;
using Registry = std::map<std::string_view, Lowering>;

/// All of them, made once.
const Registry &registry();

// One function per operator family, in the file of its name.
void add_elementwise(Registry &registry);
void add_conversions(Registry &registry);
void add_views(Registry &registry);
void add_creation(Registry &registry);
void add_random(Registry &registry);
void add_reductions(Registry &registry);
void add_scans(Registry &registry);
void add_combine_scans(Registry &registry);
void add_products(Registry &registry);
void add_gathers(Registry &registry);
void add_scatters(Registry &registry);
void add_joins(Registry &registry);
void add_ordering(Registry &registry);
void add_solvers(Registry &registry);
void add_windows(Registry &registry);
void add_attention(Registry &registry);
void add_attention_gradients(Registry &registry);
void add_collectives(Registry &registry);
void add_control_flow(Registry &registry);
void add_data_numbers(Registry &registry);
void add_checks(Registry &registry);
void add_user_kernels(Registry &registry);
void add_alignments(Registry &registry);
void add_row_sums(Registry &registry);
void add_recurrences(Registry &registry);
void add_selections(Registry &registry);

/// The tensor that an argument names. A number becomes a constant of rank 0, typed by torch's rules
/// for it.
TensorValue tensor_argument(Context &context, const ops::Call &call, std::string_view parameter);
TensorValue tensor_value(Context &context, const ops::Call &call, const graph::Argument &argument);
std::vector<TensorValue> tensor_arguments(Context &context, const ops::Call &call,
                                          std::string_view parameter);
/// The dimension argument `parameter` of a tensor of rank `rank`, wrapped.
size_t dimension_argument(const ops::Call &call, std::string_view parameter, size_t rank);
/// What the current node yields, by its graph value.
const graph::TensorMeta &result_meta(const Context &context);

} // namespace tsc::lowering
