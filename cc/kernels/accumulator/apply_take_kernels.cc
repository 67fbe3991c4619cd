// Kernels of the ops that make an accumulator, apply gradients to it and take them from it.
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/core/accumulator/apply_result.h"
#include "cc/kernels/accumulator/accumulator_resource.h"
#include "cc/kernels/accumulator/device.h"
#include "cc/kernels/accumulator/gradient_io.h"
#include "cc/kernels/accumulator/take_op.h"
#include "cc/kernels/base/host_memory.h"
#include "cc/kernels/base/kernel.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"

namespace condacc {
namespace {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// What follows the gradient in the inputs of an apply: nothing, a contributor and perhaps a weight,
// or a weight.
enum class AfterGradient { kNone, kContributor, kWeight };

// Applies a gradient. Inputs: handle, local_step, those of the gradient and those of
// kAfterGradient. Output: the outcome ([] int32) if there is a contributor, and otherwise whether
// the gradient was added ([] bool).
template <const AccumulatorKind& kKind, AfterGradient kAfterGradient = AfterGradient::kNone>
class ApplyOp : public Kernel {
 public:
  explicit ApplyOp(OpKernelConstruction* ctx)
      : Kernel(ctx), waits_for_device_(kKind.is_sparse && DeviceOf(ctx).merges_wait) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtype", &dtype_));
    int num_weights = 0;
    if (kAfterGradient == AfterGradient::kContributor) {
      OP_REQUIRES_OK(ctx, ctx->GetAttr("num_weights", &num_weights));
    }
    OP_REQUIRES(
        ctx, num_weights <= 1,
        absl::InvalidArgumentError(absl::StrCat("Expected at most one weight, got ", num_weights)));
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
    int next = kGradient + (kKind.is_sparse ? 3 : 1);
    if (kAfterGradient == AfterGradient::kContributor) {
      TF_RETURN_IF_ERROR(
          ReadScalar(ctx, next++, "contributor", *resource, &args.contributor.emplace()));
    }
    if (next < ctx->num_inputs()) {
      TF_RETURN_IF_ERROR(ReadScalar(ctx, next, "weight", *resource, &args.weight));
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
    if constexpr (kAfterGradient == AfterGradient::kContributor) {
      output->scalar<int32_t>()() = static_cast<int32_t>(outcome);
    } else {
      output->scalar<bool>()() = outcome == ApplyOutcome::kAdded;
    }
  }

  const bool waits_for_device_;
  tensorflow::DataType dtype_;
};

// The ops of one kind of accumulator.
template <const AccumulatorKind& kKind>
struct AccumulatorKernels {
  using Handle = AccumulatorHandleOp<kKind>;
  using Apply = ApplyOp<kKind>;
  using ApplyContribution = ApplyOp<kKind, AfterGradient::kContributor>;
  using ApplyWeighted = ApplyOp<kKind, AfterGradient::kWeight>;
  using Take = TakeOp<kKind, TakeMode::kWait>;
  using TryTake = TakeOp<kKind, TakeMode::kTry>;
  using TakeRound = TakeOp<kKind, TakeMode::kTry, TakeInputs::kGlobalStep>;
  using ApplyTake = TakeOp<kKind, TakeMode::kDemand, TakeInputs::kGradient>;
};

using DenseOps = AccumulatorKernels<kDense>;
using SparseOps = AccumulatorKernels<kSparse>;

// All inputs and outputs but the indices and the values of gradients are in host memory.
[[maybe_unused]] const bool kAccumulators[] = {
    RegisterOnCpuAndGpu<DenseOps::Handle>("Condacc>DenseAccumulator", {"handle"}),
    RegisterOnCpuAndGpu<DenseOps::Apply>("Condacc>DenseApply",
                                         {"handle", "local_step", "accepted"}),
    RegisterOnCpuAndGpu<DenseOps::Take>("Condacc>DenseTake", {"handle", "num_required"}),
    RegisterOnCpuAndGpu<DenseOps::TryTake>("Condacc>DenseTryTake",
                                           {"handle", "num_required", "taken"}),
    RegisterOnCpuAndGpu<DenseOps::ApplyContribution>(
        "Condacc>DenseApplyContribution",
        {"handle", "local_step", "contributor", "weight", "outcome"}),
    RegisterOnCpuAndGpu<DenseOps::ApplyWeighted>("Condacc>DenseApplyWeighted",
                                                 {"handle", "local_step", "weight", "accepted"}),
    RegisterOnCpuAndGpu<DenseOps::TakeRound>("Condacc>DenseTakeRound",
                                             {"handle", "global_step", "num_required", "taken"}),
    RegisterOnCpuAndGpu<DenseOps::ApplyTake>("Condacc>DenseApplyTake",
                                             {"handle", "local_step", "num_required"}),
    RegisterOnCpuAndGpu<SparseOps::Handle>("Condacc>SparseAccumulator", {"handle"}),
    RegisterOnCpuAndGpu<SparseOps::Apply>("Condacc>SparseApply",
                                          {"handle", "local_step", "shape", "accepted"}),
    RegisterOnCpuAndGpu<SparseOps::Take>("Condacc>SparseTake", {"handle", "num_required", "shape"}),
    RegisterOnCpuAndGpu<SparseOps::TryTake>("Condacc>SparseTryTake",
                                            {"handle", "num_required", "taken", "shape"}),
    RegisterOnCpuAndGpu<SparseOps::ApplyContribution>(
        "Condacc>SparseApplyContribution",
        {"handle", "local_step", "grad_shape", "contributor", "weight", "outcome"}),
    RegisterOnCpuAndGpu<SparseOps::ApplyWeighted>(
        "Condacc>SparseApplyWeighted", {"handle", "local_step", "shape", "weight", "accepted"}),
    RegisterOnCpuAndGpu<SparseOps::TakeRound>(
        "Condacc>SparseTakeRound", {"handle", "global_step", "num_required", "taken", "shape"}),
};

}  // namespace
}  // namespace condacc
