#define EIGEN_USE_THREADS
#include "cc/kernels/sync_gate_resource.h"

#include "cc/kernels/stall_warning.h"
#include "tensorflow/core/platform/logging.h"

namespace condacc {

SyncGateResource::SyncGateResource(const std::string& name)
    : gate_(std::make_shared<SyncGate>(name, StallTimeout(), [](const std::string& line) {
        LOG(WARNING) << "Synchronous training waits: " << line;
      })) {}

}  // namespace condacc
