#include "cc/kernels/base/stall_warning.h"

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>

#include "tensorflow/core/platform/logging.h"

namespace condacc {
namespace {

// Names what is most often forgotten: without it, every gradient after the first take is stale.
std::string AboutLastDrop(const StallReport& report) {
  if (report.num_dropped == 0) return "";
  std::string text =
      ", the last of them with local step " + std::to_string(report.last_dropped_step);
  if (report.last_dropped_step == 0) {
    text +=
        ", the default of apply_grad: pass local_step=accumulator.global_step(), or the step at "
        "which the gradient was computed";
  }
  return text;
}

}  // namespace

std::chrono::milliseconds StallTimeout() {
  constexpr double kDefaultSeconds = 60;
  const char* text = std::getenv("TF_CONDACC_STALL_WARNING_SECS");
  char* end = nullptr;
  double seconds = text == nullptr ? kDefaultSeconds : std::strtod(text, &end);
  if (text != nullptr && (end == text || !(seconds < 1e9))) seconds = kDefaultSeconds;
  return std::chrono::milliseconds(seconds > 0 ? static_cast<int64_t>(seconds * 1e3) : 0);
}

std::function<void(const StallReport&)> StallLogger(const std::string& name) {
  return [name](const StallReport& report) {
    LOG(WARNING) << "A take of accumulator '" << name << "' waits for long: it has "
                 << report.num_accumulated << " of " << report.num_required
                 << " gradients at global step " << report.global_step << ", and "
                 << report.num_dropped << " stale gradients were dropped so far"
                 << AboutLastDrop(report) << ".";
  };
}

}  // namespace condacc
