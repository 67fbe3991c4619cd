// The gate of synchronous training and its steps as TensorFlow resources.
#ifndef CONDACC_KERNELS_SYNC_SYNC_GATE_RESOURCE_H_
#define CONDACC_KERNELS_SYNC_SYNC_GATE_RESOURCE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/core/sync/sync_gate.h"
#include "cc/kernels/base/handle_op.h"
#include "cc/kernels/base/inputs.h"
#include "cc/kernels/base/resource.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/lib/core/refcount.h"

namespace condacc {

class SyncGateResource : public PluginResource {
 public:
  explicit SyncGateResource(const std::string& name);

  const std::shared_ptr<SyncGate>& gate() const { return gate_; }
  std::string DebugString() const override { return gate_->Describe(); }

 private:
  const std::shared_ptr<SyncGate> gate_;
};

// A worker's step. It ends at the latest when its handle, a tensor of the step, is freed. If the
// worker has not told the gate by then that it is done, the step has failed.
class WorkerStepResource : public PluginResource {
 public:
  WorkerStep& step() { return *step_; }
  // The step has yet to be set after the construction.
  std::unique_ptr<WorkerStep>* mutable_step() { return &step_; }
  std::string DebugString() const override {
    return absl::StrCat("step of ", step_->worker(), " at round ", step_->local_step());
  }

 private:
  std::unique_ptr<WorkerStep> step_;
};

class SyncGateOp : public HandleOp<SyncGateResource> {
 public:
  using HandleOp::HandleOp;

 private:
  SyncGateResource* NewResource() const override { return new SyncGateResource(resource_name()); }
};

// Finds the gate that input 0 is a handle of.
inline absl::Status LookupGate(tensorflow::OpKernelContext* ctx,
                               tensorflow::core::RefCountPtr<SyncGateResource>* resource) {
  return LookupInput(ctx, 0, "gate", "a synchronization gate", resource);
}

// Finds the step that input 0 is a handle of.
inline absl::Status LookupWorkerStep(tensorflow::OpKernelContext* ctx,
                                     tensorflow::core::RefCountPtr<WorkerStepResource>* resource) {
  return LookupInput(ctx, 0, "step", "a step at a synchronization gate", resource);
}

// Reads an attribute that is a number of seconds.
absl::Status ReadGateDuration(tensorflow::OpKernelConstruction* ctx, const char* name,
                              SyncGate::Clock::duration* duration);

// The subject of an out-of-memory error.
inline constexpr char kGate[] = "a synchronization gate";

}  // namespace condacc

#endif  // CONDACC_KERNELS_SYNC_SYNC_GATE_RESOURCE_H_
