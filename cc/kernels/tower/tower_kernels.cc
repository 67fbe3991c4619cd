// Kernels of the ops that sum the gradients of one step's towers.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/core/accumulator/apply_result.h"
#include "cc/core/base/mutex.h"
#include "cc/core/base/shape.h"
#include "cc/kernels/accumulator/accumulator_resource.h"
#include "cc/kernels/accumulator/device.h"
#include "cc/kernels/accumulator/gradient_io.h"
#include "cc/kernels/base/kernel.h"
#include "cc/kernels/base/out_of_memory.h"
#include "cc/kernels/base/tf_conversions.h"
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

// Takes the sum. Inputs: handle, num_required. Never waits for gradients, so it need not be
// asynchronous, and the ops that follow it run in its thread.
template <const AccumulatorKind& kKind>
class TowerTakeOp : public Kernel {
 public:
  explicit TowerTakeOp(tensorflow::OpKernelConstruction* ctx)
      : Kernel(ctx), waits_for_device_(kKind.is_sparse && DeviceOf(ctx).merges_wait) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtype", &dtype_));
  }
  bool IsExpensive() override { return waits_for_device_ || Kernel::IsExpensive(); }

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    AccumulatorPtr sum;
    TF_RETURN_IF_ERROR(LookupAccumulator(ctx, kKind, dtype_, &sum));
    int32_t num_required = 0;
    TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "num_required", *sum, &num_required));
    return OrOutOfMemory(sum->where(), [&] { return Take(ctx, *sum, num_required); });
  }

  static absl::Status Take(OpKernelContext* ctx, AccumulatorResource& sum, int num_required) {
    Outcome outcome;
    const auto take = std::make_shared<PendingTake>(
        num_required,
        [&outcome](const Status& status, Value* value) { outcome.Set(status, value); });
    TakeOutputs outputs(ctx, /*first=*/0, sum.spec());
    take->reserve = [&outputs](const Shape& shape) { return outputs.Reserve(shape); };
    OpWorkspace workspace;
    sum.device().make_workspace(ctx, &workspace);
    if (!sum.core().TryServe(take, *workspace)) {
      return sum.Invalid(absl::StrCat("Expected ", num_required,
                                      " gradients to have been added, got ",
                                      sum.core().num_accumulated()));
    }
    Value value;
    TF_RETURN_IF_ERROR(ToAbsl(outcome.Await(&value)));
    outputs.Set(std::move(value));
    return absl::OkStatus();
  }

  // The outcome of the take. It is set when TryServe() returns, unless another thread is still
  // adding, which happens only if no control edge orders that add before the take.
  class Outcome {
   public:
    void Set(const Status& status, Value* value) CONDACC_EXCLUDES(mu_) {
      MutexLock lock(&mu_);
      status_ = status;
      if (value != nullptr) value_ = std::move(*value);
      is_set_ = true;
      changed_.NotifyAll();
    }
    Status Await(Value* value) CONDACC_EXCLUDES(mu_) {
      MutexLock lock(&mu_);
      while (!is_set_) changed_.Wait(&mu_);
      *value = std::move(value_);
      return status_;
    }

   private:
    Mutex mu_;
    CondVar changed_;
    bool is_set_ CONDACC_GUARDED_BY(mu_) = false;
    Status status_ CONDACC_GUARDED_BY(mu_);
    Value value_ CONDACC_GUARDED_BY(mu_);
  };

  const bool waits_for_device_;
  tensorflow::DataType dtype_;
};

template <const AccumulatorKind& kKind>
struct TowerOps {
  using Sum = AccumulatorHandleOp<kKind>;
  using Add = TowerAddOp<kKind>;
  using Take = TowerTakeOp<kKind>;
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
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerDenseSum").Device(DEVICE_GPU).HostMemory("handle"),
                        DenseTowerOps::Sum);
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerDenseAdd").Device(DEVICE_GPU).HostMemory("handle"),
                        DenseTowerOps::Add);
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerDenseTake")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("num_required"),
                        DenseTowerOps::Take);
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerSparseSum").Device(DEVICE_GPU).HostMemory("handle"),
                        SparseTowerOps::Sum);
REGISTER_KERNEL_BUILDER(
    Name("Condacc>TowerSparseAdd").Device(DEVICE_GPU).HostMemory("handle").HostMemory("shape"),
    SparseTowerOps::Add);
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerSparseTake")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("num_required")
                            .HostMemory("shape"),
                        SparseTowerOps::Take);

#endif

}  // namespace
}  // namespace condacc
