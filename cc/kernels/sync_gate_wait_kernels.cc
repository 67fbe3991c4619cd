// Kernels that wait at the gate of synchronous training.
#define EIGEN_USE_THREADS
#include <string>

#include "absl/status/status.h"
#include "cc/core/gate/gate_wait.h"
#include "cc/core/gate/sync_gate.h"
#include "cc/kernels/inputs.h"
#include "cc/kernels/sync_gate_resource.h"
#include "cc/kernels/sync_gate_wait.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/refcount.h"

namespace condacc {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::core::RefCountPtr;
using GatePtr = RefCountPtr<SyncGateResource>;
using ReservationPtr = RefCountPtr<SyncGateReservationResource>;

// Input: reservation. Output: round.
class FinishOp : public SyncGateWaitOp {
 public:
  using SyncGateWaitOp::SyncGateWaitOp;

 private:
  absl::Status Read(OpKernelContext* ctx, GateQuery* query) override {
    ReservationPtr found;
    TF_RETURN_IF_ERROR(LookupReservation(ctx, &found));
    GateReservation& reservation = found->reservation();
    reservation.Done();
    query->gate = reservation.gate();
    query->what = GateWait::For::kNextRound;
    query->who = reservation.worker();
    query->after = reservation.local_step();
    return absl::OkStatus();
  }
};

// A worker waits for the opening of the gate, or a chief for a full round. `kNameAttr` is the
// attribute with the name of that worker or chief. Input: gate. Output: round.
template <GateWait::For kWhat, const char* kNameAttr>
class AwaitOp : public SyncGateWaitOp {
 public:
  explicit AwaitOp(OpKernelConstruction* ctx) : SyncGateWaitOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr(kNameAttr, &who_));
  }

 private:
  absl::Status Read(OpKernelContext* ctx, GateQuery* query) override {
    GatePtr gate;
    TF_RETURN_IF_ERROR(LookupGate(ctx, &gate));
    query->gate = gate->gate();
    query->what = kWhat;
    query->who = who_;
    return absl::OkStatus();
  }

  std::string who_;
};

constexpr char kWorker[] = "worker";
constexpr char kChief[] = "chief";
using AwaitOpenOp = AwaitOp<GateWait::For::kOpening, kWorker>;
using AwaitFullOp = AwaitOp<GateWait::For::kFullRound, kChief>;

// Inputs: gate, seen. Outputs: round, report.
class ReportOp : public SyncGateWaitOp {
 public:
  explicit ReportOp(OpKernelConstruction* ctx) : SyncGateWaitOp(ctx) {
    OP_REQUIRES_OK(ctx, ReadGateDuration(ctx, "report_secs", &patience_));
  }

 private:
  absl::Status Read(OpKernelContext* ctx, GateQuery* query) override {
    GatePtr gate;
    TF_RETURN_IF_ERROR(LookupGate(ctx, &gate));
    TF_RETURN_IF_ERROR(ReadScalar(ctx, 1, "seen", &query->after));
    query->gate = gate->gate();
    query->what = GateWait::For::kReport;
    query->patience = patience_;
    return absl::OkStatus();
  }

  SyncGate::Clock::duration patience_{};
};

REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateFinish").Device(DEVICE_CPU), FinishOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateAwaitOpen").Device(DEVICE_CPU), AwaitOpenOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateAwaitFull").Device(DEVICE_CPU), AwaitFullOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SyncGateReport").Device(DEVICE_CPU), ReportOp);

}  // namespace
}  // namespace condacc
