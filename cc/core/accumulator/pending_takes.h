// The takes that wait for gradients, first come first served.
#ifndef CONDACC_CORE_ACCUMULATOR_PENDING_TAKES_H_
#define CONDACC_CORE_ACCUMULATOR_PENDING_TAKES_H_

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <utility>

#include "cc/core/base/status.h"
#include "cc/core/base/timer_queue.h"

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
  // If set, the take gets gradients only while the accumulator is at this global step.
  const std::optional<int64_t> global_step;
  Done done;

  // The fields below are guarded by the lock of the accumulator.
  bool cancelled = false;
  bool waiting = false;    // The take is in PendingTakes, at `position`.
  bool was_ready = false;  // When the take was requested, there were enough gradients for it.
  Status failure;          // The error with which the take ends, if it gets no value.
  typename std::list<std::shared_ptr<PendingTake>>::iterator position;
  TimerQueue::Ticket stall_timer = TimerQueue::kNoTicket;
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

// A queue of takes, first in, first out. Any take can be removed early. Not thread-safe.
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

  // Moves a take from this queue to the end of `list`. Cannot fail: it needs no memory.
  void MoveTo(TakeList* list, const TakePtr& take) noexcept {
    take->waiting = false;
    list->splice(list->end(), takes_, take->position);
  }

  // Removes a take. Returns false if it is not in this queue (not yet, or no longer).
  bool Remove(const TakePtr& take) {
    if (!take->waiting) return false;
    take->waiting = false;
    takes_.erase(take->position);
    return true;
  }

 private:
  TakeList takes_;
};

// Takes that have failed. The destructor completes them, so it must run after the lock was
// released: an object is declared before the lock is taken.
template <class Value, class Workspace = void>
struct FailedTakes {
  typename PendingTakes<Value, Workspace>::TakeList takes;

  FailedTakes() = default;
  ~FailedTakes() {
    for (const auto& take : takes) take->Complete(take->failure, nullptr);
  }
  FailedTakes(const FailedTakes&) = delete;
  FailedTakes& operator=(const FailedTakes&) = delete;
};

}  // namespace condacc

#endif  // CONDACC_CORE_ACCUMULATOR_PENDING_TAKES_H_
