// Calls functions when their time has come.
#ifndef CONDACC_CORE_BASE_STALL_MONITOR_H_
#define CONDACC_CORE_BASE_STALL_MONITOR_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "cc/core/base/mutex.h"

namespace condacc {

// Calls a function once its time has come, unless it was taken back before. One thread serves
// the whole process; it is started by the first Watch() and lives until exit. Thread-safe. The
// functions run on that thread without any lock of the monitor, so they may take locks under
// which Watch() and Unwatch() are called.
class StallMonitor {
 public:
  using Clock = std::chrono::steady_clock;
  using Ticket = std::pair<Clock::time_point, uint64_t>;

  static constexpr Ticket kNoTicket{};  // The ticket of no watch.

  static StallMonitor& Global();

  // Returns kNoTicket if no thread can be started, and never calls the function then. May throw
  // std::bad_alloc, and has done nothing then.
  Ticket Watch(Clock::duration timeout, std::function<void()> on_stall) CONDACC_EXCLUDES(mu_);

  // After it returned, the function either runs already or never will. Harmless if repeated.
  void Unwatch(const Ticket& ticket) CONDACC_EXCLUDES(mu_);

 private:
  void Start() CONDACC_REQUIRES(mu_);
  void Run() CONDACC_EXCLUDES(mu_);

  Mutex mu_;
  CondVar changed_;
  std::map<Ticket, std::function<void()>> watches_ CONDACC_GUARDED_BY(mu_);
  uint64_t next_id_ CONDACC_GUARDED_BY(mu_) = 1;
  bool started_ CONDACC_GUARDED_BY(mu_) = false;
  // Until when the thread sleeps unless woken; the past while it is awake.
  Clock::time_point sleeps_until_ CONDACC_GUARDED_BY(mu_) = Clock::time_point::min();
};

}  // namespace condacc

#endif  // CONDACC_CORE_BASE_STALL_MONITOR_H_
