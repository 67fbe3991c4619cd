// The gate of synchronous training and its steps as TensorFlow resources.
#ifndef CONDACC_KERNELS_SYNC_SYNC_GATE_RESOURCE_H_
#define CONDACC_KERNELS_SYNC_SYNC_GATE_RESOURCE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "cc/core/sync/sync_gate.h"
#include "cc/kernels/base/resource.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace condacc {

class SyncGateResource : public PluginResource {
 public:
  static constexpr char kArgument[] = "gate";
  static constexpr char kWhat[] = "a synchronization gate";
  static constexpr char kKind[] = "gate";

  explicit SyncGateResource(const std::string& where);

  const std::shared_ptr<SyncGate>& gate() const { return gate_; }
  std::string DebugString() const override { return gate_->Describe(); }

 private:
  const std::shared_ptr<SyncGate> gate_;
};

// A worker's step. It ends at the latest when its handle, a tensor of the step, is freed. If the
// worker has not told the gate by then that it is done, the step has failed.
class WorkerStepResource : public PluginResource {
 public:
  static constexpr char kArgument[] = "step";
  static constexpr char kWhat[] = "a step at a synchronization gate";

  using PluginResource::PluginResource;

  std::unique_ptr<WorkerStep> step;  // Set before any op can have the handle.
};

// The attributes by which ops name a chief.
struct ChiefAttributes {
  std::string chief;

  absl::Status Read(tensorflow::OpKernelConstruction* ctx) { return ctx->GetAttr("chief", &chief); }
};

// The attributes by which ops name a worker.
struct WorkerAttributes {
  std::string worker;
  std::string run;

  absl::Status Read(tensorflow::OpKernelConstruction* ctx) {
    TF_RETURN_IF_ERROR(ctx->GetAttr("worker", &worker));
    return ctx->GetAttr("run", &run);
  }
};

// Reads an attribute that is a number of seconds.
absl::Status ReadGateDuration(tensorflow::OpKernelConstruction* ctx, const char* name,
                              SyncGate::Clock::duration* duration);

}  // namespace condacc

#endif  // CONDACC_KERNELS_SYNC_SYNC_GATE_RESOURCE_H_
