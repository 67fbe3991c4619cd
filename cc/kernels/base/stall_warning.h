// Log warnings about takes and updates that take too long.
#ifndef CONDACC_KERNELS_BASE_STALL_WARNING_H_
#define CONDACC_KERNELS_BASE_STALL_WARNING_H_

#include <chrono>
#include <functional>
#include <string>

#include "cc/core/accumulator/stall_report.h"

namespace condacc {

// Returns how long a take may wait, or an accepted update be under way, before a warning is logged.
// This is the value of the environment variable TF_CONDACC_STALL_WARNING_SECS, or 60 seconds; zero
// means never.
std::chrono::milliseconds StallTimeout();

// Returns a function that logs the warning about a take of the accumulator `name`.
std::function<void(const StallReport&)> StallLogger(const std::string& name);

}  // namespace condacc

#endif  // CONDACC_KERNELS_BASE_STALL_WARNING_H_
