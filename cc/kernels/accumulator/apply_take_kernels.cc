// Kernels of the ops that make an accumulator, apply gradients to it and take them from it.
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/core/accumulator/apply_result.h"
#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"
#include "cc/kernels/accumulator/accumulator_resource.h"
#include "cc/kernels/accumulator/device.h"
#include "cc/kernels/accumulator/gradient_io.h"
#include "cc/kernels/base/async_kernel.h"
#include "cc/kernels/base/kernel.h"
#include "cc/kernels/base/tf_conversions.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"

namespace condacc {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// The last input of an apply, after those of the gradient.
enum class LastInput { kNone, kContributor, kWeight };

// Applies a gradient. Inputs: handle, local_step, those of the gradient and perhaps one more.
// Output: the outcome ([] int32) if there is a contributor, and otherwise whether the gradient was
// added ([] bool).
template <const AccumulatorKind& kKind, LastInput kLastInput = LastInput::kNone>
class ApplyOp : public Kernel {
 public:
  explicit ApplyOp(OpKernelConstruction* ctx)
      : Kernel(ctx), waits_for_device_(kKind.is_sparse && DeviceOf(ctx).merges_wait) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtype", &dtype_));
  }
  // TensorFlow regards GPU kernels as inexpensive, and runs them one after another in one thread. A
  // kernel that waits for the device must not delay the others.
  bool IsExpensive() override { return waits_for_device_ || Kernel::IsExpensive(); }

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    constexpr int kGradient = 2;
    AccumulatorPtr resource;
    TF_RETURN_IF_ERROR(LookupAccumulator(ctx, kKind, dtype_, &resource));
    ApplyArgs args;
    TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "local_step", *resource, &args.local_step));
    const int last = ctx->num_inputs() - 1;
    if (kLastInput == LastInput::kContributor) {
      TF_RETURN_IF_ERROR(
          ReadScalar(ctx, last, "contributor", *resource, &args.contributor.emplace()));
    } else if (kLastInput == LastInput::kWeight) {
      TF_RETURN_IF_ERROR(ReadScalar(ctx, last, "weight", *resource, &args.weight));
    }
    // The output is allocated first: nothing may fail after the gradient has been added.
    Tensor* output = nullptr;
    if (ctx->output_required(0)) {
      TF_RETURN_IF_ERROR(ctx->allocate_output(0, TensorShape({}), &output));
    }
    ApplyOutcome outcome;
    TF_RETURN_IF_ERROR(ApplyGradient(ctx, *resource, args, kGradient, &outcome));
    if (output != nullptr) SetOutput(outcome, output);
    return absl::OkStatus();
  }

  static void SetOutput(ApplyOutcome outcome, Tensor* output) {
    if constexpr (kLastInput == LastInput::kContributor) {
      output->scalar<int32_t>()() = static_cast<int32_t>(outcome);
    } else {
      output->scalar<bool>()() = outcome == ApplyOutcome::kAdded;
    }
  }

  const bool waits_for_device_;
  tensorflow::DataType dtype_;
};

// An execution of a take op. The take keeps it alive and gives it the result.
class TakeExecution : public AsyncExecution {
 public:
  using AsyncExecution::AsyncExecution;

  AccumulatorResource& resource() { return *resource_; }
  Workspace& workspace() { return *workspace_; }

  // Finds the accumulator; see LookupAccumulator().
  absl::Status Find(const AccumulatorKind& kind, tensorflow::DataType dtype) {
    TF_RETURN_IF_ERROR(LookupAccumulator(ctx(), kind, dtype, &resource_));
    resource_->device().make_workspace(ctx(), &workspace_);
    set_where(resource_->where());
    return absl::OkStatus();
  }

  // Prepares the outputs. If `tells_taken`, the first one tells whether anything was taken.
  absl::Status Declare(bool tells_taken) {
    if (tells_taken) {
      TF_RETURN_IF_ERROR(ctx()->allocate_output(0, TensorShape({}), &taken_));
    }
    outputs_.emplace(ctx(), tells_taken ? 1 : 0, resource_->spec());
    return absl::OkStatus();
  }
  // See TakeOutputs::Reserve(). Declare() must have succeeded.
  Status Reserve(const Shape& shape) { return outputs_->Reserve(shape); }

  // Ends the op with the value or an error. Later calls do nothing. Reserve() must have succeeded,
  // if there is a value.
  void Complete(const Status& status, Value* value) {
    // The global step has changed since the take was requested. No other error has this code.
    if (tells_taken() && status.code() == StatusCode::kFailedPrecondition) return CompleteEmpty();
    AsyncExecution::Complete([&] {
      if (value == nullptr) return ToAbsl(status);
      SetTaken(true);
      outputs_->Set(std::move(*value));
      return absl::OkStatus();
    });
  }
  using AsyncExecution::Complete;

  // Ends the op if there are too few gradients or the step is another: outputs false, and an empty
  // value or zeros.
  void CompleteEmpty() {
    AsyncExecution::Complete([this] {
      SetTaken(false);
      return outputs_->SetEmpty(*workspace_);
    });
  }

 private:
  bool tells_taken() const { return taken_ != nullptr; }

  void SetTaken(bool taken) {
    if (tells_taken()) taken_->scalar<bool>()() = taken;
  }

  AccumulatorPtr resource_;
  OpWorkspace workspace_;
  Tensor* taken_ = nullptr;             // The bool output of a try-take; null for other takes.
  std::optional<TakeOutputs> outputs_;  // The others.
};

// The behaviour of a take if there are too few gradients: kWaiting waits without blocking a thread.
// kTry ends at once: it outputs that nothing was taken or, if it has applied a gradient, fails.
enum class TakeMode { kWaiting, kTry };
template <TakeMode kTakeMode>
using KernelOf = std::conditional_t<kTakeMode == TakeMode::kWaiting, tensorflow::AsyncOpKernel,
                                    tensorflow::OpKernel>;
// The inputs of a take between the handle and num_required: none, the global step at which it takes
// gradients, or the local step and the values of a gradient that it applies first.
enum class TakeInputs { kNone, kGlobalStep, kGradient };

// Takes the accumulated gradients. Inputs: handle, those of kInputs, and num_required. Outputs:
// taken ([] bool) if kTellsTaken, and TakeOutputs.
template <const AccumulatorKind& kKind, TakeMode kTakeMode, TakeInputs kInputs = TakeInputs::kNone>
class TakeOp : public AsyncKernel<TakeExecution, KernelOf<kTakeMode>> {
  using Base = AsyncKernel<TakeExecution, KernelOf<kTakeMode>>;
  static constexpr bool kAppliesFirst = kInputs == TakeInputs::kGradient;
  static constexpr bool kTellsTaken = kTakeMode == TakeMode::kTry && !kAppliesFirst;

 public:
  explicit TakeOp(OpKernelConstruction* ctx)
      : Base(ctx), waits_for_device_(kKind.is_sparse && DeviceOf(ctx).merges_wait) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtype", &dtype_));
  }
  bool IsExpensive() override { return waits_for_device_ || Base::IsExpensive(); }

 private:
  absl::Status Begin(const std::shared_ptr<TakeExecution>& execution) override {
    OpKernelContext* const ctx = execution->ctx();
    TF_RETURN_IF_ERROR(execution->Find(kKind, dtype_));
    std::optional<int64_t> global_step;
    if (kInputs == TakeInputs::kGlobalStep) {
      TF_RETURN_IF_ERROR(
          ReadScalar(ctx, 1, "global_step", execution->resource(), &global_step.emplace()));
    }
    int32_t num_required = 0;
    TF_RETURN_IF_ERROR(ReadScalar(ctx, ctx->num_inputs() - 1, "num_required", execution->resource(),
                                  &num_required));
    TF_RETURN_IF_ERROR(execution->Declare(kTellsTaken));
    return Take(ctx, num_required, global_step, execution);
  }

  // Requests the take, whose completion ends the op, perhaps before this returns. A take that has
  // to wait first registers its cancellation callback; see AsyncExecution::OnCancel(). A take that
  // need not wait registers none, and only checks whether the step was cancelled, because nothing
  // would receive the gradients then. Returns an error if a gradient cannot be applied.
  static absl::Status Take(OpKernelContext* ctx, int32_t num_required,
                           std::optional<int64_t> global_step,
                           const std::shared_ptr<TakeExecution>& execution) {
    Accumulator& core = execution->resource().core();
    const auto take = std::make_shared<PendingTake>(
        num_required,
        [execution](const Status& status, Value* value) { execution->Complete(status, value); },
        global_step);
    take->reserve = [execution](const Shape& shape) { return execution->Reserve(shape); };
    const bool is_cancelled = execution->is_cancelled();
    if (is_cancelled) core.Cancel(take, execution->workspace());
    if (kAppliesFirst && !is_cancelled && num_required > 0) {
      TF_RETURN_IF_ERROR(Apply(ctx, execution->resource()));
    }
    if (core.TryServe(take, execution->workspace())) return absl::OkStatus();
    if (kAppliesFirst) {
      return absl::FailedPreconditionError(
          absl::StrCat("Expected at least ", num_required, " gradients and no pending take, got ",
                       core.num_accumulated(), " gradients (", execution->where(), ")"));
    }
    if (kTakeMode == TakeMode::kTry) {
      execution->CompleteEmpty();
      return absl::OkStatus();
    }
    const auto cancel = [execution, take] {
      execution->resource().core().Cancel(take, execution->workspace());
    };
    if (!execution->OnCancel(cancel)) cancel();
    core.Request(take, execution, execution->workspace());
    return absl::OkStatus();
  }

  // Applies the gradient, unless it is stale.
  static absl::Status Apply(OpKernelContext* ctx, AccumulatorResource& resource) {
    ApplyArgs args;
    ApplyOutcome outcome;
    TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "local_step", resource, &args.local_step));
    return ApplyGradient(ctx, resource, args, /*first=*/2, &outcome);
  }

  const bool waits_for_device_;
  tensorflow::DataType dtype_;
};

// The ops of one kind of accumulator.
template <const AccumulatorKind& kKind>
struct AccumulatorKernels {
  using Handle = AccumulatorHandleOp<kKind>;
  using Apply = ApplyOp<kKind>;
  using ApplyContribution = ApplyOp<kKind, LastInput::kContributor>;
  using ApplyWeighted = ApplyOp<kKind, LastInput::kWeight>;
  using Take = TakeOp<kKind, TakeMode::kWaiting>;
  using TryTake = TakeOp<kKind, TakeMode::kTry>;
  using TakeRound = TakeOp<kKind, TakeMode::kTry, TakeInputs::kGlobalStep>;
  using ApplyTake = TakeOp<kKind, TakeMode::kTry, TakeInputs::kGradient>;
};

using DenseOps = AccumulatorKernels<kDense>;
using SparseOps = AccumulatorKernels<kSparse>;
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseAccumulator").Device(DEVICE_CPU), DenseOps::Handle);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseApply").Device(DEVICE_CPU), DenseOps::Apply);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseTake").Device(DEVICE_CPU), DenseOps::Take);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseTryTake").Device(DEVICE_CPU), DenseOps::TryTake);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseApplyContribution").Device(DEVICE_CPU),
                        DenseOps::ApplyContribution);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseApplyWeighted").Device(DEVICE_CPU),
                        DenseOps::ApplyWeighted);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseTakeRound").Device(DEVICE_CPU), DenseOps::TakeRound);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseApplyTake").Device(DEVICE_CPU), DenseOps::ApplyTake);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseAccumulator").Device(DEVICE_CPU), SparseOps::Handle);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseApply").Device(DEVICE_CPU), SparseOps::Apply);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseTake").Device(DEVICE_CPU), SparseOps::Take);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseTryTake").Device(DEVICE_CPU), SparseOps::TryTake);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseApplyContribution").Device(DEVICE_CPU),
                        SparseOps::ApplyContribution);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseApplyWeighted").Device(DEVICE_CPU),
                        SparseOps::ApplyWeighted);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseTakeRound").Device(DEVICE_CPU), SparseOps::TakeRound);

#if defined(CONDACC_CUDA)

using tensorflow::DEVICE_GPU;

// All inputs and outputs but the indices and the values of gradients are in host memory.
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseAccumulator").Device(DEVICE_GPU).HostMemory("handle"),
                        DenseOps::Handle);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseApply")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("local_step")
                            .HostMemory("accepted"),
                        DenseOps::Apply);
REGISTER_KERNEL_BUILDER(
    Name("Condacc>DenseTake").Device(DEVICE_GPU).HostMemory("handle").HostMemory("num_required"),
    DenseOps::Take);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseTryTake")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("num_required")
                            .HostMemory("taken"),
                        DenseOps::TryTake);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseApplyContribution")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("local_step")
                            .HostMemory("contributor")
                            .HostMemory("outcome"),
                        DenseOps::ApplyContribution);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseApplyWeighted")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("local_step")
                            .HostMemory("weight")
                            .HostMemory("accepted"),
                        DenseOps::ApplyWeighted);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseTakeRound")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("global_step")
                            .HostMemory("num_required")
                            .HostMemory("taken"),
                        DenseOps::TakeRound);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseApplyTake")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("local_step")
                            .HostMemory("num_required"),
                        DenseOps::ApplyTake);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseAccumulator").Device(DEVICE_GPU).HostMemory("handle"),
                        SparseOps::Handle);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseApply")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("local_step")
                            .HostMemory("shape")
                            .HostMemory("accepted"),
                        SparseOps::Apply);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseTake")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("num_required")
                            .HostMemory("shape"),
                        SparseOps::Take);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseTryTake")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("num_required")
                            .HostMemory("taken")
                            .HostMemory("shape"),
                        SparseOps::TryTake);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseApplyContribution")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("local_step")
                            .HostMemory("grad_shape")
                            .HostMemory("contributor")
                            .HostMemory("outcome"),
                        SparseOps::ApplyContribution);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseApplyWeighted")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("local_step")
                            .HostMemory("shape")
                            .HostMemory("weight")
                            .HostMemory("accepted"),
                        SparseOps::ApplyWeighted);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseTakeRound")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("global_step")
                            .HostMemory("num_required")
                            .HostMemory("taken")
                            .HostMemory("shape"),
                        SparseOps::TakeRound);

#endif

}  // namespace
}  // namespace condacc
