// Catch2 2 (Debian 12) and 3 (newer) under one include.
#pragma once

#ifdef TSC_CATCH2_V3
#include <catch2/catch_all.hpp>
#else
#include <catch2/catch.hpp>
#endif
