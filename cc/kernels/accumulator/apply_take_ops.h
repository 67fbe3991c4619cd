// The ops that apply gradients to an accumulator of the core and take them from it.
#ifndef CONDACC_KERNELS_ACCUMULATOR_APPLY_TAKE_OPS_H_
#define CONDACC_KERNELS_ACCUMULATOR_APPLY_TAKE_OPS_H_

#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "cc/core/accumulator/apply_result.h"
#include "cc/core/base/status.h"
#include "cc/kernels/accumulator/accumulator_resource_of.h"
#include "cc/kernels/accumulator/take_output.h"
#include "cc/kernels/base/tf_conversions.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"

namespace condacc {

// Applies the gradient that Traits::ReadGradient(ctx, first_input, gradient) reads.
template <class Traits>
absl::Status ApplyGradient(tensorflow::OpKernelContext* ctx,
                           AccumulatorResourceOf<Traits>& resource, int64_t local_step,
                           std::optional<int64_t> contributor, int first_input,
                           ApplyOutcome* outcome) {
  try {
    typename Traits::Workspace workspace(ctx);
    typename Traits::Core::Gradient gradient;
    Traits::ReadGradient(ctx, first_input, &gradient);
    const ApplyResult result =
        resource.core().Apply(local_step, std::move(gradient), workspace, contributor);
    *outcome = result.outcome();
    return ToAbsl(result.status());
  } catch (const std::bad_alloc&) {
    return resource.OutOfMemory();
  }
}

// kYes: the last input of an apply is the number of the gradient's contributor.
enum class WithContributor { kNo, kYes };

// Applies a gradient. Inputs: handle, local_step, those of the gradient and, if kWithContributor
// is kYes, contributor. Output: the outcome ([] int32) if there is a contributor, otherwise whether
// the gradient was added ([] bool).
template <class Traits, WithContributor kWithContributor = WithContributor::kNo>
class ApplyOp : public tensorflow::OpKernel {
 public:
  explicit ApplyOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtype", &dtype_));
  }

  void Compute(tensorflow::OpKernelContext* ctx) override {
    constexpr int kGradient = 2;
    typename AccumulatorResourceOf<Traits>::Ptr resource;
    OP_REQUIRES_OK(ctx, AccumulatorResourceOf<Traits>::Lookup(ctx, dtype_, &resource));
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
  bool IsExpensive() override { return Traits::kWaitsForDevice || OpKernel::IsExpensive(); }

 private:
  static void SetOutput(ApplyOutcome outcome, tensorflow::Tensor* output) {
    if constexpr (kWithContributor == WithContributor::kYes) {
      output->scalar<int32_t>()() = static_cast<int32_t>(outcome);
    } else {
      output->scalar<bool>()() = outcome == ApplyOutcome::kAdded;
    }
  }

  tensorflow::DataType dtype_;
};

// The behaviour of a take if there are too few gradients: kBlocking waits, without holding a
// thread, and kTry ends at once and outputs that nothing was taken.
enum class TakeMode { kBlocking, kTry };
// kYes: a take names the only global step of the accumulator at which it takes gradients.
enum class WithStep { kNo, kYes };

// Takes the accumulated gradients. Inputs: handle, global_step if kWithStep is kYes, and
// num_required. Outputs: taken ([] bool) if kTakeMode is kTry, and those of Traits::SetOutputs().
template <class Traits, TakeMode kTakeMode, WithStep kWithStep = WithStep::kNo>
class TakeOp : public tensorflow::AsyncOpKernel {
 public:
  explicit TakeOp(tensorflow::OpKernelConstruction* ctx) : AsyncOpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtype", &dtype_));
  }

  void ComputeAsync(tensorflow::OpKernelContext* ctx, DoneCallback done) override {
    typename AccumulatorResourceOf<Traits>::Ptr resource;
    OP_REQUIRES_OK_ASYNC(ctx, AccumulatorResourceOf<Traits>::Lookup(ctx, dtype_, &resource), done);
    std::optional<int64_t> global_step;
    if (kWithStep == WithStep::kYes) {
      OP_REQUIRES_OK_ASYNC(
          ctx, ReadScalar(ctx, 1, "global_step", *resource, &global_step.emplace()), done);
    }
    int32_t num_required = 0;
    OP_REQUIRES_OK_ASYNC(
        ctx, ReadScalar(ctx, ctx->num_inputs() - 1, "num_required", *resource, &num_required),
        done);
    std::shared_ptr<TakeOutput<Traits>> output;
    try {
      output = std::make_shared<TakeOutput<Traits>>(ctx, done, std::move(resource),
                                                    kTakeMode == TakeMode::kTry);
    } catch (const std::bad_alloc&) {
      ctx->SetStatus(absl::ResourceExhaustedError("Out of memory (a take of an accumulator)"));
      return done();
    }
    OP_REQUIRES_OK_ASYNC(ctx, output->Reserve(), done);
    try {
      Take(num_required, global_step, output);
    } catch (const std::bad_alloc&) {
      output->CompleteOutOfMemory();
    }
  }
  bool IsExpensive() override { return Traits::kWaitsForDevice || OpKernel::IsExpensive(); }

 private:
  using Core = typename Traits::Core;

  // Requests the take, whose completion calls the op's `done`, perhaps before this returns. A take
  // that has to wait registers its cancellation callback *before* it is requested, because of these
  // races:
  // - As soon as the take is requested, any thread may complete it, after which the op's context
  //   and its cancellation manager may be gone. A registration after the request would use freed
  //   objects. It would also race with Complete(), which reads whether there is a callback to
  //   deregister.
  // - The step may be cancelled before the request. A cancellation before the registration makes
  //   the registration fail, and one after it runs the callback. Either way Core::Cancel() marks
  //   the take, and Request() completes it with Cancelled. So no cancellation is lost, and a
  //   cancelled take never waits.
  // - The callback may run, in another thread, between the registration and the request. It cannot
  //   complete the take, which does not wait yet. So nobody else calls Complete() while OnCancel()
  //   has not returned.
  // A take that need not wait registers no callback. It only finds out, before it is requested,
  // whether the step was cancelled.
  static void Take(int32_t num_required, std::optional<int64_t> global_step,
                   const std::shared_ptr<TakeOutput<Traits>>& output) {
    Core& core = output->resource().core();
    const auto take = std::make_shared<typename Core::Take>(
        num_required,
        [output](const Status& status, typename Core::Value* value) {
          output->Complete(status, value);
        },
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

  tensorflow::DataType dtype_;
};

// The ops of one kind of accumulator on one kind of device.
template <class Traits>
struct AccumulatorOps {
  using Handle = AccumulatorHandleOp<Traits>;
  using Apply = ApplyOp<Traits>;
  using ApplyContribution = ApplyOp<Traits, WithContributor::kYes>;
  using Take = TakeOp<Traits, TakeMode::kBlocking>;
  using TryTake = TakeOp<Traits, TakeMode::kTry>;
  using TakeRound = TakeOp<Traits, TakeMode::kTry, WithStep::kYes>;
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_ACCUMULATOR_APPLY_TAKE_OPS_H_
