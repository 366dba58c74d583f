#ifndef TSC_CATCH2_V3
#define CATCH_CONFIG_MAIN
#endif
#include "testing/catch.h"
