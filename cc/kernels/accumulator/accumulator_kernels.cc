// Kernels of the ops that serve every kind of accumulator.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/kernels/accumulator/accumulator_resource.h"
#include "cc/kernels/base/inputs.h"
#include "cc/kernels/base/kernel.h"
#include "cc/kernels/base/out_of_memory.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/platform/logging.h"

namespace condacc {
namespace {

using tensorflow::DEVICE_DEFAULT;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// Outputs a counter of the accumulators that the inputs refer to: the lowest of several, and at
// most the highest value of `T`.
template <typename T, int64_t (Accumulator::*counter)() const>
class CounterOp : public Kernel {
 public:
  using Kernel::Kernel;
  bool IsExpensive() override { return false; }

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    int64_t lowest = std::numeric_limits<T>::max();
    for (int i = 0; i < ctx->num_inputs(); ++i) {
      AccumulatorPtr accumulator;
      TF_RETURN_IF_ERROR(LookupAccumulator(ctx, &accumulator, i));
      lowest = std::min(lowest, (accumulator->core().*counter)());
    }
    Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(0, TensorShape({}), &output));
    output->scalar<T>()() = static_cast<T>(lowest);
    return absl::OkStatus();
  }
};

class SetGlobalStepOp : public Kernel {
 public:
  using Kernel::Kernel;
  bool IsExpensive() override { return false; }

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    AccumulatorPtr accumulator;
    TF_RETURN_IF_ERROR(LookupAccumulator(ctx, &accumulator));
    int64_t step = 0;
    TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "new_global_step", *accumulator, &step));
    const int64_t previous = accumulator->core().SetGlobalStep(step);
    if (previous <= step) return absl::OkStatus();
    IfThereIsMemory([&] {
      LOG(WARNING)
          << "Attempt to set current_global_step_ to smaller value: current_global_step_ = "
          << previous << " >= " << step << " = new_global_step. (" << accumulator->where() << ")";
    });
    return absl::OkStatus();
  }
};

class ResetOp : public Kernel {
 public:
  explicit ResetOp(OpKernelConstruction* ctx) : Kernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("only_forward", &only_forward_));
  }
  // A reset frees memory, and may have to wait until a take has been served.
  bool IsExpensive() override { return true; }

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    AccumulatorPtr accumulator;
    TF_RETURN_IF_ERROR(LookupAccumulator(ctx, &accumulator));
    int64_t step = 0;
    TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "global_step", *accumulator, &step));
    // The output is allocated first: nothing may fail after the gradients have been discarded.
    Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(0, TensorShape({}), &output));
    output->scalar<int64_t>()() = accumulator->core().Reset(step, only_forward_);
    return absl::OkStatus();
  }

  bool only_forward_ = false;
};

// Inputs: taken, value. Output: the value, or Aborted if it was not taken.
class RequireTakenOp : public Kernel {
 public:
  explicit RequireTakenOp(OpKernelConstruction* ctx) : Kernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("accumulator", &accumulator_));
  }
  bool IsExpensive() override { return false; }

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    bool taken = false;
    TF_RETURN_IF_ERROR(ReadScalar(ctx, 0, "taken", &taken));
    if (!taken) {
      return absl::AbortedError(
          absl::StrCat("Accumulator '", accumulator_, "' does not have the gradients of the round ",
                       "that its gate has: another chief, or an earlier one, has reset it. A new ",
                       "session, with chief_init_op, begins a new round."));
    }
    ctx->set_output(0, ctx->input(1));
    return absl::OkStatus();
  }

  std::string accumulator_;
};

using NumAccumulatedOp = CounterOp<int32_t, &Accumulator::num_accumulated>;
using NumDroppedOp = CounterOp<int64_t, &Accumulator::num_dropped>;
using GlobalStepOp = CounterOp<int64_t, &Accumulator::global_step>;

// All inputs and outputs of these ops are in host memory, so one kernel serves devices of every
// type.
REGISTER_KERNEL_BUILDER(Name("Condacc>AccumulatorNumAccumulated")
                            .Device(DEVICE_DEFAULT)
                            .HostMemory("handles")
                            .HostMemory("num_accumulated"),
                        NumAccumulatedOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>AccumulatorNumDropped")
                            .Device(DEVICE_DEFAULT)
                            .HostMemory("handle")
                            .HostMemory("num_dropped"),
                        NumDroppedOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>AccumulatorGlobalStep")
                            .Device(DEVICE_DEFAULT)
                            .HostMemory("handle")
                            .HostMemory("global_step"),
                        GlobalStepOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>AccumulatorSetGlobalStep")
                            .Device(DEVICE_DEFAULT)
                            .HostMemory("handle")
                            .HostMemory("new_global_step"),
                        SetGlobalStepOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>AccumulatorReset")
                            .Device(DEVICE_DEFAULT)
                            .HostMemory("handle")
                            .HostMemory("global_step")
                            .HostMemory("num_discarded"),
                        ResetOp);

// The value is in the memory of the device that took it.
REGISTER_KERNEL_BUILDER(Name("Condacc>AccumulatorRequireTaken").Device(tensorflow::DEVICE_CPU),
                        RequireTakenOp);
#if defined(CONDACC_CUDA)
REGISTER_KERNEL_BUILDER(
    Name("Condacc>AccumulatorRequireTaken").Device(tensorflow::DEVICE_GPU).HostMemory("taken"),
    RequireTakenOp);
#endif

}  // namespace
}  // namespace condacc
