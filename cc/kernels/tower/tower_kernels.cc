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

using tensorflow::DEVICE_CPU;
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
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerDenseSum").Device(DEVICE_CPU), DenseTowerOps::Sum);
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerDenseAdd").Device(DEVICE_CPU), DenseTowerOps::Add);
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerDenseTake").Device(DEVICE_CPU), DenseTowerOps::Take);
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerSparseSum").Device(DEVICE_CPU), SparseTowerOps::Sum);
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerSparseAdd").Device(DEVICE_CPU), SparseTowerOps::Add);
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerSparseTake").Device(DEVICE_CPU), SparseTowerOps::Take);

#if defined(CONDACC_CUDA)

using tensorflow::DEVICE_GPU;

// All inputs and outputs but the gradients themselves are in host memory.
[[maybe_unused]] const bool kTowersOnGpu[] = {
    RegisterKernel<DenseTowerOps::Sum>("Condacc>TowerDenseSum", DEVICE_GPU, {"handle"}),
    RegisterKernel<DenseTowerOps::Add>("Condacc>TowerDenseAdd", DEVICE_GPU, {"handle"}),
    RegisterKernel<DenseTowerOps::Take>("Condacc>TowerDenseTake", DEVICE_GPU,
                                        {"handle", "num_required"}),
    RegisterKernel<SparseTowerOps::Sum>("Condacc>TowerSparseSum", DEVICE_GPU, {"handle"}),
    RegisterKernel<SparseTowerOps::Add>("Condacc>TowerSparseAdd", DEVICE_GPU, {"handle", "shape"}),
    RegisterKernel<SparseTowerOps::Take>("Condacc>TowerSparseTake", DEVICE_GPU,
                                         {"handle", "num_required", "shape"}),
};

#endif

}  // namespace
}  // namespace condacc
