#include "cc/core/base/timer_queue.h"

#include <functional>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

namespace condacc {

TimerQueue& TimerQueue::Global() {
  // The queue is never destroyed, because its thread may outlive main().
  static TimerQueue* const queue = new TimerQueue;
  return *queue;
}

TimerQueue::Ticket TimerQueue::Schedule(Clock::duration timeout, std::function<void()> function) {
  const Clock::time_point deadline = Clock::now() + timeout;
  MutexLock lock(&mu_);
  if (!started_) Start();
  if (!started_) return kNoTicket;
  const Ticket ticket{deadline, next_id_++};
  functions_.emplace(ticket, std::move(function));
  if (deadline < sleeps_until_) changed_.NotifyAll();
  return ticket;
}

void TimerQueue::Cancel(const Ticket& ticket) {
  if (ticket == kNoTicket) return;
  std::function<void()> released;  // Destroyed after the lock has been released.
  MutexLock lock(&mu_);
  const auto found = functions_.find(ticket);
  if (found == functions_.end()) return;
  released = std::move(found->second);
  functions_.erase(found);
}

void TimerQueue::Start() {
  try {
    std::thread([this] { Run(); }).detach();
    started_ = true;
  } catch (const std::system_error&) {
    // No thread can be started now; the next Schedule() tries again.
  }
}

void TimerQueue::Run() {
  mu_.Lock();
  while (true) {
    // Most functions are cancelled long before they are due, and most timeouts are equal. So
    // Cancel() does not wake this thread, and Schedule() does so only if its deadline is the
    // earliest, which is rare.
    const auto first = functions_.begin();
    if (first == functions_.end() || Clock::now() < first->first.first) {
      sleeps_until_ = first == functions_.end() ? Clock::time_point::max() : first->first.first;
      if (first == functions_.end()) {
        changed_.Wait(&mu_);
      } else {
        changed_.WaitUntil(&mu_, sleeps_until_);
      }
      sleeps_until_ = Clock::time_point::min();
      continue;
    }
    std::function<void()> function = std::move(first->second);
    functions_.erase(first);
    mu_.Unlock();
    try {
      function();
    } catch (const std::bad_alloc&) {
      // The function is given up.
    }
    function = nullptr;  // Frees what it holds before the lock is taken again.
    mu_.Lock();
  }
}

}  // namespace condacc
