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

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// What follows the gradient in the inputs of an apply: nothing, a contributor and perhaps a weight,
// or a weight.
enum class LastInput { kNone, kContributor, kWeight };

// Applies a gradient. Inputs: handle, local_step, those of the gradient and those of kLastInput.
// Output: the outcome ([] int32) if there is a contributor, and otherwise whether the gradient was
// added ([] bool).
template <const AccumulatorKind& kKind, LastInput kLastInput = LastInput::kNone>
class ApplyOp : public Kernel {
 public:
  explicit ApplyOp(OpKernelConstruction* ctx)
      : Kernel(ctx), waits_for_device_(kKind.is_sparse && DeviceOf(ctx).merges_wait) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtype", &dtype_));
    int num_weights = 0;
    if (kLastInput == LastInput::kContributor) {
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
    if (kLastInput == LastInput::kContributor) {
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
    if constexpr (kLastInput == LastInput::kContributor) {
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
  using ApplyContribution = ApplyOp<kKind, LastInput::kContributor>;
  using ApplyWeighted = ApplyOp<kKind, LastInput::kWeight>;
  using Take = TakeOp<kKind, TakeMode::kWait>;
  using TryTake = TakeOp<kKind, TakeMode::kTry>;
  using TakeRound = TakeOp<kKind, TakeMode::kTry, TakeInputs::kGlobalStep>;
  using ApplyTake = TakeOp<kKind, TakeMode::kDemand, TakeInputs::kGradient>;
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
[[maybe_unused]] const bool kAccumulatorsOnGpu[] = {
    RegisterKernel<DenseOps::Handle>("Condacc>DenseAccumulator", DEVICE_GPU, {"handle"}),
    RegisterKernel<DenseOps::Apply>("Condacc>DenseApply", DEVICE_GPU,
                                    {"handle", "local_step", "accepted"}),
    RegisterKernel<DenseOps::Take>("Condacc>DenseTake", DEVICE_GPU, {"handle", "num_required"}),
    RegisterKernel<DenseOps::TryTake>("Condacc>DenseTryTake", DEVICE_GPU,
                                      {"handle", "num_required", "taken"}),
    RegisterKernel<DenseOps::ApplyContribution>(
        "Condacc>DenseApplyContribution", DEVICE_GPU,
        {"handle", "local_step", "contributor", "weight", "outcome"}),
    RegisterKernel<DenseOps::ApplyWeighted>("Condacc>DenseApplyWeighted", DEVICE_GPU,
                                            {"handle", "local_step", "weight", "accepted"}),
    RegisterKernel<DenseOps::TakeRound>("Condacc>DenseTakeRound", DEVICE_GPU,
                                        {"handle", "global_step", "num_required", "taken"}),
    RegisterKernel<DenseOps::ApplyTake>("Condacc>DenseApplyTake", DEVICE_GPU,
                                        {"handle", "local_step", "num_required"}),
    RegisterKernel<SparseOps::Handle>("Condacc>SparseAccumulator", DEVICE_GPU, {"handle"}),
    RegisterKernel<SparseOps::Apply>("Condacc>SparseApply", DEVICE_GPU,
                                     {"handle", "local_step", "shape", "accepted"}),
    RegisterKernel<SparseOps::Take>("Condacc>SparseTake", DEVICE_GPU,
                                    {"handle", "num_required", "shape"}),
    RegisterKernel<SparseOps::TryTake>("Condacc>SparseTryTake", DEVICE_GPU,
                                       {"handle", "num_required", "taken", "shape"}),
    RegisterKernel<SparseOps::ApplyContribution>(
        "Condacc>SparseApplyContribution", DEVICE_GPU,
        {"handle", "local_step", "grad_shape", "contributor", "weight", "outcome"}),
    RegisterKernel<SparseOps::ApplyWeighted>(
        "Condacc>SparseApplyWeighted", DEVICE_GPU,
        {"handle", "local_step", "shape", "weight", "accepted"}),
    RegisterKernel<SparseOps::TakeRound>(
        "Condacc>SparseTakeRound", DEVICE_GPU,
        {"handle", "global_step", "num_required", "taken", "shape"}),
};

#endif

}  // namespace
}  // namespace condacc
