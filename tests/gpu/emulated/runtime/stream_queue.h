// The work that was queued on the emulated device.
#ifndef CONDACC_TESTS_GPU_EMULATED_RUNTIME_STREAM_QUEUE_H_
#define CONDACC_TESTS_GPU_EMULATED_RUNTIME_STREAM_QUEUE_H_

#include <deque>
#include <functional>
#include <mutex>

namespace condacc {
namespace emulated {

// A stream of somebody else, as TensorFlow's. `push` runs `run(argument)` later, in the order of
// the calls; `wait` returns when all of it was run.
struct OtherStream {
  void (*push)(void (*run)(void*), void* argument) = nullptr;
  void (*wait)() = nullptr;
};

// All streams are one. What is queued runs as late as possible: when the host waits. Thread-safe.
class StreamQueue {
 public:
  static StreamQueue& Get();

  // From now on work is queued on that stream.
  void UseOther(const OtherStream& other) { other_ = other; }

  void Push(std::function<void()> work);

  // Returns when all that was queued has run.
  void Wait();

  // Runs `work` while nothing else runs, without waiting for what is queued.
  template <typename Work>
  auto Now(const Work& work) {
    const std::lock_guard<std::recursive_mutex> lock(running_);
    return work();
  }

 private:
  OtherStream other_;
  std::mutex mu_;  // guards queue_
  std::deque<std::function<void()>> queue_;
  std::recursive_mutex running_;  // held while work runs
};

}  // namespace emulated
}  // namespace condacc

#endif  // CONDACC_TESTS_GPU_EMULATED_RUNTIME_STREAM_QUEUE_H_
