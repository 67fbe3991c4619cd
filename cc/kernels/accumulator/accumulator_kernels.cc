// Kernels of the ops that serve every kind of accumulator.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/kernels/accumulator/accumulator_resource.h"
#include "cc/kernels/base/inputs.h"
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
class CounterOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    int64_t lowest = std::numeric_limits<T>::max();
    for (int i = 0; i < ctx->num_inputs(); ++i) {
      AccumulatorPtr accumulator;
      OP_REQUIRES_OK(ctx, LookupAccumulator(ctx, &accumulator, i));
      lowest = std::min(lowest, (accumulator->core().*counter)());
    }
    Tensor* output = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({}), &output));
    output->scalar<T>()() = static_cast<T>(lowest);
  }
  bool IsExpensive() override { return false; }
};

class SetGlobalStepOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    AccumulatorPtr accumulator;
    OP_REQUIRES_OK(ctx, LookupAccumulator(ctx, &accumulator));
    int64_t step = 0;
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, 1, "new_global_step", *accumulator, &step));
    const int64_t previous = accumulator->core().SetGlobalStep(step);
    if (previous > step) {
      LOG(WARNING)
          << "Attempt to set current_global_step_ to smaller value: current_global_step_ = "
          << previous << " >= " << step << " = new_global_step. (" << accumulator->where() << ")";
    }
  }
  bool IsExpensive() override { return false; }
};

class ResetOp : public tensorflow::OpKernel {
 public:
  explicit ResetOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("only_forward", &only_forward_));
  }

  void Compute(OpKernelContext* ctx) override {
    AccumulatorPtr accumulator;
    OP_REQUIRES_OK(ctx, LookupAccumulator(ctx, &accumulator));
    int64_t step = 0;
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, 1, "global_step", *accumulator, &step));
    // The output is allocated first: nothing may fail after the gradients have been discarded.
    Tensor* output = nullptr;
    OP_REQUIRES_OK(ctx, ctx->allocate_output(0, TensorShape({}), &output));
    output->scalar<int64_t>()() = accumulator->core().Reset(step, only_forward_);
  }
  // A reset frees memory, and may have to wait until a take has been served.
  bool IsExpensive() override { return true; }

 private:
  bool only_forward_ = false;
};

// Inputs: taken, value. Output: the value, or Aborted if it was not taken.
class RequireTakenOp : public tensorflow::OpKernel {
 public:
  explicit RequireTakenOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("accumulator", &accumulator_));
  }

  void Compute(OpKernelContext* ctx) override {
    bool taken = false;
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, 0, "taken", &taken));
    OP_REQUIRES(ctx, taken,
                absl::AbortedError(absl::StrCat(
                    "Accumulator '", accumulator_, "' does not have the gradients of the round ",
                    "that its gate has: another chief, or an earlier one, has reset it. A new ",
                    "session, with chief_init_op, begins a new round.")));
    ctx->set_output(0, ctx->input(1));
  }
  bool IsExpensive() override { return false; }

 private:
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
