// Kernels of the staleness gate.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/core/base/function_ref.h"
#include "cc/core/staleness/staleness_gate.h"
#include "cc/kernels/base/handle_op.h"
#include "cc/kernels/base/host_memory.h"
#include "cc/kernels/base/inputs.h"
#include "cc/kernels/base/kernel.h"
#include "cc/kernels/base/resource_op.h"
#include "cc/kernels/base/tf_conversions.h"
#include "cc/kernels/staleness/staleness_gate_resource.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/lib/core/refcount.h"
#include "tensorflow/core/platform/mutex.h"
#if defined(CONDACC_CUDA)
#include "cc/gpu/device_memory.h"
#include "cc/kernels/base/gpu_stream.h"
#endif

namespace condacc {
namespace {

using tensorflow::DataType;
using tensorflow::DEVICE_CPU;
using tensorflow::DT_INT32;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::ResourceHandle;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// Checks that the step variable is a scalar of the dtype that the op expects.
absl::Status CheckStep(const Tensor& tensor, DataType dtype) {
  if (tensor.dtype() != dtype || tensor.dims() != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "The step variable must be a scalar of dtype ", tensorflow::DataTypeString(dtype),
        ", but had dtype ", tensorflow::DataTypeString(tensor.dtype()), " and shape ",
        tensor.shape().DebugString()));
  }
  return absl::OkStatus();
}

// Calls visit(tensor) with a step variable, input 1, under the variable's lock.
using VisitStep = absl::Status (*)(OpKernelContext* ctx, DataType dtype,
                                   FunctionRef<void(const Tensor& tensor)> visit);

absl::Status VisitResource(OpKernelContext* ctx, DataType dtype,
                           FunctionRef<void(const Tensor& tensor)> visit) {
  tensorflow::core::RefCountPtr<tensorflow::Var> variable;
  TF_RETURN_IF_ERROR(LookupInput(ctx, 1, "step", "a variable", &variable));
  const tensorflow::tf_shared_lock lock(*variable->mu());
  if (!variable->is_initialized) {
    return absl::FailedPreconditionError("The step variable is not initialized");
  }
  TF_RETURN_IF_ERROR(CheckStep(*variable->tensor(), dtype));
  visit(*variable->tensor());
  return absl::OkStatus();
}

absl::Status VisitReference(OpKernelContext* ctx, DataType dtype,
                            FunctionRef<void(const Tensor& tensor)> visit) {
  const tensorflow::mutex_lock lock(*ctx->input_ref_mutex(1));
  const Tensor tensor = ctx->mutable_input(1, /*lock_held=*/true);
  TF_RETURN_IF_ERROR(CheckStep(tensor, dtype));
  visit(tensor);
  return absl::OkStatus();
}

// Reads a step variable in host memory.
absl::Status ReadInHostMemory(OpKernelContext* ctx, DataType dtype, VisitStep visit,
                              int64_t* value) {
  return visit(ctx, dtype, [&](const Tensor& tensor) {
    *value = dtype == DT_INT32 ? tensor.scalar<int32_t>()() : tensor.scalar<int64_t>()();
  });
}

#if defined(CONDACC_CUDA)

// Reads a step variable that may be in device memory. Holds no lock while it waits for the device.
absl::Status ReadInDeviceMemory(OpKernelContext* ctx, DataType dtype, VisitStep visit,
                                int64_t* value) {
  Tensor held;
  TF_RETURN_IF_ERROR(visit(ctx, dtype, [&](const Tensor& tensor) { held = tensor; }));
  const GpuStream stream(ctx);
  const auto active = stream.Activate();
  int32_t narrow = 0;
  const bool is_narrow = dtype == DT_INT32;
  void* const to = is_narrow ? static_cast<void*>(&narrow) : value;
  const Status status = CopyNow(held.data(), held.TotalBytes(), to, stream.handle());
  if (is_narrow) *value = narrow;
  return ToAbsl(status);
}

#endif

struct DecideAttributes {
  std::string counter;
  DataType dtype;
  std::string optimizer;

  absl::Status Read(OpKernelConstruction* ctx) {
    TF_RETURN_IF_ERROR(ctx->GetAttr("counter", &counter));
    TF_RETURN_IF_ERROR(ctx->GetAttr("T", &dtype));
    return ctx->GetAttr("optimizer", &optimizer);
  }
};

// Asks the gate for a decision. Inputs: gate, step, local_step, limit. Outputs: accepted,
// staleness, reservation.
template <VisitStep kVisit, absl::Status (*kRead)(OpKernelContext* ctx, DataType dtype,
                                                  VisitStep visit, int64_t* value)>
absl::Status OutputDecision(StalenessGateResource& resource, const DecideAttributes& attributes,
                            OpKernelContext* ctx) {
  int64_t local_step = 0;
  int64_t limit = 0;
  TF_RETURN_IF_ERROR(ReadScalar(ctx, 2, "local_step", &local_step));
  TF_RETURN_IF_ERROR(ReadScalar(ctx, 3, "limit", &limit));
  // Everything that may fail is done before the decision.
  bool* accepted = nullptr;
  int64_t* staleness = nullptr;
  ResourceHandle* reservation = nullptr;
  TF_RETURN_IF_ERROR(AllocateScalar(ctx, 0, &accepted));
  TF_RETURN_IF_ERROR(AllocateScalar(ctx, 1, &staleness));
  TF_RETURN_IF_ERROR(AllocateScalar(ctx, 2, &reservation));
  auto* const made = new StalenessReservationResource(&resource, attributes.counter);
  *reservation = ResourceHandle::MakeRefCountingHandle<StalenessReservationResource>(
      made, ctx->device()->name());
  absl::Status status;
  const auto read = [&](int64_t* value) {
    status = kRead(ctx, attributes.dtype, kVisit, value);
    return status.ok();
  };
  StalenessGate::Decision decision;
  if (!resource.gate().Decide(attributes.counter, local_step, limit, read, &decision)) {
    return status;
  }
  if (decision.accepted) made->Open(decision, attributes.optimizer);
  *accepted = decision.accepted;
  *staleness = decision.staleness;
  return absl::OkStatus();
}

struct CounterAttributes {
  std::string counter;

  absl::Status Read(OpKernelConstruction* ctx) { return ctx->GetAttr("counter", &counter); }
};

// Inputs: reservation, applied.
absl::Status End(StalenessReservationResource& reservation, const NoAttributes&,
                 OpKernelContext* ctx) {
  bool applied = false;
  TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "applied", &applied));
  reservation.End(applied);
  return absl::OkStatus();
}

// Outputs one of the counts of a counter.
template <int64_t StalenessGate::Counts::* count>
absl::Status OutputCount(StalenessGateResource& resource, const CounterAttributes& attributes,
                         OpKernelContext* ctx) {
  int64_t* output = nullptr;
  TF_RETURN_IF_ERROR(AllocateScalar(ctx, 0, &output));
  *output = resource.gate().counts(attributes.counter).*count;
  return absl::OkStatus();
}

absl::Status OutputRecentStaleness(StalenessGateResource& resource,
                                   const CounterAttributes& attributes, OpKernelContext* ctx) {
  const std::vector<int64_t> recent = resource.gate().counts(attributes.counter).recent;
  Tensor* output = nullptr;
  TF_RETURN_IF_ERROR(
      ctx->allocate_output(0, TensorShape({static_cast<int64_t>(recent.size())}), &output));
  std::copy(recent.begin(), recent.end(), output->vec<int64_t>().data());
  return absl::OkStatus();
}

[[maybe_unused]] const bool kDecisions[] = {
    RegisterKernel<ResourceOp<OutputDecision<VisitResource, ReadInHostMemory>>>(
        "Condacc>StalenessGateDecide", DEVICE_CPU, {}),
    RegisterKernel<ResourceOp<OutputDecision<VisitReference, ReadInHostMemory>>>(
        "Condacc>StalenessGateDecideRef", DEVICE_CPU, {}),
};

// The kernels on a GPU are for step variables there, where the gate must be as well. They have a
// lower priority, so if the user leaves the choice of the device to TensorFlow, it chooses the CPU,
// where a step is cheap to read.
constexpr int kAfterCpu = -1;

[[maybe_unused]] const bool kStalenessGates[] = {
    RegisterOnCpuAndGpu<NamedHandleOp<StalenessGateResource>>("Condacc>StalenessGate", {"gate"},
                                                              kAfterCpu),
    RegisterOnCpuAndGpu<ResourceOp<End>>("Condacc>StalenessGateEnd", {"reservation", "applied"},
                                         kAfterCpu),
    RegisterOnCpuAndGpu<ResourceOp<OutputCount<&StalenessGate::Counts::num_accepted>>>(
        "Condacc>StalenessGateNumAccepted", {"gate", "num_accepted"}, kAfterCpu),
    RegisterOnCpuAndGpu<ResourceOp<OutputCount<&StalenessGate::Counts::num_dropped>>>(
        "Condacc>StalenessGateNumDropped", {"gate", "num_dropped"}, kAfterCpu),
    RegisterOnCpuAndGpu<ResourceOp<OutputRecentStaleness>>("Condacc>StalenessGateRecentStaleness",
                                                           {"gate", "staleness"}, kAfterCpu),
};

#if defined(CONDACC_CUDA)

using tensorflow::DEVICE_GPU;

constexpr bool kWaitsForDevice = true;  // See ApplyOp::IsExpensive().

[[maybe_unused]] const bool kDecisionsOnGpu[] = {
    RegisterKernel<ResourceOp<OutputDecision<VisitResource, ReadInDeviceMemory>, kWaitsForDevice>>(
        "Condacc>StalenessGateDecide", DEVICE_GPU,
        {"gate", "step", "local_step", "limit", "accepted", "staleness", "reservation"}, kAfterCpu),
    // The input `step` is in the memory of its variable.
    RegisterKernel<ResourceOp<OutputDecision<VisitReference, ReadInDeviceMemory>, kWaitsForDevice>>(
        "Condacc>StalenessGateDecideRef", DEVICE_GPU,
        {"gate", "local_step", "limit", "accepted", "staleness", "reservation"}, kAfterCpu),
};

#endif

}  // namespace
}  // namespace condacc
