// Stands in for cc/core/base/timer_queue.h, whose include guard it has: the timers of a clock that
// stands still until a test moves it.
#ifndef CONDACC_CORE_BASE_TIMER_QUEUE_H_
#define CONDACC_CORE_BASE_TIMER_QUEUE_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <utility>

namespace condacc {

// Has no thread: AdvanceClock() calls the functions. Thread-safe.
class TimerQueue {
 public:
  using Clock = std::chrono::steady_clock;  // It shows the time of this queue; see clock.cc.
  using Ticket = std::pair<Clock::time_point, uint64_t>;

  static constexpr Ticket kNoTicket{};

  static TimerQueue& Global() {
    static TimerQueue* const queue = new TimerQueue;
    return *queue;
  }
  static Clock::time_point time() { return Clock::time_point(time_.load()); }

  Ticket Schedule(Clock::duration timeout, std::function<void()> function,
                  bool /*may_block*/ = false) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (refuses) return kNoTicket;
    const Ticket ticket{time() + timeout, next_id_++};
    functions_.emplace(ticket, std::move(function));
    return ticket;
  }
  void Cancel(const Ticket& ticket) {
    std::function<void()> released;  // Destroyed after the lock has been released.
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = functions_.find(ticket);
    if (found == functions_.end()) return;
    released = std::move(found->second);
    functions_.erase(found);
  }

  // Calls the functions that are due until `end`, each at its deadline. Returns how many.
  int CallUntil(Clock::time_point end) {
    int num_called = 0;
    while (std::function<void()> function = RemoveFirst(end)) {
      if (++num_called > kMaxCalls) {
        std::fputs("timers are scheduled again and again at the same time\n", stderr);
        std::abort();
      }
      try {
        function();
      } catch (const std::bad_alloc&) {
        // The function is given up.
      }
    }
    return num_called;
  }

  std::atomic<bool> refuses{false};  // If true, Schedule() does what it does without a thread.

 private:
  static constexpr int kMaxCalls = 100'000;

  // Removes the first function that is due until `end`, and sets the clock to its deadline. If
  // there is none, sets the clock to `end`.
  std::function<void()> RemoveFirst(Clock::time_point end) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto first = functions_.begin();
    const bool is_due = first != functions_.end() && first->first.first <= end;
    time_ = std::max(time(), is_due ? first->first.first : end).time_since_epoch();
    if (!is_due) return nullptr;
    std::function<void()> function = std::move(first->second);
    functions_.erase(first);
    return function;
  }

  // It begins so late that tests can name times before.
  static inline std::atomic<Clock::duration> time_{std::chrono::hours(10'000)};
  std::mutex mutex_;
  std::map<Ticket, std::function<void()>> functions_;
  uint64_t next_id_ = 1;
};

// Moves the clock on, and calls the functions that become due, in this thread. Returns how many.
inline int AdvanceClock(TimerQueue::Clock::duration duration) {
  return TimerQueue::Global().CallUntil(TimerQueue::time() + duration);
}

}  // namespace condacc

#endif  // CONDACC_CORE_BASE_TIMER_QUEUE_H_
