// Stands in for cc/core/base/timer_queue.h, whose include guard it has: the timers of fibers.
#ifndef CONDACC_CORE_BASE_TIMER_QUEUE_H_
#define CONDACC_CORE_BASE_TIMER_QUEUE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <new>
#include <utility>

#include "tests/cc/explorer/fibers/fibers.h"

namespace condacc {

// Calls functions in the order of their deadlines, at their deadlines or later.
class TimerQueue {
 public:
  using Clock = std::chrono::steady_clock;
  using Ticket = std::pair<Clock::time_point, uint64_t>;

  static constexpr Ticket kNoTicket{};

  static TimerQueue& Global() {
    static TimerQueue* const queue = new TimerQueue;
    return *queue;
  }

  Ticket Schedule(Clock::duration timeout, std::function<void()> function,
                  bool /*may_block*/ = false) {
    explorer::Point("schedules");
    if (explorer::Chance(refuse_percent_)) return kNoTicket;
    const Ticket ticket{Clock::now() + timeout, next_id_++};
    functions_.emplace(ticket, std::move(function));
    explorer::Wake(this);
    return ticket;
  }
  void Cancel(const Ticket& ticket) {
    explorer::Point("cancels a timer");
    const auto found = functions_.find(ticket);
    if (found == functions_.end()) return;
    const std::function<void()> released = std::move(found->second);
    functions_.erase(found);
  }

  // The methods below are for the explorer.

  // Starts again without any functions. Schedule() will refuse `refuse_percent` percent of new
  // ones.
  void Restart(int refuse_percent) {
    functions_.clear();
    next_id_ = 1;
    refuse_percent_ = refuse_percent;
    stops_ = false;
  }
  // The body of the fiber that calls the functions, until Stop(). Also ends when nothing but timers
  // runs, so that fibers that wait forever are detected.
  void Serve() {
    constexpr int kMaxIdle = 100;
    int num_idle = 0;
    int num_overdue = 0;  // Calls in a row that were due when the call before them ended.
    explorer::Time returned = 0;
    int64_t progress = 0;
    while (!stops_ && num_idle < kMaxIdle) {
      if (functions_.empty()) {
        explorer::BlockOn(this, "has no timer");
        continue;
      }
      const auto due = functions_.begin()->first.first.time_since_epoch().count();
      const auto late = explorer::Chance(50) ? 0 : explorer::Draw(100);
      if (explorer::Now() < due + late) explorer::BlockOn(this, "awaits a timer", due + late);
      if (stops_ || functions_.empty() || explorer::Now() < due) continue;
      const bool is_idle =
          explorer::NumPointsOfOthers() == std::exchange(progress, explorer::NumPointsOfOthers());
      num_idle = is_idle ? num_idle + 1 : 0;
      num_overdue = is_idle && due <= returned ? num_overdue + 1 : 0;
      if (num_overdue > kMaxIdle / 2) explorer::Fail("a timer keeps the timer thread busy");
      CallFirst();
      returned = explorer::Now();
    }
  }
  size_t num_scheduled() const { return functions_.size(); }
  void Stop() {
    stops_ = true;
    explorer::Wake(this);
  }
  // Calls the functions that are left, and those that they schedule, up to a number.
  void CallRest() {
    refuse_percent_ = 0;
    for (int i = 0; i < 500 && !functions_.empty(); ++i) CallFirst();
  }

 private:
  void CallFirst() {
    explorer::Point("calls a timer");
    if (functions_.empty()) return;
    const auto first = functions_.begin();
    const std::function<void()> function = std::move(first->second);
    functions_.erase(first);
    try {
      function();
    } catch (const std::bad_alloc&) {
      // The function is given up.
    }
  }

  std::map<Ticket, std::function<void()>> functions_;
  uint64_t next_id_ = 1;
  int refuse_percent_ = 0;
  bool stops_ = false;
};

}  // namespace condacc

#endif  // CONDACC_CORE_BASE_TIMER_QUEUE_H_
