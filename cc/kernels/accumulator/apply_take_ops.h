// The ops that apply gradients to an accumulator of the core and take them from it.
#ifndef CONDACC_KERNELS_ACCUMULATOR_APPLY_TAKE_OPS_H_
#define CONDACC_KERNELS_ACCUMULATOR_APPLY_TAKE_OPS_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "cc/core/accumulator/apply_result.h"
#include "cc/core/base/status.h"
#include "cc/kernels/accumulator/accumulator_resource.h"
#include "cc/kernels/accumulator/device.h"
#include "cc/kernels/accumulator/gradient_io.h"
#include "cc/kernels/accumulator/take_output.h"
#include "cc/kernels/base/async_op.h"
#include "cc/kernels/base/out_of_memory.h"
#include "cc/kernels/base/tf_conversions.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace condacc {

// Applies the gradient that ReadGradient() reads.
inline absl::Status ApplyGradient(tensorflow::OpKernelContext* ctx, AccumulatorResource& resource,
                                  int64_t local_step, std::optional<int64_t> contributor,
                                  int first_input, ApplyOutcome* outcome) {
  return OrOutOfMemory(resource.where(), [&] {
    const std::unique_ptr<Workspace> workspace = resource.NewWorkspace(ctx);
    const ApplyResult result = resource.core().Apply(
        local_step, ReadGradient(ctx, first_input, resource.spec().kind->is_sparse), *workspace,
        contributor);
    *outcome = result.outcome();
    return ToAbsl(result.status());
  });
}

// kYes: the last input of an apply is the number of the gradient's contributor.
enum class WithContributor { kNo, kYes };

// Applies a gradient. Inputs: handle, local_step, those of the gradient and, if kWithContributor
// is kYes, contributor. Output: the outcome ([] int32) if there is a contributor, otherwise whether
// the gradient was added ([] bool).
template <const AccumulatorKind& kKind, WithContributor kWithContributor = WithContributor::kNo>
class ApplyOp : public tensorflow::OpKernel {
 public:
  explicit ApplyOp(tensorflow::OpKernelConstruction* ctx)
      : OpKernel(ctx), waits_for_device_(kKind.is_sparse && DeviceOf(ctx).merges_wait) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtype", &dtype_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    constexpr int kGradient = 2;
    AccumulatorPtr resource;
    OP_REQUIRES_OK(ctx, LookupAccumulator(ctx, kKind, dtype_, &resource));
    int64_t local_step = 0;
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, 1, "local_step", *resource, &local_step));
    std::optional<int64_t> contributor;
    if (kWithContributor == WithContributor::kYes) {
      OP_REQUIRES_OK(ctx, ReadScalar(ctx, ctx->num_inputs() - 1, "contributor", *resource,
                                     &contributor.emplace()));
    }
    // The output is allocated first: nothing may fail after the gradient has been added.
    tensorflow::Tensor* output = nullptr;
    if (ctx->output_required(0)) {
      OP_REQUIRES_OK(ctx, ctx->allocate_output(0, tensorflow::TensorShape({}), &output));
    }
    ApplyOutcome outcome;
    OP_REQUIRES_OK(ctx,
                   ApplyGradient(ctx, *resource, local_step, contributor, kGradient, &outcome));
    if (output != nullptr) SetOutput(outcome, output);
  }
  // TensorFlow regards GPU kernels as inexpensive, and runs them one after another in one thread. A
  // kernel that waits for the device must not hold up the others.
  bool IsExpensive() override { return waits_for_device_ || OpKernel::IsExpensive(); }

 private:
  static void SetOutput(ApplyOutcome outcome, tensorflow::Tensor* output) {
    if constexpr (kWithContributor == WithContributor::kYes) {
      output->scalar<int32_t>()() = static_cast<int32_t>(outcome);
    } else {
      output->scalar<bool>()() = outcome == ApplyOutcome::kAdded;
    }
  }

  const bool waits_for_device_;
  tensorflow::DataType dtype_;
};

// The behaviour of a take if there are too few gradients: kBlocking waits, without holding a
// thread, and kTry ends at once and outputs that nothing was taken.
enum class TakeMode { kBlocking, kTry };
// kYes: a take names the only global step of the accumulator at which it takes gradients.
enum class WithStep { kNo, kYes };

// Takes the accumulated gradients. Inputs: handle, global_step if kWithStep is kYes, and
// num_required. Outputs: taken ([] bool) if kTakeMode is kTry, and those of SetOutputs().
template <const AccumulatorKind& kKind, TakeMode kTakeMode, WithStep kWithStep = WithStep::kNo>
class TakeOp : public AsyncKernel<TakeOutput> {
 public:
  explicit TakeOp(tensorflow::OpKernelConstruction* ctx)
      : AsyncKernel(ctx), waits_for_device_(kKind.is_sparse && DeviceOf(ctx).merges_wait) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtype", &dtype_));
  }
  bool IsExpensive() override { return waits_for_device_ || AsyncOpKernel::IsExpensive(); }

 private:
  absl::Status Begin(const std::shared_ptr<TakeOutput>& output) override {
    tensorflow::OpKernelContext* const ctx = output->ctx();
    TF_RETURN_IF_ERROR(output->Find(kKind, dtype_));
    std::optional<int64_t> global_step;
    if (kWithStep == WithStep::kYes) {
      TF_RETURN_IF_ERROR(
          ReadScalar(ctx, 1, "global_step", output->resource(), &global_step.emplace()));
    }
    int32_t num_required = 0;
    TF_RETURN_IF_ERROR(
        ReadScalar(ctx, ctx->num_inputs() - 1, "num_required", output->resource(), &num_required));
    TF_RETURN_IF_ERROR(output->Reserve(kTakeMode == TakeMode::kTry));
    Take(num_required, global_step, output);
    return absl::OkStatus();
  }

  // Requests the take, whose completion ends the op, perhaps before this returns. A take that has
  // to wait registers its cancellation callback before; see AsyncOp::OnCancel(). A take that need
  // not wait registers none, and only finds out whether the step was cancelled: nobody would
  // receive its gradients.
  static void Take(int32_t num_required, std::optional<int64_t> global_step,
                   const std::shared_ptr<TakeOutput>& output) {
    Accumulator& core = output->resource().core();
    const auto take = std::make_shared<PendingTake>(
        num_required,
        [output](const Status& status, Value* value) { output->Complete(status, value); },
        global_step);
    if (output->is_cancelled()) core.Cancel(take, output->workspace());
    if (core.TryServe(take, output->workspace())) return;
    if (kTakeMode == TakeMode::kTry) return output->CompleteEmpty();
    const auto cancel = [output, take] {
      output->resource().core().Cancel(take, output->workspace());
    };
    if (!output->OnCancel(cancel)) cancel();
    core.Request(take, output, output->workspace());
  }

  const bool waits_for_device_;
  tensorflow::DataType dtype_;
};

// The ops of one kind of accumulator.
template <const AccumulatorKind& kKind>
struct AccumulatorOps {
  using Handle = AccumulatorHandleOp<kKind>;
  using Apply = ApplyOp<kKind>;
  using ApplyContribution = ApplyOp<kKind, WithContributor::kYes>;
  using Take = TakeOp<kKind, TakeMode::kBlocking>;
  using TryTake = TakeOp<kKind, TakeMode::kTry>;
  using TakeRound = TakeOp<kKind, TakeMode::kTry, WithStep::kYes>;
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_ACCUMULATOR_APPLY_TAKE_OPS_H_
