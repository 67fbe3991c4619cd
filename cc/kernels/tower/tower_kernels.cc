// Kernels of the ops that sum the gradients of one step's towers.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/core/accumulator/apply_result.h"
#include "cc/core/base/mutex.h"
#include "cc/kernels/accumulator/accumulator_resource_of.h"
#include "cc/kernels/accumulator/apply_take_ops.h"
#include "cc/kernels/accumulator/dense_traits.h"
#include "cc/kernels/accumulator/device_policy.h"
#include "cc/kernels/accumulator/sparse_traits.h"
#include "cc/kernels/base/out_of_memory.h"
#include "cc/kernels/base/tf_conversions.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace condacc {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelContext;

// The sum of the towers' gradients of one variable is an accumulator of a kind of its own. A step
// has many such sums at once, and the memory of none grows with the number of towers. Large
// gradients are added as soon as there are two, and those that come during a pass are added
// together in the next one; a few smaller ones are held and added in one pass. Borrowed gradients
// are held like others. They may be read as late as an op that has all gradients as inputs, such as
// AddN, would read them.
template <class Policy>
struct DenseTowerTraits : DenseTraits<Policy> {
  static constexpr char kKind[] = "dense tower";

  static DenseOptions SumOptions(const AccumulatorSpec& spec) {
    DenseOptions options = DenseTraits<Policy>::SumOptions(spec);
    options.small_bytes = 0;
    options.max_pending = 8;  // As many as one pass adds to the first.
    options.max_pending_bytes = 32 << 20;
    options.holds_borrowed = true;
    return options;
  }
};

template <class Policy>
struct SparseTowerTraits : SparseTraits<Policy> {
  static constexpr char kKind[] = "sparse tower";

  static SparseOptions SumOptions(const AccumulatorSpec& spec) {
    SparseOptions options = SparseTraits<Policy>::SumOptions(spec);
    if (!Policy::kMergesWaitForDevice) options.fold_bytes = 0;
    // The mean is over all towers, as for dense gradients, and not over those that have the row.
    if (spec.reduction_type == "MEAN") options.reduction = SparseReduction::kGlobalMean;
    return options;
  }
};

// Adds a tower's gradient. Inputs: handle, and those of the gradient. Most calls only append the
// gradient to the pending ones.
template <class Traits>
class TowerAddOp : public tensorflow::OpKernel {
 public:
  explicit TowerAddOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtype", &dtype_));
  }

  void Compute(OpKernelContext* ctx) override {
    constexpr int64_t kNeverStale = std::numeric_limits<int64_t>::max();
    constexpr int kGradient = 1;
    typename AccumulatorResourceOf<Traits>::Ptr sum;
    OP_REQUIRES_OK(ctx, AccumulatorResourceOf<Traits>::Lookup(ctx, dtype_, &sum));
    ApplyOutcome outcome;
    OP_REQUIRES_OK(ctx, ApplyGradient(ctx, *sum, kNeverStale, std::nullopt, kGradient, &outcome));
  }
  bool IsExpensive() override { return Traits::kWaitsForDevice; }

 private:
  tensorflow::DataType dtype_;
};

// Takes the sum. Inputs: handle, num_required. Never waits for gradients, so it need not be
// asynchronous, and the ops that follow it run in its thread.
template <class Traits>
class TowerTakeOp : public tensorflow::OpKernel {
 public:
  explicit TowerTakeOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtype", &dtype_));
  }

  void Compute(OpKernelContext* ctx) override {
    typename AccumulatorResourceOf<Traits>::Ptr sum;
    OP_REQUIRES_OK(ctx, AccumulatorResourceOf<Traits>::Lookup(ctx, dtype_, &sum));
    int32_t num_required = 0;
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, 1, "num_required", *sum, &num_required));
    OP_REQUIRES_OK(ctx, OrOutOfMemory(sum->where(), [&] { return Take(ctx, *sum, num_required); }));
  }
  bool IsExpensive() override { return Traits::kWaitsForDevice || OpKernel::IsExpensive(); }

 private:
  using Core = typename Traits::Core;

  static absl::Status Take(OpKernelContext* ctx, AccumulatorResourceOf<Traits>& sum,
                           int num_required) {
    Outcome outcome;
    const auto take = std::make_shared<typename Core::Take>(
        num_required, [&outcome](const Status& status, typename Core::Value* value) {
          outcome.Set(status, value);
        });
    typename Traits::Workspace workspace(ctx);
    tensorflow::Tensor reserved;
    TF_RETURN_IF_ERROR(Traits::ReserveOutputs(ctx, &reserved));
    if (!sum.core().TryServe(take, workspace)) {
      return sum.Invalid(absl::StrCat(
          "Expected ", num_required, " gradients to have been added, got ", sum.num_accumulated()));
    }
    typename Core::Value value;
    TF_RETURN_IF_ERROR(ToAbsl(outcome.Await(&value)));
    return Traits::SetOutputs(ctx, 0, sum, reserved, std::move(value));
  }

  // The outcome of the take. It is set when TryServe() returns, unless another thread is
  // still adding, which happens only if no control edge orders that add before the take.
  class Outcome {
   public:
    void Set(const Status& status, typename Core::Value* value) CONDACC_EXCLUDES(mu_) {
      MutexLock lock(&mu_);
      status_ = status;
      if (value != nullptr) value_ = std::move(*value);
      is_set_ = true;
      changed_.NotifyAll();
    }
    Status Await(typename Core::Value* value) CONDACC_EXCLUDES(mu_) {
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
    typename Core::Value value_ CONDACC_GUARDED_BY(mu_);
  };

  tensorflow::DataType dtype_;
};

template <class Traits>
struct TowerOps {
  using Sum = AccumulatorHandleOp<Traits>;
  using Add = TowerAddOp<Traits>;
  using Take = TowerTakeOp<Traits>;
};

using DenseOps = TowerOps<DenseTowerTraits<CpuPolicy>>;
using SparseOps = TowerOps<SparseTowerTraits<CpuPolicy>>;
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerDenseSum").Device(DEVICE_CPU), DenseOps::Sum);
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerDenseAdd").Device(DEVICE_CPU), DenseOps::Add);
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerDenseTake").Device(DEVICE_CPU), DenseOps::Take);
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerSparseSum").Device(DEVICE_CPU), SparseOps::Sum);
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerSparseAdd").Device(DEVICE_CPU), SparseOps::Add);
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerSparseTake").Device(DEVICE_CPU), SparseOps::Take);

#if defined(CONDACC_CUDA)

using tensorflow::DEVICE_GPU;

// All inputs and outputs but the gradients themselves are in host memory.
using GpuDenseOps = TowerOps<DenseTowerTraits<GpuPolicy>>;
using GpuSparseOps = TowerOps<SparseTowerTraits<GpuPolicy>>;
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerDenseSum").Device(DEVICE_GPU).HostMemory("handle"),
                        GpuDenseOps::Sum);
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerDenseAdd").Device(DEVICE_GPU).HostMemory("handle"),
                        GpuDenseOps::Add);
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerDenseTake")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("num_required"),
                        GpuDenseOps::Take);
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerSparseSum").Device(DEVICE_GPU).HostMemory("handle"),
                        GpuSparseOps::Sum);
REGISTER_KERNEL_BUILDER(
    Name("Condacc>TowerSparseAdd").Device(DEVICE_GPU).HostMemory("handle").HostMemory("shape"),
    GpuSparseOps::Add);
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerSparseTake")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("num_required")
                            .HostMemory("shape"),
                        GpuSparseOps::Take);

#endif

}  // namespace
}  // namespace condacc
