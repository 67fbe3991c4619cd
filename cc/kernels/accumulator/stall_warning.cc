#include "cc/kernels/accumulator/stall_warning.h"

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
