// Kernels of the ops that make an accumulator, apply gradients to it and take them from it. Those
// for the gradients of one step's towers are the same ones, for accumulators of towers.
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cc/core/accumulator/accumulator.h"
#include "cc/core/accumulator/apply_result.h"
#include "cc/core/accumulator/gradient.h"
#include "cc/core/accumulator/pending_take.h"
#include "cc/core/accumulator/workspace.h"
#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"
#include "cc/kernels/accumulator/accumulator_resource.h"
#include "cc/kernels/accumulator/device.h"
#include "cc/kernels/accumulator/gradient_io.h"
#include "cc/kernels/base/async_kernel.h"
#include "cc/kernels/base/errors.h"
#include "cc/kernels/base/host_memory.h"
#include "cc/kernels/base/inputs.h"
#include "cc/kernels/base/kernel.h"
#include "cc/kernels/base/tf_conversions.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"

namespace condacc {
namespace {

using tensorflow::AsyncOpKernel;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// Reads whether an op has an optional input. `attribute` is the length of the list that it is.
absl::Status ReadOptional(OpKernelConstruction* ctx, const char* attribute, bool* is_given) {
  int length = 0;
  TF_RETURN_IF_ERROR(ctx->GetAttr(attribute, &length));
  *is_given = length == 1;
  if (length <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("Expected ", attribute, " <= 1, got ", length));
}

// Applies a gradient. Inputs: handle, local_step, those of the gradient, and perhaps a contributor
// and a weight. Output: the outcome ([] int32). The gradient of a tower has no local step, because
// it is never stale, no contributor, no weight and no output.
template <const AccumulatorKind& kKind>
class ApplyOp : public Kernel {
 public:
  explicit ApplyOp(OpKernelConstruction* ctx)
      : Kernel(ctx),
        waits_for_device_(kKind.is_sparse && DeviceOf(ctx).merges_wait),
        accumulators_(ctx, kKind) {
    if (kKind.is_tower) return;
    OP_REQUIRES_OK(ctx, ReadOptional(ctx, "num_contributors", &has_contributor_));
    OP_REQUIRES_OK(ctx, ReadOptional(ctx, "num_weights", &has_weight_));
  }
  // TensorFlow regards GPU kernels as inexpensive, and runs them one after another in one thread. A
  // kernel that waits for the device must not delay the others. Most gradients of towers are only
  // appended to the pending ones.
  bool IsExpensive() override {
    return waits_for_device_ || (!kKind.is_tower && OpKernel::IsExpensive());
  }

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    AccumulatorPtr resource;
    TF_RETURN_IF_ERROR(accumulators_.Find(ctx, &resource));
    return Named(resource->where(), [&] { return Apply(ctx, *resource); });
  }

  absl::Status Apply(OpKernelContext* ctx, AccumulatorResource& resource) const {
    constexpr int kGradient = kKind.is_tower ? 1 : 2;
    int64_t local_step = std::numeric_limits<int64_t>::max();
    if (!kKind.is_tower) TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "local_step", &local_step));
    Gradient gradient = ReadGradient(ctx, kGradient, kKind.is_sparse);
    int next = kGradient + (kKind.is_sparse ? 3 : 1);
    if (has_contributor_) {
      TF_RETURN_IF_ERROR(ReadScalar(ctx, next++, "contributor", &gradient.contributor.emplace()));
    }
    if (has_weight_) TF_RETURN_IF_ERROR(ReadScalar(ctx, next, "weight", &gradient.weight));
    // The output is allocated first: nothing may fail after the gradient has been added.
    Tensor* output = nullptr;
    if (!kKind.is_tower && ctx->output_required(0)) {
      TF_RETURN_IF_ERROR(ctx->allocate_output(0, TensorShape({}), &output));
    }
    OpWorkspace memory;
    Workspace& workspace = resource.device().make_workspace(ctx, &memory);
    const ApplyResult result = resource.core().Apply(local_step, std::move(gradient), workspace);
    if (!result.ok()) return ToAbsl(result.status());
    if (output != nullptr) output->scalar<int32_t>()() = static_cast<int32_t>(result.outcome());
    return absl::OkStatus();
  }

  const bool waits_for_device_;
  bool has_contributor_ = false;
  bool has_weight_ = false;
  AccumulatorFinder accumulators_;
};

// An execution of a take op. The take keeps it alive and gives it the result.
class TakeExecution : public AsyncExecution {
 public:
  using AsyncExecution::AsyncExecution;

  AccumulatorResource& resource() { return *resource_; }
  Workspace& workspace() { return *workspace_; }

  absl::Status Find(AccumulatorFinder& accumulators) {
    TF_RETURN_IF_ERROR(accumulators.Find(ctx(), &resource_));
    workspace_ = &resource_->device().make_workspace(ctx(), &memory_);
    return absl::OkStatus();
  }

  // Prepares the outputs. If `tells_taken`, the first one tells whether anything was taken.
  absl::Status PrepareOutputs(bool tells_taken) {
    if (tells_taken) {
      TF_RETURN_IF_ERROR(ctx()->allocate_output(0, TensorShape({}), &taken_));
    }
    outputs_.emplace(ctx(), tells_taken ? 1 : 0, resource_->spec());
    return absl::OkStatus();
  }
  // See TakeOutputs::Reserve(). PrepareOutputs() must have succeeded.
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
  absl::string_view where() const override {
    return resource_ == nullptr ? absl::string_view() : resource_->where();
  }
  bool tells_taken() const { return taken_ != nullptr; }

  void SetTaken(bool taken) {
    if (tells_taken()) taken_->scalar<bool>()() = taken;
  }

  AccumulatorPtr resource_;
  OpWorkspace memory_;
  Workspace* workspace_ = nullptr;
  Tensor* taken_ = nullptr;             // The bool output of a try-take; null for other takes.
  std::optional<TakeOutputs> outputs_;  // The others.
};

// The behaviour of a take if there are too few gradients: kWait waits without blocking a thread.
// kTry ends at once, and outputs that nothing was taken. kDemand fails.
enum class TakeMode { kWait, kTry, kDemand };

// Takes the accumulated gradients. Inputs: handle, num_required and, with kTry, perhaps the only
// global step at which it takes gradients. If kAppliesFirst, it applies a gradient before, whose
// local step and values are the inputs after the handle. Outputs: taken ([] bool) with kTry, and
// TakeOutputs.
template <const AccumulatorKind& kKind, TakeMode kMode, bool kAppliesFirst = false>
class TakeOp
    : public AsyncKernel<TakeExecution,
                         std::conditional_t<kMode == TakeMode::kWait, AsyncOpKernel, OpKernel>> {
  using Base = typename TakeOp::AsyncKernel;
  static constexpr int kNumRequired = kAppliesFirst ? 3 : 1;

 public:
  explicit TakeOp(OpKernelConstruction* ctx)
      : Base(ctx),
        waits_for_device_(kKind.is_sparse && DeviceOf(ctx).merges_wait),
        accumulators_(ctx, kKind) {
    if (kMode != TakeMode::kTry) return;
    OP_REQUIRES_OK(ctx, ReadOptional(ctx, "num_global_steps", &has_global_step_));
  }
  bool IsExpensive() override { return waits_for_device_ || Base::IsExpensive(); }

 private:
  absl::Status Begin(const std::shared_ptr<TakeExecution>& execution) override {
    OpKernelContext* const ctx = execution->ctx();
    TF_RETURN_IF_ERROR(execution->Find(accumulators_));
    std::optional<int64_t> global_step;
    if (has_global_step_) {
      TF_RETURN_IF_ERROR(ReadScalar(ctx, 2, "global_step", &global_step.emplace()));
    }
    int32_t num_required = 0;
    TF_RETURN_IF_ERROR(ReadScalar(ctx, kNumRequired, "num_required", &num_required));
    TF_RETURN_IF_ERROR(execution->PrepareOutputs(/*tells_taken=*/kMode == TakeMode::kTry));
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
      TF_RETURN_IF_ERROR(Apply(ctx, core, execution->workspace()));
    }
    if (core.TryServe(take, execution->workspace())) return absl::OkStatus();
    if (kMode == TakeMode::kDemand) {
      return absl::FailedPreconditionError(absl::StrCat("Expected at least ", num_required,
                                                        " gradients and no pending take, got ",
                                                        core.num_accumulated(), " gradients"));
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
  static absl::Status Apply(OpKernelContext* ctx, Accumulator& core, Workspace& workspace) {
    int64_t local_step = 0;
    TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "local_step", &local_step));
    Gradient gradient = ReadGradient(ctx, /*first=*/2, kKind.is_sparse);
    return ToAbsl(core.Apply(local_step, std::move(gradient), workspace).status());
  }

  const bool waits_for_device_;
  bool has_global_step_ = false;
  AccumulatorFinder accumulators_;
};

// The ops of one kind of accumulator.
template <const AccumulatorKind& kKind>
struct AccumulatorKernels {
  using Handle = AccumulatorHandleOp<kKind>;
  using Apply = ApplyOp<kKind>;
  using Take = TakeOp<kKind, TakeMode::kWait>;
  using TryTake = TakeOp<kKind, TakeMode::kTry>;
  using ApplyTake = TakeOp<kKind, TakeMode::kDemand, /*kAppliesFirst=*/true>;
  // The take of towers never waits for gradients, so it need not be asynchronous, and the ops that
  // follow it run in its thread. It waits for another thread that still adds only if no control
  // edge orders that add before it.
  using TakeAll = TakeOp<kKind, TakeMode::kDemand>;
};

using DenseOps = AccumulatorKernels<kDense>;
using SparseOps = AccumulatorKernels<kSparse>;
using DenseTowerOps = AccumulatorKernels<kDenseTower>;
using SparseTowerOps = AccumulatorKernels<kSparseTower>;

// All inputs and outputs but the indices and the values of gradients are in host memory.
[[maybe_unused]] const bool kAccumulators[] = {
    RegisterOnCpuAndGpu<DenseOps::Handle>("Condacc>DenseAccumulator", {"handle"}),
    RegisterOnCpuAndGpu<DenseOps::Apply>(
        "Condacc>DenseApply", {"handle", "local_step", "contributor", "weight", "outcome"}),
    RegisterOnCpuAndGpu<DenseOps::Take>("Condacc>DenseTake", {"handle", "num_required"}),
    RegisterOnCpuAndGpu<DenseOps::TryTake>("Condacc>DenseTryTake",
                                           {"handle", "num_required", "global_step", "taken"}),
    RegisterOnCpuAndGpu<DenseOps::ApplyTake>("Condacc>DenseApplyTake",
                                             {"handle", "local_step", "num_required"}),
    RegisterOnCpuAndGpu<SparseOps::Handle>("Condacc>SparseAccumulator", {"handle"}),
    RegisterOnCpuAndGpu<SparseOps::Apply>(
        "Condacc>SparseApply",
        {"handle", "local_step", "shape", "contributor", "weight", "outcome"}),
    RegisterOnCpuAndGpu<SparseOps::Take>("Condacc>SparseTake", {"handle", "num_required", "shape"}),
    RegisterOnCpuAndGpu<SparseOps::TryTake>(
        "Condacc>SparseTryTake", {"handle", "num_required", "global_step", "taken", "shape"}),
    RegisterOnCpuAndGpu<DenseTowerOps::Handle>("Condacc>TowerDenseSum", {"handle"}),
    RegisterOnCpuAndGpu<DenseTowerOps::Apply>("Condacc>TowerDenseAdd", {"handle"}),
    RegisterOnCpuAndGpu<DenseTowerOps::TakeAll>("Condacc>TowerDenseTake",
                                                {"handle", "num_required"}),
    RegisterOnCpuAndGpu<SparseTowerOps::Handle>("Condacc>TowerSparseSum", {"handle"}),
    RegisterOnCpuAndGpu<SparseTowerOps::Apply>("Condacc>TowerSparseAdd", {"handle", "shape"}),
    RegisterOnCpuAndGpu<SparseTowerOps::TakeAll>("Condacc>TowerSparseTake",
                                                 {"handle", "num_required", "shape"}),
};

}  // namespace
}  // namespace condacc
