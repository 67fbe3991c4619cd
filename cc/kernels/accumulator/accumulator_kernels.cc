// Kernels of the ops that serve every kind of accumulator.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/core/accumulator/workspace.h"
#include "cc/kernels/accumulator/accumulator_resource.h"
#include "cc/kernels/accumulator/device.h"
#include "cc/kernels/base/errors.h"
#include "cc/kernels/base/host_memory.h"
#include "cc/kernels/base/inputs.h"
#include "cc/kernels/base/kernel.h"
#include "cc/kernels/base/resource_op.h"
#include "cc/kernels/base/tf_conversions.h"
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
absl::Status OutputLowest(const NoAttributes&, OpKernelContext* ctx) {
  int64_t lowest = std::numeric_limits<T>::max();
  for (int i = 0; i < ctx->num_inputs(); ++i) {
    AccumulatorPtr accumulator;
    TF_RETURN_IF_ERROR(LookupInput(ctx, i, &accumulator));
    lowest = std::min(lowest, (accumulator->core().*counter)());
  }
  T* output = nullptr;
  TF_RETURN_IF_ERROR(AllocateScalar(ctx, 0, &output));
  *output = static_cast<T>(lowest);
  return absl::OkStatus();
}

// Inputs: handle, new_global_step.
absl::Status SetGlobalStep(AccumulatorResource& accumulator, const NoAttributes&,
                           OpKernelContext* ctx) {
  int64_t step = 0;
  TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "new_global_step", &step));
  const int64_t previous = accumulator.core().SetGlobalStep(step);
  if (previous <= step) return absl::OkStatus();
  IfThereIsMemory([&] {
    LOG(WARNING) << "Attempt to set current_global_step_ to smaller value: current_global_step_ = "
                 << previous << " >= " << step << " = new_global_step. (" << accumulator.where()
                 << ")";
  });
  return absl::OkStatus();
}

struct ResetAttributes {
  bool only_forward = false;

  absl::Status Read(OpKernelConstruction* ctx) {
    return ctx->GetAttr("only_forward", &only_forward);
  }
};

// Inputs: handle, global_step. Output: num_discarded.
absl::Status Reset(AccumulatorResource& accumulator, const ResetAttributes& attributes,
                   OpKernelContext* ctx) {
  int64_t step = 0;
  TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "global_step", &step));
  // The output is allocated first: nothing may fail after the gradients have been discarded.
  int64_t* num_discarded = nullptr;
  TF_RETURN_IF_ERROR(AllocateScalar(ctx, 0, &num_discarded));
  *num_discarded = accumulator.core().Reset(step, attributes.only_forward);
  return absl::OkStatus();
}

// Input: handle. Output: state.
absl::Status SaveAccumulator(AccumulatorResource& accumulator, const NoAttributes&,
                             OpKernelContext* ctx) {
  const auto allocate = [&](size_t num_bytes, char** memory) {
    Tensor* state = nullptr;
    const absl::Status allocated =
        ctx->allocate_output(0, TensorShape({static_cast<int64_t>(num_bytes)}), &state);
    if (!allocated.ok()) {
      return Status(StatusCode::kResourceExhausted, std::string(allocated.message()));
    }
    *memory = reinterpret_cast<char*>(state->flat<uint8_t>().data());
    return Status();
  };
  OpWorkspace memory;
  Workspace& workspace = accumulator.device().make_workspace(ctx, &memory);
  return ToAbsl(accumulator.core().Save(workspace, allocate));
}

// Inputs: handle, state.
absl::Status RestoreAccumulator(AccumulatorResource& accumulator, const NoAttributes&,
                                OpKernelContext* ctx) {
  const Tensor& state = ctx->input(1);
  if (state.dims() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Argument state must be a vector, but had bad shape ", state.shape().DebugString()));
  }
  const auto bytes = state.flat<uint8_t>();
  OpWorkspace memory;
  Workspace& workspace = accumulator.device().make_workspace(ctx, &memory);
  return ToAbsl(accumulator.core().Restore(reinterpret_cast<const char*>(bytes.data()),
                                           static_cast<size_t>(bytes.size()), workspace));
}

// Resets, saves and restores free or copy memory, and may have to wait for a fold or a take.
constexpr bool kIsExpensive = true;

// All inputs and outputs of these ops are in host memory, so one kernel serves devices of every
// type.
[[maybe_unused]] const bool kAccumulatorsAnywhere[] = {
    RegisterKernel<FunctionOp<OutputLowest<int32_t, &Accumulator::num_accumulated>>>(
        "Condacc>AccumulatorNumAccumulated", DEVICE_DEFAULT, {"handles", "num_accumulated"}),
    RegisterKernel<FunctionOp<OutputLowest<int64_t, &Accumulator::num_dropped>>>(
        "Condacc>AccumulatorNumDropped", DEVICE_DEFAULT, {"handle", "num_dropped"}),
    RegisterKernel<FunctionOp<OutputLowest<int64_t, &Accumulator::global_step>>>(
        "Condacc>AccumulatorGlobalStep", DEVICE_DEFAULT, {"handle", "global_step"}),
    RegisterKernel<ResourceOp<SetGlobalStep>>("Condacc>AccumulatorSetGlobalStep", DEVICE_DEFAULT,
                                              {"handle", "new_global_step"}),
    RegisterKernel<ResourceOp<Reset, kIsExpensive>>("Condacc>AccumulatorReset", DEVICE_DEFAULT,
                                                    {"handle", "global_step", "num_discarded"}),
    RegisterKernel<ResourceOp<SaveAccumulator, kIsExpensive>>("Condacc>AccumulatorSave",
                                                              DEVICE_DEFAULT, {"handle", "state"}),
    RegisterKernel<ResourceOp<RestoreAccumulator, kIsExpensive>>(
        "Condacc>AccumulatorRestore", DEVICE_DEFAULT, {"handle", "state"}),
};

}  // namespace
}  // namespace condacc
