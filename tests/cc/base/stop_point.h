// A point at which threads stop until the test lets them continue.
#ifndef CONDACC_TESTS_BASE_STOP_POINT_H_
#define CONDACC_TESTS_BASE_STOP_POINT_H_

#include <condition_variable>
#include <mutex>

namespace condacc {

class StopPoint {
 public:
  // Waits until the stop is open.
  void Pass() {
    std::unique_lock<std::mutex> lock(mutex_);
    ++num_arrivals_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return open_; });
  }

  // Waits until `count` threads in total have arrived.
  void AwaitArrivals(int count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this, count] { return num_arrivals_ >= count; });
  }

  void Open() {
    std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int num_arrivals_ = 0;
  bool open_ = false;
};

}  // namespace condacc

#endif  // CONDACC_TESTS_BASE_STOP_POINT_H_
