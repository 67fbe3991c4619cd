// The takes that wait for gradients, first come first served.
#ifndef CONDACC_CORE_PENDING_TAKES_H_
#define CONDACC_CORE_PENDING_TAKES_H_

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <utility>

#include "cc/core/stall_monitor.h"
#include "cc/core/status.h"

namespace condacc {

// One request for the accumulated gradients. `done` is called exactly once, never under a lock:
// with OK and the value, or with an error and null. `Workspace` provides the memory and the threads
// for serving the take.
template <class Value, class Workspace = void>
struct PendingTake {
  using Done = std::function<void(const Status&, Value*)>;

  PendingTake(int64_t num_required, Done done, std::optional<int64_t> global_step = std::nullopt)
      : num_required(num_required), global_step(global_step), done(std::move(done)) {}

  const int64_t num_required;
  // The only step of the accumulator at which gradients are taken; any step if not set.
  const std::optional<int64_t> global_step;
  Done done;

  // Guarded by the accumulator that the take waits on.
  bool cancelled = false;
  bool waiting = false;
  Status failure;  // why it ends without a value
  typename std::list<std::shared_ptr<PendingTake>>::iterator position;
  StallMonitor::Ticket stall_watch = StallMonitor::kNoTicket;
  // Set while the take waits: the workspace to serve it with, and a reference that keeps the
  // workspace and the accumulator alive.
  Workspace* workspace = nullptr;
  std::shared_ptr<void> keep_alive;

  // Calls `done`, and releases everything that `done` and the take keep alive.
  void Complete(const Status& status, Value* value) {
    done(status, value);
    done = nullptr;
    keep_alive = nullptr;
  }
};

// FIFO of takes; any of them can leave early. Not thread-safe.
template <class Value, class Workspace = void>
class PendingTakes {
 public:
  using TakePtr = std::shared_ptr<PendingTake<Value, Workspace>>;

  using TakeList = std::list<TakePtr>;

  bool empty() const { return takes_.empty(); }
  const TakePtr& front() const { return takes_.front(); }

  void Push(const TakePtr& take) {
    take->position = takes_.insert(takes_.end(), take);
    take->waiting = true;
  }

  TakePtr PopFront() {
    TakePtr take = takes_.front();
    Remove(take);
    return take;
  }

  // Moves a take that waits here to the end of `list`. Cannot fail: it needs no memory.
  void MoveTo(TakeList* list, const TakePtr& take) noexcept {
    take->waiting = false;
    list->splice(list->end(), takes_, take->position);
  }

  // False if the take does not wait here (not yet, or no longer).
  bool Remove(const TakePtr& take) {
    if (!take->waiting) return false;
    take->waiting = false;
    takes_.erase(take->position);
    return true;
  }

 private:
  TakeList takes_;
};

}  // namespace condacc

#endif  // CONDACC_CORE_PENDING_TAKES_H_
