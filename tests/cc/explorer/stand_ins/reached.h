// Stands in for cc/core/base/reached.h, whose include guard it has: counts what is reached.
#ifndef CONDACC_CORE_BASE_REACHED_H_
#define CONDACC_CORE_BASE_REACHED_H_

#include "tests/cc/explorer/fibers/coverage.h"

#define CONDACC_REACHED(...) ::condacc::explorer::Reached(__VA_ARGS__)

#endif  // CONDACC_CORE_BASE_REACHED_H_
