// Kernels with which a chief opens the gate of synchronous training and takes its rounds, apart
// from the one that waits.
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "cc/core/sync/sync_gate.h"
#include "cc/kernels/base/inputs.h"
#include "cc/kernels/base/tf_conversions.h"
#include "cc/kernels/sync/gate_op.h"
#include "cc/kernels/sync/sync_gate_resource.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace condacc {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;

struct ChiefAttributes {
  std::string chief;

  absl::Status Read(OpKernelConstruction* ctx) { return ctx->GetAttr("chief", &chief); }
};

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
    return ChiefAttributes::Read(ctx);
  }
};

// Inputs: gate, at_least. Output: round.
absl::Status Prepare(SyncGate& gate, const PrepareAttributes& attributes, OpKernelContext* ctx) {
  int64_t at_least = 0;
  int64_t* round = nullptr;
  TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "at_least", &at_least));
  TF_RETURN_IF_ERROR(AllocateScalar(ctx, 0, &round));
  TF_RETURN_IF_ERROR(ToAbsl(gate.Prepare(attributes.chief, at_least, round)));
  if (!attributes.worker.empty()) gate.Renew(attributes.worker, attributes.chief);
  return absl::OkStatus();
}

// Inputs: gate, round.
absl::Status Open(SyncGate& gate, const OpenAttributes& attributes, OpKernelContext* ctx) {
  int64_t round = 0;
  TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "round", &round));
  return ToAbsl(gate.Open(attributes.chief, round, attributes.options));
}

// Inputs: gate, round. Output: advanced.
absl::Status Advance(SyncGate& gate, const ChiefAttributes& attributes, OpKernelContext* ctx) {
  int64_t round = 0;
  bool* advanced = nullptr;
  TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "round", &round));
  TF_RETURN_IF_ERROR(AllocateScalar(ctx, 0, &advanced));
  *advanced = gate.Advance(attributes.chief, round);
  return absl::OkStatus();
}

// Inputs: gate, count.
absl::Status AddCredits(SyncGate& gate, const ChiefAttributes& attributes, OpKernelContext* ctx) {
  int64_t count = 0;
  TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "count", &count));
  return ToAbsl(gate.AddCredits(attributes.chief, count));
}

// Input: gate.
absl::Status Close(SyncGate& gate, const ChiefAttributes& attributes, OpKernelContext*) {
  return ToAbsl(gate.Close(attributes.chief));
}

// Input: gate.
absl::Status Dismiss(SyncGate& gate, const ChiefAttributes& attributes, OpKernelContext*) {
  gate.Dismiss(attributes.chief);
  return absl::OkStatus();
}

using PrepareOp = OnSyncGateOp<PrepareAttributes, Prepare>;
using OpenOp = OnSyncGateOp<OpenAttributes, Open>;
using AdvanceOp = OnSyncGateOp<ChiefAttributes, Advance>;
using AddCreditsOp = OnSyncGateOp<ChiefAttributes, AddCredits>;
using CloseOp = OnSyncGateOp<ChiefAttributes, Close>;
using DismissOp = OnSyncGateOp<ChiefAttributes, Dismiss>;

REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGatePrepare").Device(DEVICE_CPU), PrepareOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateOpen").Device(DEVICE_CPU), OpenOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateAdvance").Device(DEVICE_CPU), AdvanceOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateAddCredits").Device(DEVICE_CPU), AddCreditsOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateClose").Device(DEVICE_CPU), CloseOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateDismiss").Device(DEVICE_CPU), DismissOp);

}  // namespace
}  // namespace condacc
