// The kinds of devices on which accumulators lie.
#ifndef CONDACC_KERNELS_ACCUMULATOR_DEVICE_H_
#define CONDACC_KERNELS_ACCUMULATOR_DEVICE_H_

#include <cstddef>
#include <memory>

#include "cc/core/accumulator/round_sum.h"
#include "cc/core/accumulator/workspace.h"
#include "cc/core/base/hold_budget.h"
#include "cc/core/base/status.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace condacc {

// The classes that accumulators on one kind of device work with, and the choices that suit it.
struct Device {
  std::unique_ptr<Workspace> (*new_workspace)(tensorflow::OpKernelContext* ctx);
  SumFactory new_sparse_sum;
  // Returns an error, with the remedy, if the op's device cannot do the work.
  Status (*check_op_device)(tensorflow::OpKernelContext* ctx);
  // Returns the budget of pending gradients.
  HoldBudget& (*budget)();
  // If true, small dense gradients, which are cheap to add, are added as soon as they come.
  bool adds_small_at_once;
  // The number of dense gradients that one pass can add to another one.
  size_t max_inputs;
  // If true, folds and takes of sparse gradients wait for the device. Those of dense ones never do.
  bool merges_wait;
};

// Returns the device that the kernel is made for.
const Device& DeviceOf(const tensorflow::OpKernelConstruction* ctx);

}  // namespace condacc

#endif  // CONDACC_KERNELS_ACCUMULATOR_DEVICE_H_
