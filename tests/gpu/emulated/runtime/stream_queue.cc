#include "tests/gpu/emulated/runtime/stream_queue.h"

#include <memory>
#include <utility>

#include "tests/gpu/emulated/runtime/device_memory.h"

namespace condacc {
namespace emulated {

StreamQueue& StreamQueue::Get() {
  static auto* const queue = new StreamQueue;
  return *queue;
}

void StreamQueue::Push(std::function<void()> work) {
  if (other_.push != nullptr) {
    const auto run = [](void* argument) {
      const std::unique_ptr<std::function<void()>> held(
          static_cast<std::function<void()>*>(argument));
      Get().Now(*held);
    };
    other_.push(run, new std::function<void()>(std::move(work)));
    return;
  }
  const std::lock_guard<std::mutex> lock(mu_);
  queue_.push_back(std::move(work));
}

void StreamQueue::Wait() {
  if (other_.wait != nullptr) return other_.wait();
  const std::lock_guard<std::recursive_mutex> running(running_);
  while (true) {
    std::function<void()> work;
    {
      const std::lock_guard<std::mutex> lock(mu_);
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    work();
  }
}

}  // namespace emulated
}  // namespace condacc

// For a program that loads this library: the memory and the stream are TensorFlow's then.
extern "C" void condacc_emulated_use_stream(void (*push)(void (*run)(void*), void* argument),
                                            void (*wait)()) {
  condacc::emulated::DeviceMemory::Get().StopTracking();
  condacc::emulated::StreamQueue::Get().UseOther({push, wait});
}
