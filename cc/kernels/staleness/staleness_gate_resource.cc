#include "cc/kernels/staleness/staleness_gate_resource.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "cc/kernels/base/errors.h"
#include "cc/kernels/base/settings.h"
#include "tensorflow/core/platform/logging.h"

namespace condacc {

void StalenessReservationResource::Open(const StalenessGate::Decision& decision,
                                        const std::string& optimizer) {
  is_open_ = true;
  const std::chrono::milliseconds timeout = StallTimeout();
  if (timeout.count() == 0) return;
  // The op must not fail for lack of memory for a warning.
  IfThereIsMemory([&] {
    const std::shared_ptr<StalenessGateResource> gate(
        tsl::core::GetNewRef(gate_.get()).release(),
        [](StalenessGateResource* resource) { resource->Unref(); });
    const auto warn = [gate, decision, optimizer, timeout] {
      LOG(WARNING) << "An update of optimizer '" << optimizer << "' that was accepted at step "
                   << decision.step << " is still under way after "
                   << static_cast<double>(timeout.count()) / 1e3 << " s; "
                   << gate->gate().num_dropped() - decision.num_dropped
                   << " updates of all optimizers of this step were dropped meanwhile ("
                   << gate->where()
                   << "). With staleness 0, all others are dropped until it ends. Its worker may "
                      "have been stopped or lost, or the wrapped optimizer waits for other "
                      "workers, which it must not do.";
    };
    stall_timer_ = TimerQueue::Global().Schedule(timeout, warn);
  });
}

}  // namespace condacc
