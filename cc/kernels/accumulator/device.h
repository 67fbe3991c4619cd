// The kinds of devices that accumulators may be on.
#ifndef CONDACC_KERNELS_ACCUMULATOR_DEVICE_H_
#define CONDACC_KERNELS_ACCUMULATOR_DEVICE_H_

#include <cstddef>
#include <new>

#include "cc/core/accumulator/round_sum.h"
#include "cc/core/accumulator/sum_options.h"
#include "cc/core/accumulator/workspace.h"
#include "cc/core/base/hold_budget.h"
#include "cc/core/base/status.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace condacc {

// The workspace of an op, stored in this object, because takes and applies are too short for a heap
// allocation.
class OpWorkspace {
 public:
  OpWorkspace() = default;
  ~OpWorkspace() {
    if (workspace_ != nullptr) workspace_->~Workspace();
  }
  OpWorkspace(const OpWorkspace&) = delete;
  OpWorkspace& operator=(const OpWorkspace&) = delete;

  // Makes the workspace. May be called once.
  template <class Made>
  void Make(tensorflow::OpKernelContext* ctx) {
    static_assert(sizeof(Made) <= sizeof(memory_));
    workspace_ = new (memory_) Made(ctx);
  }
  Workspace& operator*() const { return *workspace_; }

 private:
  alignas(std::max_align_t) unsigned char memory_[160];
  Workspace* workspace_ = nullptr;
};

// The classes and settings for accumulators on one kind of device.
struct Device {
  void (*make_workspace)(tensorflow::OpKernelContext* ctx, OpWorkspace* workspace);
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
