// Calls functions after a timeout, unless they are taken back before.
#ifndef CONDACC_CORE_BASE_STALL_MONITOR_H_
#define CONDACC_CORE_BASE_STALL_MONITOR_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "cc/core/base/mutex.h"

namespace condacc {

// Calls a function after a timeout, unless it is taken back by Unwatch() before. One thread serves
// the whole process. The first Watch() starts it, and it lives until the process exits. The thread
// holds no lock of the monitor while it calls a function, so functions may take locks under which
// Watch() and Unwatch() are called. Thread-safe.
class StallMonitor {
 public:
  using Clock = std::chrono::steady_clock;
  using Ticket = std::pair<Clock::time_point, uint64_t>;

  static constexpr Ticket kNoTicket{};  // The ticket of no watch.

  static StallMonitor& Global();

  // Registers `on_stall` to be called after `timeout`, and returns its ticket. Returns kNoTicket if
  // no thread can be started; then the function is never called. May throw std::bad_alloc, and then
  // nothing has been registered.
  Ticket Watch(Clock::duration timeout, std::function<void()> on_stall) CONDACC_EXCLUDES(mu_);

  // Takes a function back. When this returns, the call of the function has either begun already or
  // will never begin. Repeated calls do nothing.
  void Unwatch(const Ticket& ticket) CONDACC_EXCLUDES(mu_);

 private:
  void Start() CONDACC_REQUIRES(mu_);
  void Run() CONDACC_EXCLUDES(mu_);

  Mutex mu_;
  CondVar changed_;
  std::map<Ticket, std::function<void()>> watches_ CONDACC_GUARDED_BY(mu_);
  uint64_t next_id_ CONDACC_GUARDED_BY(mu_) = 1;
  bool started_ CONDACC_GUARDED_BY(mu_) = false;
  // The time until which the thread sleeps if nobody wakes it. It lies in the past while the thread
  // is awake.
  Clock::time_point sleeps_until_ CONDACC_GUARDED_BY(mu_) = Clock::time_point::min();
};

}  // namespace condacc

#endif  // CONDACC_CORE_BASE_STALL_MONITOR_H_
