// Support for tests of calls that must wait.
#ifndef CONDACC_TESTS_BASE_IS_WAITING_H_
#define CONDACC_TESTS_BASE_IS_WAITING_H_

#include <chrono>
#include <future>

namespace condacc {

// Returns whether a call in another thread has not returned, even after a while.
template <typename T>
bool IsWaiting(const std::future<T>& call) {
  return call.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout;
}

}  // namespace condacc

#endif  // CONDACC_TESTS_BASE_IS_WAITING_H_
