// Calls functions after a timeout, unless they are cancelled first.
#ifndef CONDACC_CORE_BASE_TIMER_QUEUE_H_
#define CONDACC_CORE_BASE_TIMER_QUEUE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "cc/core/base/mutex.h"

namespace condacc {

// Calls each scheduled function once, after its timeout, unless Cancel() comes first. One thread
// serves the whole process. The first Schedule() starts it, and it lives until the process exits.
// The child of a fork() begins without functions: those of its parent are the parent's.
// The thread holds no lock of the queue while it calls a function, so functions may take locks
// under which Schedule() and Cancel() are called. Thread-safe.
//
// Example:
//
//   const auto ticket = TimerQueue::Global().Schedule(
//       std::chrono::seconds(60), [weak = weak_from_this()] {
//         if (const auto self = weak.lock()) self->Report();
//       });
//   ...
//   TimerQueue::Global().Cancel(ticket);  // Report() may be running now, but will not begin later.
class TimerQueue {
 public:
  using Clock = std::chrono::steady_clock;
  using Ticket = std::pair<Clock::time_point, uint64_t>;

  static constexpr Ticket kNoTicket{};  // A ticket that no function has.

  static TimerQueue& Global() noexcept;

  // Schedules a call of `function` after `timeout`, and returns its ticket. `function` may throw
  // only std::bad_alloc. If no thread can be started, returns kNoTicket and never calls the
  // function. May throw std::bad_alloc, and then nothing has been scheduled. A function that may
  // block, because it takes long or waits, is called in a thread of its own, so that others need
  // not wait for it. If no thread can be started then, the queue calls it.
  Ticket Schedule(Clock::duration timeout, std::function<void()> function, bool may_block = false)
      CONDACC_EXCLUDES(mu_);

  // Cancels a scheduled function. When this returns, the call of the function has either begun
  // already or will never begin. Repeated calls do nothing.
  void Cancel(const Ticket& ticket) noexcept CONDACC_EXCLUDES(mu_);

 private:
  struct Call {
    std::function<void()> function;
    bool may_block = false;
  };

  TimerQueue() = default;
  void Run() CONDACC_EXCLUDES(mu_);
  // Makes a call, or starts a thread that makes it.
  static void Make(const Call& call);

  Mutex mu_;
  CondVar changed_;
  std::map<Ticket, Call> calls_ CONDACC_GUARDED_BY(mu_);
  uint64_t next_id_ CONDACC_GUARDED_BY(mu_) = 1;
  bool started_ CONDACC_GUARDED_BY(mu_) = false;
  // The time until which the thread sleeps unless it is woken. It is in the past while the thread
  // is awake.
  Clock::time_point sleeps_until_ CONDACC_GUARDED_BY(mu_) = Clock::time_point::min();
};

}  // namespace condacc

#endif  // CONDACC_CORE_BASE_TIMER_QUEUE_H_
