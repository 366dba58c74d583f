// Mutations of zip archives that rebuild them: members change, headers lie on purpose, and only
// then.
#pragma once

#include "json_mutator.h"

namespace tsc::fuzz {

/// Members are mutated by what they are (JSON, .npy, else bytes), renamed, doubled, dropped, moved,
/// stored or deflated; one time in three a field of some header is then overwritten. Bytes that are
/// no archive get mutate_bytes.
std::string mutate_zip(std::string_view bytes, size_t max_size, Random &random);
/// `a` with members of `b`.
std::string cross_zip(std::string_view a, std::string_view b, size_t max_size, Random &random);

} // namespace tsc::fuzz
