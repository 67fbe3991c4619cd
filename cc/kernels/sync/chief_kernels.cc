// Kernels with which a chief opens the gate of synchronous training and takes its rounds, apart
// from the one that waits.
#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/core/sync/chief_state.h"
#include "cc/core/sync/sync_gate.h"
#include "cc/kernels/base/host_memory.h"
#include "cc/kernels/base/inputs.h"
#include "cc/kernels/base/kernel.h"
#include "cc/kernels/base/resource_op.h"
#include "cc/kernels/base/tf_conversions.h"
#include "cc/kernels/sync/sync_gate_resource.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace condacc {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;

struct PrepareAttributes : ChiefAttributes {
  std::string worker;

  absl::Status Read(OpKernelConstruction* ctx) {
    TF_RETURN_IF_ERROR(ctx->GetAttr("worker", &worker));
    return ChiefAttributes::Read(ctx);
  }
};

struct OpenAttributes : ChiefAttributes {
  SyncGate::Options options;

  absl::Status Read(OpKernelConstruction* ctx) {
    TF_RETURN_IF_ERROR(ctx->GetAttr("num_slots", &options.num_slots));
    TF_RETURN_IF_ERROR(ctx->GetAttr("num_workers", &options.num_workers));
    TF_RETURN_IF_ERROR(ReadGateDuration(ctx, "takeover_secs", &options.takeover));
    TF_RETURN_IF_ERROR(ReadGateDuration(ctx, "report_secs", &options.report));
    TF_RETURN_IF_ERROR(ctx->GetAttr("wait_for_lost", &options.wait_for_lost));
    TF_RETURN_IF_ERROR(ctx->GetAttr("listed", &options.listed));
    TF_RETURN_IF_ERROR(ReadGateDuration(ctx, "start_secs", &options.start));
    return ChiefAttributes::Read(ctx);
  }
};

// A number that no other session of the gate's process has. TensorFlow keeps the kernel of a
// stateful op, and so its attributes, as long as its session, and makes another one for each
// session.
struct SessionNumber {
  int64_t number = 0;

  absl::Status Read(OpKernelConstruction*) {
    static std::atomic<int64_t> num_sessions{0};
    number = ++num_sessions;
    return absl::OkStatus();
  }
};

// Output: session.
absl::Status OutputSession(const SessionNumber& session, OpKernelContext* ctx) {
  int64_t* output = nullptr;
  TF_RETURN_IF_ERROR(AllocateScalar(ctx, 0, &output));
  *output = session.number;
  return absl::OkStatus();
}

// Reads input 1, the session of a chief.
absl::Status ReadChief(OpKernelContext* ctx, const ChiefAttributes& attributes, Chief* chief) {
  chief->name = attributes.chief;
  return ReadScalar(ctx, 1, "session", &chief->session);
}

// Inputs: gate, session, at_least, volunteers. Outputs: round, is_chief.
absl::Status Prepare(SyncGateResource& resource, const PrepareAttributes& attributes,
                     OpKernelContext* ctx) {
  Chief chief;
  int64_t at_least = 0;
  bool volunteers = false;
  int64_t* round = nullptr;
  bool* is_chief = nullptr;
  TF_RETURN_IF_ERROR(ReadChief(ctx, attributes, &chief));
  TF_RETURN_IF_ERROR(ReadScalar(ctx, 2, "at_least", &at_least));
  TF_RETURN_IF_ERROR(ReadScalar(ctx, 3, "volunteers", &volunteers));
  TF_RETURN_IF_ERROR(AllocateScalar(ctx, 0, &round));
  TF_RETURN_IF_ERROR(AllocateScalar(ctx, 1, &is_chief));
  SyncGate::Prepared prepared;
  TF_RETURN_IF_ERROR(
      ToAbsl(resource.gate()->Prepare(chief, at_least, volunteers, &prepared, attributes.worker)));
  *round = prepared.round;
  *is_chief = prepared.is_chief;
  return absl::OkStatus();
}

// Inputs: gate, session, round, volunteers.
absl::Status Open(SyncGateResource& resource, const OpenAttributes& attributes,
                  OpKernelContext* ctx) {
  Chief chief;
  int64_t round = 0;
  bool volunteers = false;
  TF_RETURN_IF_ERROR(ReadChief(ctx, attributes, &chief));
  TF_RETURN_IF_ERROR(ReadScalar(ctx, 2, "round", &round));
  TF_RETURN_IF_ERROR(ReadScalar(ctx, 3, "volunteers", &volunteers));
  return ToAbsl(resource.gate()->Open(chief, round, attributes.options, volunteers));
}

// Inputs: gate, session, round. Output: advanced.
absl::Status Advance(SyncGateResource& resource, const ChiefAttributes& attributes,
                     OpKernelContext* ctx) {
  Chief chief;
  int64_t round = 0;
  bool* advanced = nullptr;
  TF_RETURN_IF_ERROR(ReadChief(ctx, attributes, &chief));
  TF_RETURN_IF_ERROR(ReadScalar(ctx, 2, "round", &round));
  TF_RETURN_IF_ERROR(AllocateScalar(ctx, 0, &advanced));
  *advanced = resource.gate()->Advance(chief, round);
  return absl::OkStatus();
}

// Inputs: gate, session, count.
absl::Status AddCredits(SyncGateResource& resource, const ChiefAttributes& attributes,
                        OpKernelContext* ctx) {
  Chief chief;
  int64_t count = 0;
  TF_RETURN_IF_ERROR(ReadChief(ctx, attributes, &chief));
  TF_RETURN_IF_ERROR(ReadScalar(ctx, 2, "count", &count));
  return ToAbsl(resource.gate()->AddCredits(chief, count));
}

// Inputs: gate, session.
absl::Status Close(SyncGateResource& resource, const ChiefAttributes& attributes,
                   OpKernelContext* ctx) {
  Chief chief;
  TF_RETURN_IF_ERROR(ReadChief(ctx, attributes, &chief));
  return ToAbsl(resource.gate()->Close(chief));
}

// Inputs: gate, session.
absl::Status Dismiss(SyncGateResource& resource, const ChiefAttributes& attributes,
                     OpKernelContext* ctx) {
  Chief chief;
  TF_RETURN_IF_ERROR(ReadChief(ctx, attributes, &chief));
  resource.gate()->Dismiss(chief);
  return absl::OkStatus();
}

struct AccumulatorAttributes {
  std::string accumulator;

  absl::Status Read(OpKernelConstruction* ctx) { return ctx->GetAttr("accumulator", &accumulator); }
};

// Inputs: taken, value. Output: the value, or Aborted if it was not taken.
absl::Status RequireTaken(const AccumulatorAttributes& attributes, OpKernelContext* ctx) {
  bool taken = false;
  TF_RETURN_IF_ERROR(ReadScalar(ctx, 0, "taken", &taken));
  if (!taken) {
    return absl::AbortedError(absl::StrCat(
        "Accumulator '", attributes.accumulator, "' does not have the gradients of the round that ",
        "its gate has: another chief, or an earlier one, has reset it. A new session, with ",
        "chief_init_op, begins a new round."));
  }
  ctx->set_output(0, ctx->input(1));
  return absl::OkStatus();
}

[[maybe_unused]] const bool kChiefOps[] = {
    RegisterKernel<FunctionOp<OutputSession>>("Condacc>SyncGateSession", DEVICE_CPU, {}),
    RegisterKernel<ResourceOp<Prepare>>("Condacc>SyncGatePrepare", DEVICE_CPU, {}),
    RegisterKernel<ResourceOp<Open>>("Condacc>SyncGateOpen", DEVICE_CPU, {}),
    RegisterKernel<ResourceOp<Advance>>("Condacc>SyncGateAdvance", DEVICE_CPU, {}),
    RegisterKernel<ResourceOp<AddCredits>>("Condacc>SyncGateAddCredits", DEVICE_CPU, {}),
    RegisterKernel<ResourceOp<Close>>("Condacc>SyncGateClose", DEVICE_CPU, {}),
    RegisterKernel<ResourceOp<Dismiss>>("Condacc>SyncGateDismiss", DEVICE_CPU, {}),
};

// The value is in the memory of the device that took it.
[[maybe_unused]] const bool kHasRequireTaken =
    RegisterOnCpuAndGpu<FunctionOp<RequireTaken>>("Condacc>AccumulatorRequireTaken", {"taken"});

}  // namespace
}  // namespace condacc
