// Warnings in the log about what takes long.
#ifndef CONDACC_KERNELS_STALL_WARNING_H_
#define CONDACC_KERNELS_STALL_WARNING_H_

#include <chrono>
#include <functional>
#include <string>

#include "cc/core/accumulator.h"

namespace condacc {

// How long a take may wait, or an accepted update be under way, before the log tells: from the
// environment variable TF_CONDACC_STALL_WARNING_SECS, 60 seconds by default, zero for never.
std::chrono::milliseconds StallTimeout();

// Returns what is to be called when a take of the accumulator `name` has waited for so long.
std::function<void(const StallReport&)> StallLogger(const std::string& name);

}  // namespace condacc

#endif  // CONDACC_KERNELS_STALL_WARNING_H_
