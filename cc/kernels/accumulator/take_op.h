// Ops that take what an accumulator has.
#ifndef CONDACC_KERNELS_ACCUMULATOR_TAKE_OP_H_
#define CONDACC_KERNELS_ACCUMULATOR_TAKE_OP_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/core/accumulator/apply_result.h"
#include "cc/core/accumulator/pending_take.h"
#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"
#include "cc/kernels/accumulator/accumulator_resource.h"
#include "cc/kernels/accumulator/device.h"
#include "cc/kernels/accumulator/gradient_io.h"
#include "cc/kernels/base/async_kernel.h"
#include "cc/kernels/base/tf_conversions.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"

namespace condacc {

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
      TF_RETURN_IF_ERROR(ctx()->allocate_output(0, tensorflow::TensorShape({}), &taken_));
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
  tensorflow::Tensor* taken_ = nullptr;  // The bool output of a try-take; null for other takes.
  std::optional<TakeOutputs> outputs_;   // The others.
};

// The behaviour of a take if there are too few gradients: kWait waits without blocking a thread.
// kTry ends at once, and outputs that nothing was taken. kDemand fails.
enum class TakeMode { kWait, kTry, kDemand };
// The inputs of a take between the handle and num_required: none, the global step at which it takes
// gradients, or the local step and the values of a gradient that it applies first.
enum class TakeInputs { kNone, kGlobalStep, kGradient };

// Takes the accumulated gradients. Inputs: handle, those of kInputs, and num_required. Outputs:
// taken ([] bool) with kTry, and TakeOutputs.
template <const AccumulatorKind& kKind, TakeMode kMode, TakeInputs kInputs = TakeInputs::kNone>
class TakeOp
    : public AsyncKernel<TakeExecution,
                         std::conditional_t<kMode == TakeMode::kWait, tensorflow::AsyncOpKernel,
                                            tensorflow::OpKernel>> {
  using Base = typename TakeOp::AsyncKernel;
  static constexpr bool kAppliesFirst = kInputs == TakeInputs::kGradient;

 public:
  explicit TakeOp(tensorflow::OpKernelConstruction* ctx)
      : Base(ctx), waits_for_device_(kKind.is_sparse && DeviceOf(ctx).merges_wait) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtype", &dtype_));
  }
  bool IsExpensive() override { return waits_for_device_ || Base::IsExpensive(); }

 private:
  absl::Status Begin(const std::shared_ptr<TakeExecution>& execution) override {
    tensorflow::OpKernelContext* const ctx = execution->ctx();
    TF_RETURN_IF_ERROR(execution->Find(kKind, dtype_));
    std::optional<int64_t> global_step;
    if (kInputs == TakeInputs::kGlobalStep) {
      TF_RETURN_IF_ERROR(
          ReadScalar(ctx, 1, "global_step", execution->resource(), &global_step.emplace()));
    }
    int32_t num_required = 0;
    TF_RETURN_IF_ERROR(ReadScalar(ctx, ctx->num_inputs() - 1, "num_required", execution->resource(),
                                  &num_required));
    TF_RETURN_IF_ERROR(execution->Declare(/*tells_taken=*/kMode == TakeMode::kTry));
    return Take(ctx, num_required, global_step, execution);
  }

  // Requests the take, whose completion ends the op, perhaps before this returns. A take that has
  // to wait first registers its cancellation callback; see AsyncExecution::OnCancel(). A take that
  // need not wait registers none, and only checks whether the step was cancelled, because nothing
  // would receive the gradients then. Returns an error if a gradient cannot be applied.
  static absl::Status Take(tensorflow::OpKernelContext* ctx, int32_t num_required,
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
    if (kMode == TakeMode::kDemand) {
      return absl::FailedPreconditionError(
          absl::StrCat("Expected at least ", num_required, " gradients and no pending take, got ",
                       core.num_accumulated(), " gradients (", execution->where(), ")"));
    }
    if (kMode == TakeMode::kTry) {
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
  static absl::Status Apply(tensorflow::OpKernelContext* ctx, AccumulatorResource& resource) {
    ApplyArgs args;
    ApplyOutcome outcome;
    TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "local_step", resource, &args.local_step));
    return ApplyGradient(ctx, resource, args, /*first=*/2, &outcome);
  }

  const bool waits_for_device_;
  tensorflow::DataType dtype_;
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_ACCUMULATOR_TAKE_OP_H_
