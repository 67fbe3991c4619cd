#include "cc/kernels/sync/sync_gate_resource.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/kernels/base/settings.h"
#include "tensorflow/core/platform/logging.h"

namespace condacc {

SyncGateResource::SyncGateResource(const std::string& where)
    : PluginResource(where),
      gate_(std::make_shared<SyncGate>(where, StallTimeout(), [](const std::string& line) {
        LOG(WARNING) << "Synchronous training waits: " << line;
      })) {}

absl::Status ReadGateDuration(tensorflow::OpKernelConstruction* ctx, const char* name,
                              SyncGate::Clock::duration* duration) {
  float seconds = 0;
  TF_RETURN_IF_ERROR(ctx->GetAttr(name, &seconds));
  if (!(seconds >= 0 && seconds < 1e9)) {
    return absl::InvalidArgumentError(
        absl::StrCat("Expected ", name, " to be at least 0 and below 1e9, got ", seconds));
  }
  *duration =
      std::chrono::duration_cast<SyncGate::Clock::duration>(std::chrono::duration<double>(seconds));
  if (seconds > 0) *duration = std::max(*duration, SyncGate::kShortestDuration);
  return absl::OkStatus();
}

}  // namespace condacc
