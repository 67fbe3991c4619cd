// Streams that are late, so that the host runs ahead of them as it does of a GPU.
#ifndef CONDACC_TESTS_GPU_EMULATED_PLUGIN_LATE_STREAM_H_
#define CONDACC_TESTS_GPU_EMULATED_PLUGIN_LATE_STREAM_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <random>

namespace condacc {
namespace emulated {

// A point in a stream's work. Thread-safe.
class Event {
 public:
  // Returns the number of this recording.
  int64_t Record();
  void Complete(int64_t number);
  int64_t num_recorded();
  bool IsComplete();
  void WaitFor(int64_t number);

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  int64_t num_recorded_ = 0;
  int64_t num_complete_ = 0;
};

// Runs work in order on a thread of its own, before each fourth piece on average a random time
// later, of at most EMULATED_DELAY_US microseconds. Thread-safe; lives until the process ends.
class LateStream {
 public:
  explicit LateStream(unsigned seed);

  void Push(std::function<void()> work);
  void Wait();
  void Record(Event* event);
  void WaitFor(Event* event);

 private:
  void Loop();
  void BeLate();

  std::mutex mu_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool is_busy_ = false;
  std::mt19937 random_;
};

}  // namespace emulated
}  // namespace condacc

#endif  // CONDACC_TESTS_GPU_EMULATED_PLUGIN_LATE_STREAM_H_
