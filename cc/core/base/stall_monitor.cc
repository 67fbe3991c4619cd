#include "cc/core/base/stall_monitor.h"

#include <functional>
#include <system_error>
#include <thread>
#include <utility>

namespace condacc {

StallMonitor& StallMonitor::Global() {
  // The monitor is never destroyed, because its thread may outlive main().
  static StallMonitor* const monitor = new StallMonitor;
  return *monitor;
}

StallMonitor::Ticket StallMonitor::Watch(Clock::duration timeout, std::function<void()> on_stall) {
  const Clock::time_point deadline = Clock::now() + timeout;
  MutexLock lock(&mu_);
  if (!started_) Start();
  if (!started_) return kNoTicket;
  const Ticket ticket{deadline, next_id_++};
  watches_.emplace(ticket, std::move(on_stall));
  if (deadline < sleeps_until_) changed_.NotifyAll();
  return ticket;
}

void StallMonitor::Unwatch(const Ticket& ticket) {
  if (ticket == kNoTicket) return;
  std::function<void()> released;  // Destroyed after the lock has been released.
  MutexLock lock(&mu_);
  const auto found = watches_.find(ticket);
  if (found == watches_.end()) return;
  released = std::move(found->second);
  watches_.erase(found);
}

void StallMonitor::Start() {
  try {
    std::thread([this] { Run(); }).detach();
    started_ = true;
  } catch (const std::system_error&) {
    // No thread can be started now; the next Watch() tries again.
  }
}

void StallMonitor::Run() {
  mu_.Lock();
  while (true) {
    // Most watches are taken back long before their time, and most timeouts are equal. So Unwatch()
    // does not wake this thread, and Watch() does so only if its deadline is the earliest, which is
    // rare.
    const auto first = watches_.begin();
    if (first == watches_.end() || Clock::now() < first->first.first) {
      sleeps_until_ = first == watches_.end() ? Clock::time_point::max() : first->first.first;
      if (first == watches_.end()) {
        changed_.Wait(&mu_);
      } else {
        changed_.WaitUntil(&mu_, sleeps_until_);
      }
      sleeps_until_ = Clock::time_point::min();
      continue;
    }
    std::function<void()> on_stall = std::move(first->second);
    watches_.erase(first);
    mu_.Unlock();
    on_stall();
    on_stall = nullptr;  // Frees what it holds before the lock is taken again.
    mu_.Lock();
  }
}

}  // namespace condacc
