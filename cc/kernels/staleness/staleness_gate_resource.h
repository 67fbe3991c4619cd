// The staleness gate and its reservations as TensorFlow resources.
#ifndef CONDACC_KERNELS_STALENESS_STALENESS_GATE_RESOURCE_H_
#define CONDACC_KERNELS_STALENESS_STALENESS_GATE_RESOURCE_H_

#include <atomic>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/core/base/timer_queue.h"
#include "cc/core/staleness/staleness_gate.h"
#include "cc/kernels/base/resource.h"
#include "tensorflow/core/lib/core/refcount.h"

namespace condacc {

class StalenessGateResource : public PluginResource {
 public:
  static constexpr char kArgument[] = "gate";
  static constexpr char kWhat[] = "a staleness gate";
  static constexpr char kKind[] = "staleness gate";

  using PluginResource::PluginResource;

  StalenessGate& gate() { return gate_; }
  std::string DebugString() const override {
    return absl::StrCat(where(), " with ", gate_.num_open(), " updates under way");
  }

 private:
  StalenessGate gate_;
};

// The permission to apply one update. It ends at the latest when its handle is freed, at the end of
// the step that received it, however that step ends. If End() was not called before, the update
// counts as failed.
class StalenessReservationResource : public PluginResource {
 public:
  static constexpr char kArgument[] = "reservation";
  static constexpr char kWhat[] = "a reservation";

  StalenessReservationResource(StalenessGateResource* gate, std::string counter)
      : PluginResource(gate->where()),
        gate_(tsl::core::GetNewRef(gate)),
        counter_(std::move(counter)) {}
  ~StalenessReservationResource() override { End(/*applied=*/false); }

  // Records that the update of `optimizer` was accepted by `decision`. Logs one warning if it has
  // not ended after StallTimeout().
  void Open(const StalenessGate::Decision& decision, const std::string& optimizer);

  // Ends the reservation. Does nothing if the update was dropped, or if it has ended before.
  void End(bool applied) {
    if (!is_open_.exchange(false)) return;
    TimerQueue::Global().Cancel(stall_timer_);
    gate_->gate().End(counter_, applied);
  }

 private:
  const tensorflow::core::RefCountPtr<StalenessGateResource> gate_;
  const std::string counter_;
  TimerQueue::Ticket stall_timer_ = TimerQueue::kNoTicket;
  std::atomic<bool> is_open_{false};
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_STALENESS_STALENESS_GATE_RESOURCE_H_
