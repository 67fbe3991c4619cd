// A take that records how it ended.
#ifndef CONDACC_TESTS_ACCUMULATOR_RECORDED_TAKE_H_
#define CONDACC_TESTS_ACCUMULATOR_RECORDED_TAKE_H_

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/base/status.h"

namespace condacc {

// The record outlives the object if the take does. A completion needs no memory, for tests in which
// there is none. Thread-safe.
class RecordedTake {
 public:
  explicit RecordedTake(int64_t num_required, std::optional<int64_t> global_step = std::nullopt) {
    record_->message.reserve(200);
    take_ = std::make_shared<PendingTake>(
        num_required,
        [record = record_](const Status& status, Value* value) {
          std::lock_guard<std::mutex> lock(record->mutex);
          ++record->num_completions;
          record->code = status.code();
          record->message = status.message();
          if (value != nullptr) record->value = std::move(*value);
          record->changed.notify_all();
        },
        global_step);
  }

  const Accumulator::TakePtr& ptr() const { return take_; }

  void Await() const {
    std::unique_lock<std::mutex> lock(record_->mutex);
    record_->changed.wait(lock, [this] { return record_->num_completions > 0; });
  }
  int num_completions() const {
    std::lock_guard<std::mutex> lock(record_->mutex);
    return record_->num_completions;
  }
  bool is_done() const { return num_completions() > 0; }
  Status status() const {
    std::lock_guard<std::mutex> lock(record_->mutex);
    return Status(record_->code, record_->message);
  }
  bool is_served() const { return is_done() && status().ok(); }
  // The result of a take that was served.
  const Value& value() const { return record_->value; }

 private:
  struct Record {
    std::mutex mutex;
    std::condition_variable changed;
    int num_completions = 0;
    StatusCode code = StatusCode::kOk;
    std::string message;
    Value value;
  };
  const std::shared_ptr<Record> record_ = std::make_shared<Record>();
  Accumulator::TakePtr take_;
};

// Waits until an accumulator has this many gradients.
inline void AwaitAccumulated(const Accumulator& accumulator, int64_t count) {
  while (accumulator.num_accumulated() < count) std::this_thread::yield();
}

}  // namespace condacc

#endif  // CONDACC_TESTS_ACCUMULATOR_RECORDED_TAKE_H_
