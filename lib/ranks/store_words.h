// The words of messages between the store and its clients.
#pragma once

namespace tsc::ranks::words {

inline constexpr const char *kVersion = "tsc-store 1";
// To the store.
inline constexpr const char *kHello = "hello", *kAsks = "asks", *kWatches = "watches";
inline constexpr const char *kSet = "set", *kGet = "get", *kProgress = "progress",
                            *kGoodbye = "goodbye";
// From it.
inline constexpr const char *kOk = "ok", *kValue = "value", *kNothing = "nothing",
                            *kRefused = "refused";
inline constexpr const char *kFailure = "failure"; // both ways

} // namespace tsc::ranks::words
