// Support for tests of calls that must wait.
#ifndef CONDACC_TESTS_BASE_IS_WAITING_H_
#define CONDACC_TESTS_BASE_IS_WAITING_H_

#include <chrono>
#include <future>
#include <thread>

#include "cc/core/base/mutex.h"

namespace condacc {

template <typename T>
bool HasReturned(const std::future<T>& call) {
  return call.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

// Returns true once each of these calls, in threads of their own, waits for a condition of the
// core, and false if one of them has returned instead. No other thread may wait for such a
// condition.
template <typename... T>
bool IsWaiting(const std::future<T>&... calls) {
  while (CondVar::num_waiting() < static_cast<int>(sizeof...(calls))) {
    if ((HasReturned(calls) || ...)) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace condacc

#endif  // CONDACC_TESTS_BASE_IS_WAITING_H_
