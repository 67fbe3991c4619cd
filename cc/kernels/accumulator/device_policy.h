// The workspaces of accumulators on each kind of device, and the choices that suit the device.
#ifndef CONDACC_KERNELS_ACCUMULATOR_DEVICE_POLICY_H_
#define CONDACC_KERNELS_ACCUMULATOR_DEVICE_POLICY_H_

#include <cstddef>
#include <limits>

#include "cc/core/base/hold_budget.h"
#include "cc/core/base/status.h"
#include "cc/core/sparse/host_rows.h"
#include "cc/kernels/accumulator/cpu_dense_workspace.h"
#include "cc/kernels/accumulator/cpu_sparse_workspace.h"
#include "cc/kernels/base/settings.h"
#include "tensorflow/core/framework/op_kernel.h"
#if defined(CONDACC_CUDA)
#include "cc/core/sparse/device_rows.h"
#include "cc/gpu/dense_launch.h"
#include "cc/kernels/accumulator/gpu_dense_workspace.h"
#include "cc/kernels/accumulator/gpu_sparse_workspace.h"
#include "cc/kernels/base/gpu_stream.h"
#endif

namespace condacc {

struct CpuPolicy {
  using DenseWorkspace = CpuDenseWorkspace;
  using SparseWorkspace = CpuSparseWorkspace;
  // The rows of a sparse sum, and how gradients are merged into them.
  using Rows = HostRows;

  // Returns an error, with the remedy, if the op's device cannot do the work.
  static Status CheckOpDevice(tensorflow::OpKernelContext*) { return Status(); }
  // Returns the budget of pending gradients.
  static HoldBudget& Budget() { return HostHoldBudget(); }
  // If true, small dense gradients, which are cheap to add, are added as soon as they come.
  static constexpr bool kAddsSmallAtOnce = true;
  // The number of dense gradients that one pass can add to another one.
  static constexpr size_t kMaxInputs = std::numeric_limits<size_t>::max();
  // If true, folds and takes of sparse gradients wait for the device. Those of dense ones never do.
  static constexpr bool kMergesWaitForDevice = false;
};

#if defined(CONDACC_CUDA)

struct GpuPolicy {
  using DenseWorkspace = GpuDenseWorkspace;
  using SparseWorkspace = GpuSparseWorkspace;
  using Rows = DeviceRows;

  static Status CheckOpDevice(tensorflow::OpKernelContext* ctx) { return CheckGpu(ctx); }
  static HoldBudget& Budget() { return GpuHoldBudget(); }
  // One pass over two small gradients costs less than two passes, whatever their size.
  static constexpr bool kAddsSmallAtOnce = false;
  static constexpr size_t kMaxInputs = kMaxDenseInputs;
  static constexpr bool kMergesWaitForDevice = true;
};

#endif

}  // namespace condacc

#endif  // CONDACC_KERNELS_ACCUMULATOR_DEVICE_POLICY_H_
