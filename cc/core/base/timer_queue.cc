#include "cc/core/base/timer_queue.h"

#include <pthread.h>

#include <functional>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

namespace condacc {

TimerQueue& TimerQueue::Global() noexcept {
  // The queue is in static memory, because callers that may not throw can be the first to use it.
  // It is never destroyed, because its thread may outlive main(). If pthread_atfork() fails for
  // lack of memory, the child of a fork() has a copy of the queue.
  alignas(TimerQueue) static unsigned char memory[sizeof(TimerQueue)];
  static TimerQueue* const queue = [] {
    // The child of a fork() has no thread of the queue, and another thread may have held the lock.
    // The child therefore makes a new queue in the place of the copy, and never calls or destroys
    // the copied functions.
    pthread_atfork(nullptr, nullptr, [] { new (memory) TimerQueue; });
    return new (memory) TimerQueue;
  }();
  return *queue;
}

TimerQueue::Ticket TimerQueue::Schedule(Clock::duration timeout, std::function<void()> function,
                                        bool may_block) {
  const Clock::time_point deadline = Clock::now() + timeout;
  MutexLock lock(&mu_);
  if (!started_) {
    try {
      std::thread([this] { Run(); }).detach();
      started_ = true;
    } catch (const std::system_error&) {
      return kNoTicket;  // No thread can be started now; the next call tries again.
    }
  }
  const Ticket ticket{deadline, next_id_++};
  calls_.emplace(ticket, Call{std::move(function), may_block});
  if (deadline < sleeps_until_) changed_.NotifyAll();
  return ticket;
}

void TimerQueue::Cancel(const Ticket& ticket) noexcept {
  if (ticket == kNoTicket) return;
  Call released;  // Destroyed after the lock has been released.
  MutexLock lock(&mu_);
  const auto found = calls_.find(ticket);
  if (found == calls_.end()) return;
  released = std::move(found->second);
  calls_.erase(found);
}

void TimerQueue::Make(const Call& call) {
  const auto make = [](const std::function<void()>& function) {
    try {
      function();
    } catch (const std::bad_alloc&) {
      // The function is given up.
    }
  };
  if (call.may_block) {
    // The function is copied, so that this thread can call it if no other can be started.
    try {
      std::thread(make, call.function).detach();
      return;
    } catch (const std::bad_alloc&) {
    } catch (const std::system_error&) {
    }
  }
  make(call.function);
}

void TimerQueue::Run() {
  mu_.Lock();
  while (true) {
    // Most functions are cancelled long before they are due, and most timeouts are equal. So
    // Cancel() does not wake this thread, and Schedule() does so only if its deadline is the
    // earliest, which is rare.
    const auto first = calls_.begin();
    if (first == calls_.end() || Clock::now() < first->first.first) {
      sleeps_until_ = first == calls_.end() ? Clock::time_point::max() : first->first.first;
      if (first == calls_.end()) {
        changed_.Wait(&mu_);
      } else {
        changed_.WaitUntil(&mu_, sleeps_until_);
      }
      sleeps_until_ = Clock::time_point::min();
      continue;
    }
    Call call = std::move(first->second);
    calls_.erase(first);
    mu_.Unlock();
    Make(call);
    call = Call();  // Frees what the function holds before the lock is taken again.
    mu_.Lock();
  }
}

}  // namespace condacc
