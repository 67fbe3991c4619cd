// Stands in for the condition variable of cc/core/base/mutex.h: also counts the threads that wait.
#ifndef CONDACC_TESTS_STAND_INS_COND_VAR_H_
#define CONDACC_TESTS_STAND_INS_COND_VAR_H_

#include <atomic>
#include <cstdint>
#include <utility>

#define CondVar PlainCondVar
#include "cc/core/base/mutex.h"
#undef CondVar

namespace condacc {

class CondVar : public PlainCondVar {
 public:
  // The number of threads that wait for any notification. A thread that has been notified does not
  // count until it waits again.
  static int num_waiting() { return num_waiting_; }

  void Wait(Mutex* mutex) CONDACC_REACQUIRES(mutex) {
    const uint64_t generation = generation_;
    ++num_own_;
    ++num_waiting_;
    PlainCondVar::Wait(mutex);
    if (generation != generation_) return;
    --num_own_;  // It was woken without a notification.
    --num_waiting_;
  }
  // The caller holds the mutex.
  void NotifyAll() {
    ++generation_;
    num_waiting_ -= std::exchange(num_own_, 0);
    PlainCondVar::NotifyAll();
  }

 private:
  static inline std::atomic<int> num_waiting_{0};
  // These are guarded by the mutex of those that wait.
  uint64_t generation_ = 0;  // Grows with each notification.
  int num_own_ = 0;
};

}  // namespace condacc

#endif  // CONDACC_TESTS_STAND_INS_COND_VAR_H_
