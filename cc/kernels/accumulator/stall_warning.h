// The warning about a take that waits for long.
#ifndef CONDACC_KERNELS_ACCUMULATOR_STALL_WARNING_H_
#define CONDACC_KERNELS_ACCUMULATOR_STALL_WARNING_H_

#include <functional>
#include <string>

#include "cc/core/accumulator/stall_report.h"

namespace condacc {

// Returns a function that logs the warning about a take of the accumulator `name`.
std::function<void(const StallReport&)> StallLogger(const std::string& name);

}  // namespace condacc

#endif  // CONDACC_KERNELS_ACCUMULATOR_STALL_WARNING_H_
