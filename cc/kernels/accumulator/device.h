// The kinds of devices that accumulators may be on.
#ifndef CONDACC_KERNELS_ACCUMULATOR_DEVICE_H_
#define CONDACC_KERNELS_ACCUMULATOR_DEVICE_H_

#include <variant>

#include "cc/core/accumulator/round_sum.h"
#include "cc/core/accumulator/sum_options.h"
#include "cc/core/accumulator/workspace.h"
#include "cc/core/base/hold_budget.h"
#include "cc/core/base/status.h"
#include "cc/kernels/accumulator/cpu_workspace.h"
#include "tensorflow/core/framework/op_kernel.h"
#if defined(CONDACC_CUDA)
#include "cc/kernels/accumulator/gpu_workspace.h"
#endif

namespace condacc {

// The memory of an op's workspace: takes and applies are too short for a heap allocation.
#if defined(CONDACC_CUDA)
using OpWorkspace = std::variant<std::monostate, CpuWorkspace, GpuWorkspace>;
#else
using OpWorkspace = std::variant<std::monostate, CpuWorkspace>;
#endif

// The classes and settings for accumulators on one kind of device.
struct Device {
  // Makes a workspace in `memory`.
  Workspace& (*make_workspace)(tensorflow::OpKernelContext* ctx, OpWorkspace* memory);
  SumFactory new_sparse_sum;
  // Returns what starts threads that work for the kernel's device, or null.
  ThreadStarter (*thread_starter)(tensorflow::OpKernelConstruction* ctx);
  // Returns an error, with the remedy, if the op's device cannot do the work.
  Status (*check_op_device)(tensorflow::OpKernelContext* ctx);
  // Returns the budget of pending gradients.
  HoldBudget& (*budget)();
  // Returns the options of sums, apart from those that depend on the accumulator.
  SumOptions (*sum_options)();
  // If true, folds and takes of sparse gradients wait for the device. Those of dense gradients
  // never do.
  bool merges_wait;
};

// Returns the kind of device that the kernel is made for.
const Device& DeviceOf(const tensorflow::OpKernelConstruction* ctx);

}  // namespace condacc

#endif  // CONDACC_KERNELS_ACCUMULATOR_DEVICE_H_
