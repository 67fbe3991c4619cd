// Kernels of the ops that sum the gradients of one step's towers.
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "cc/core/accumulator/apply_result.h"
#include "cc/kernels/accumulator/accumulator_resource.h"
#include "cc/kernels/accumulator/device.h"
#include "cc/kernels/accumulator/gradient_io.h"
#include "cc/kernels/accumulator/take_op.h"
#include "cc/kernels/base/host_memory.h"
#include "cc/kernels/base/kernel.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace condacc {
namespace {

using tensorflow::OpKernelContext;

// Adds a tower's gradient. Inputs: handle, and those of the gradient. Most calls only append the
// gradient to the pending ones.
template <const AccumulatorKind& kKind>
class TowerAddOp : public Kernel {
 public:
  explicit TowerAddOp(tensorflow::OpKernelConstruction* ctx)
      : Kernel(ctx), waits_for_device_(kKind.is_sparse && DeviceOf(ctx).merges_wait) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtype", &dtype_));
  }
  bool IsExpensive() override { return waits_for_device_; }

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    constexpr int64_t kNeverStale = std::numeric_limits<int64_t>::max();
    constexpr int kGradient = 1;
    AccumulatorPtr sum;
    TF_RETURN_IF_ERROR(LookupAccumulator(ctx, kKind, dtype_, &sum));
    ApplyOutcome outcome;
    return ApplyGradient(ctx, *sum, {kNeverStale}, kGradient, &outcome);
  }

  const bool waits_for_device_;
  tensorflow::DataType dtype_;
};

template <const AccumulatorKind& kKind>
struct TowerOps {
  using Sum = AccumulatorHandleOp<kKind>;
  using Add = TowerAddOp<kKind>;
  // The take never waits for gradients, so it need not be asynchronous, and the ops that follow it
  // run in its thread. It waits for another thread that still adds only if no control edge orders
  // that add before it.
  using Take = TakeOp<kKind, TakeMode::kDemand>;
};

using DenseTowerOps = TowerOps<kDenseTower>;
using SparseTowerOps = TowerOps<kSparseTower>;

// All inputs and outputs but the gradients themselves are in host memory.
[[maybe_unused]] const bool kTowers[] = {
    RegisterOnCpuAndGpu<DenseTowerOps::Sum>("Condacc>TowerDenseSum", {"handle"}),
    RegisterOnCpuAndGpu<DenseTowerOps::Add>("Condacc>TowerDenseAdd", {"handle"}),
    RegisterOnCpuAndGpu<DenseTowerOps::Take>("Condacc>TowerDenseTake", {"handle", "num_required"}),
    RegisterOnCpuAndGpu<SparseTowerOps::Sum>("Condacc>TowerSparseSum", {"handle"}),
    RegisterOnCpuAndGpu<SparseTowerOps::Add>("Condacc>TowerSparseAdd", {"handle", "shape"}),
    RegisterOnCpuAndGpu<SparseTowerOps::Take>("Condacc>TowerSparseTake",
                                              {"handle", "num_required", "shape"}),
};

}  // namespace
}  // namespace condacc
