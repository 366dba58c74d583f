// Mutations of .safetensors and .npy bytes that keep their framing (mostly).
#pragma once

#include "json_mutator.h"

namespace tsc::fuzz {

/// Length, JSON header, data: the header is mutated as JSON, its length corrected (mostly), the
/// data grown or cut.
std::string mutate_safetensors(std::string_view bytes, size_t max_size, Random &random);
/// Magic, version, length, header dictionary, data.
std::string mutate_npy(std::string_view bytes, size_t max_size, Random &random);

} // namespace tsc::fuzz
