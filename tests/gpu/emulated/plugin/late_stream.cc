#include "tests/gpu/emulated/plugin/late_stream.h"

#include <chrono>
#include <cstdlib>
#include <thread>
#include <utility>

namespace condacc {
namespace emulated {

int64_t Event::Record() {
  const std::lock_guard<std::mutex> lock(mu_);
  return ++num_recorded_;
}

void Event::Complete(int64_t number) {
  const std::lock_guard<std::mutex> lock(mu_);
  num_complete_ = number;
  changed_.notify_all();
}

int64_t Event::num_recorded() {
  const std::lock_guard<std::mutex> lock(mu_);
  return num_recorded_;
}

bool Event::IsComplete() {
  const std::lock_guard<std::mutex> lock(mu_);
  return num_complete_ >= num_recorded_;
}

void Event::WaitFor(int64_t number) {
  std::unique_lock<std::mutex> lock(mu_);
  changed_.wait(lock, [&] { return num_complete_ >= number; });
}

LateStream::LateStream(unsigned seed) : random_(seed) {
  std::thread([this] { Loop(); }).detach();
}

void LateStream::Push(std::function<void()> work) {
  const std::lock_guard<std::mutex> lock(mu_);
  queue_.push_back(std::move(work));
  changed_.notify_all();
}

void LateStream::Wait() {
  std::unique_lock<std::mutex> lock(mu_);
  changed_.wait(lock, [this] { return queue_.empty() && !is_busy_; });
}

void LateStream::Record(Event* event) {
  const int64_t number = event->Record();
  Push([=] { event->Complete(number); });
}

void LateStream::WaitFor(Event* event) {
  const int64_t number = event->num_recorded();
  Push([=] { event->WaitFor(number); });
}

void LateStream::Loop() {
  while (true) {
    std::function<void()> work;
    {
      std::unique_lock<std::mutex> lock(mu_);
      is_busy_ = false;
      changed_.notify_all();
      changed_.wait(lock, [this] { return !queue_.empty(); });
      work = std::move(queue_.front());
      queue_.pop_front();
      is_busy_ = true;
    }
    BeLate();
    work();
  }
}

void LateStream::BeLate() {
  static const char* const text = std::getenv("EMULATED_DELAY_US");
  static const long max_delay = text == nullptr ? 1000 : std::atol(text);
  if (max_delay <= 0 || random_() % 4 != 0) return;
  std::this_thread::sleep_for(std::chrono::microseconds(random_() % max_delay));
}

}  // namespace emulated
}  // namespace condacc
