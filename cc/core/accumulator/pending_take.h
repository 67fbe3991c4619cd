// A request for the gradients that an accumulator has.
#ifndef CONDACC_CORE_ACCUMULATOR_PENDING_TAKE_H_
#define CONDACC_CORE_ACCUMULATOR_PENDING_TAKE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "cc/core/accumulator/gradient.h"
#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"
#include "cc/core/base/timer_queue.h"
#include "cc/core/base/wait_list.h"

namespace condacc {

// One request for the accumulated gradients. `done` is called exactly once, never under a lock:
// with OK and the value, or with an error and null.
struct PendingTake : Waiter<PendingTake> {
  using Done = std::function<void(const Status&, Value*)>;

  PendingTake(int64_t num_required, Done done, std::optional<int64_t> global_step = std::nullopt)
      : num_required(num_required), global_step(global_step), done(std::move(done)) {}

  const int64_t num_required;
  // If set, the take fails unless the accumulator is at this global step when its turn comes.
  const std::optional<int64_t> global_step;
  Done done;
  // If set, it asks for all memory that `done` needs for a value of the given shape. It is called
  // at most once, before the value is taken, and perhaps under the accumulator's lock. If it
  // returns an error or throws std::bad_alloc, the take ends with an error and the gradients stay
  // accumulated.
  std::function<Status(const Shape&)> reserve;

  // The fields below are guarded by the lock of the accumulator until the take has ended. Then they
  // belong to the thread that completes it.
  bool is_cancelled = false;
  Status failure;  // The error with which the take ends, if it gets no value.
  std::chrono::steady_clock::time_point began;  // When the take began to wait.
  TimerQueue::Ticket stall_timer = TimerQueue::kNoTicket;
  std::shared_ptr<void> keep_alive;  // Held until the take is complete.

  // Calls `done`, and releases everything that `done` and the take keep alive.
  void Complete(const Status& status, Value* value) {
    done(status, value);
    done = nullptr;
    reserve = nullptr;
    keep_alive = nullptr;
  }
  void Complete() { Complete(failure, nullptr); }
};

}  // namespace condacc

#endif  // CONDACC_CORE_ACCUMULATOR_PENDING_TAKE_H_
