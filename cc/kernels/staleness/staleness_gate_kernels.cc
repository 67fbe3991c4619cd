// Kernels of the staleness gate.
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "cc/core/staleness/staleness_gate.h"
#include "cc/kernels/base/host_memory.h"
#include "cc/kernels/base/inputs.h"
#include "cc/kernels/base/resource_op.h"
#include "cc/kernels/base/tf_conversions.h"
#include "cc/kernels/staleness/decide_op.h"
#include "cc/kernels/staleness/staleness_gate_resource.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace condacc {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;

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
  return OutputVector(ctx, 0, resource.gate().counts(attributes.counter).recent);
}

absl::Status Save(StalenessGateResource& resource, const CounterAttributes& attributes,
                  OpKernelContext* ctx) {
  return OutputVector(ctx, 0, resource.gate().Save(attributes.counter));
}

// Inputs: gate, state.
absl::Status Restore(StalenessGateResource& resource, const CounterAttributes& attributes,
                     OpKernelContext* ctx) {
  std::vector<int64_t> state;
  TF_RETURN_IF_ERROR(ReadVector(ctx, 1, "state", &state));
  return ToAbsl(resource.gate().Restore(attributes.counter, state, resource.title()));
}

using EndOp = ResourceOp<StalenessReservationResource, NoAttributes, End>;
using GateNumAcceptedOp = ResourceOp<StalenessGateResource, CounterAttributes,
                                     OutputCount<&StalenessGate::Counts::num_accepted>>;
using GateNumDroppedOp = ResourceOp<StalenessGateResource, CounterAttributes,
                                    OutputCount<&StalenessGate::Counts::num_dropped>>;
using RecentStalenessOp =
    ResourceOp<StalenessGateResource, CounterAttributes, OutputRecentStaleness>;
using SaveCounterOp = ResourceOp<StalenessGateResource, CounterAttributes, Save>;
using RestoreCounterOp = ResourceOp<StalenessGateResource, CounterAttributes, Restore>;
using HostDecideOp = DecideOp<ResourceStep, FromHostMemory>;
using HostDecideRefOp = DecideOp<RefStep, FromHostMemory>;

REGISTER_KERNEL_BUILDER(Name("Condacc>StalenessGate").Device(DEVICE_CPU), StalenessGateOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>StalenessGateDecide").Device(DEVICE_CPU), HostDecideOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>StalenessGateDecideRef").Device(DEVICE_CPU), HostDecideRefOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>StalenessGateEnd").Device(DEVICE_CPU), EndOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>StalenessGateNumAccepted").Device(DEVICE_CPU),
                        GateNumAcceptedOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>StalenessGateNumDropped").Device(DEVICE_CPU),
                        GateNumDroppedOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>StalenessGateRecentStaleness").Device(DEVICE_CPU),
                        RecentStalenessOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>StalenessGateSave").Device(DEVICE_CPU), SaveCounterOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>StalenessGateRestore").Device(DEVICE_CPU), RestoreCounterOp);

#if defined(CONDACC_CUDA)

using tensorflow::DEVICE_GPU;

// These kernels are for step variables on a GPU, where the gate must be as well. They have a lower
// priority, so if the user leaves the choice of the device to TensorFlow, it chooses the CPU, where
// a step is cheap to read.
constexpr int kAfterCpu = -1;
using GpuDecideOp = DecideOp<ResourceStep, FromDeviceMemory>;
using GpuDecideRefOp = DecideOp<RefStep, FromDeviceMemory>;

[[maybe_unused]] const bool kStalenessGatesOnGpu[] = {
    RegisterKernel<StalenessGateOp>("Condacc>StalenessGate", DEVICE_GPU, {"gate"}, kAfterCpu),
    RegisterKernel<GpuDecideOp>(
        "Condacc>StalenessGateDecide", DEVICE_GPU,
        {"gate", "step", "local_step", "limit", "accepted", "staleness", "reservation"}, kAfterCpu),
    // The input `step` is in the memory of its variable.
    RegisterKernel<GpuDecideRefOp>(
        "Condacc>StalenessGateDecideRef", DEVICE_GPU,
        {"gate", "local_step", "limit", "accepted", "staleness", "reservation"}, kAfterCpu),
    RegisterKernel<EndOp>("Condacc>StalenessGateEnd", DEVICE_GPU, {"reservation", "applied"},
                          kAfterCpu),
    RegisterKernel<GateNumAcceptedOp>("Condacc>StalenessGateNumAccepted", DEVICE_GPU,
                                      {"gate", "num_accepted"}, kAfterCpu),
    RegisterKernel<GateNumDroppedOp>("Condacc>StalenessGateNumDropped", DEVICE_GPU,
                                     {"gate", "num_dropped"}, kAfterCpu),
    RegisterKernel<RecentStalenessOp>("Condacc>StalenessGateRecentStaleness", DEVICE_GPU,
                                      {"gate", "staleness"}, kAfterCpu),
    RegisterKernel<SaveCounterOp>("Condacc>StalenessGateSave", DEVICE_GPU, {"gate", "state"},
                                  kAfterCpu),
    RegisterKernel<RestoreCounterOp>("Condacc>StalenessGateRestore", DEVICE_GPU, {"gate", "state"},
                                     kAfterCpu),
};

#endif

}  // namespace
}  // namespace condacc
