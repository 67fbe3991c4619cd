// The settings that come from environment variables. docs/guides/usage.md describes them for users.
#ifndef CONDACC_KERNELS_BASE_SETTINGS_H_
#define CONDACC_KERNELS_BASE_SETTINGS_H_

#include <chrono>

#include "cc/core/base/hold_budget.h"

namespace condacc {

// Returns the budget of pending gradients in host memory, which all accumulators of the process
// share: TF_CONDACC_HOLD_BYTES, or 1 GiB.
HoldBudget& HostHoldBudget();

// Returns the budget of pending gradients in the memory of all GPUs together:
// TF_CONDACC_GPU_HOLD_BYTES, or 2 GiB.
HoldBudget& GpuHoldBudget();

// Returns how long a take may wait, or an accepted update be under way, before a warning is logged:
// TF_CONDACC_STALL_WARNING_SECS, or 60 seconds. Zero means never.
std::chrono::milliseconds StallTimeout();

}  // namespace condacc

#endif  // CONDACC_KERNELS_BASE_SETTINGS_H_
