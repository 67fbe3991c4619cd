// Gradients and takes for tests of the accumulator.
#ifndef CONDACC_TESTS_ACCUMULATOR_ACCUMULATOR_SUPPORT_H_
#define CONDACC_TESTS_ACCUMULATOR_ACCUMULATOR_SUPPORT_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/base/element_type.h"
#include "cc/core/base/float16.h"
#include "cc/core/base/shape.h"
#include "cc/core/dense/dense_sum.h"
#include "tests/cc/base/element_type_of.h"
#include "tests/cc/dense/test_buffer.h"

namespace condacc {

// The number of elements from which the accumulator adds gradients early.
constexpr size_t kBigSize = 1 << 16;
// The number of gradients that are pending, beside the first one, when a fold is due.
constexpr int kFoldAt = 7;

template <typename T>
Accumulator::Options OptionsOf(bool mean, HoldBudget* budget = &HoldBudget::Unlimited()) {
  Accumulator::Options options;
  options.name = "tested";
  options.new_sum = NewDenseSum;
  options.sum.type = kTypeOf<T>;
  options.sum.reduction = mean ? Reduction::kMean : Reduction::kSum;
  options.sum.budget = budget;
  options.sum.small_bytes = 0;  // Tests hold back gradients of a few elements.
  return options;
}

template <typename T>
Gradient Owned(const std::vector<T>& values) {
  Gradient gradient;
  gradient.values = TestBuffer::Owning(values.size() * sizeof(T));
  if (!values.empty()) {
    std::memcpy(gradient.values.data(), values.data(), values.size() * sizeof(T));
  }
  gradient.shape = Shape::Of({static_cast<int64_t>(values.size())});
  gradient.owned = true;
  return gradient;
}

// `values` must outlive its use by the accumulator.
template <typename T>
Gradient Borrowed(std::vector<T>* values) {
  Gradient gradient;
  gradient.values = TestBuffer::Borrowing(values->data());
  gradient.shape = Shape::Of({static_cast<int64_t>(values->size())});
  return gradient;
}

// A take that records how it ended.
class RecordedTake {
 public:
  explicit RecordedTake(int64_t num_required, std::optional<int64_t> global_step = std::nullopt) {
    outcome_->message.reserve(200);  // A completion then needs no memory.
    take_ = std::make_shared<PendingTake>(
        num_required,
        [outcome = outcome_](const Status& status, Value* value) {
          std::lock_guard<std::mutex> lock(outcome->mutex);
          ++outcome->num_completions;
          outcome->code = status.code();
          outcome->message = status.message();
          if (value != nullptr) outcome->value = std::move(*value);
          outcome->changed.notify_all();
        },
        global_step);
  }

  const Accumulator::TakePtr& ptr() const { return take_; }

  void Await() const {
    std::unique_lock<std::mutex> lock(outcome_->mutex);
    outcome_->changed.wait(lock, [this] { return outcome_->num_completions > 0; });
  }
  int num_completions() const {
    std::lock_guard<std::mutex> lock(outcome_->mutex);
    return outcome_->num_completions;
  }
  bool is_done() const { return num_completions() > 0; }
  Status status() const {
    std::lock_guard<std::mutex> lock(outcome_->mutex);
    return Status(outcome_->code, outcome_->message);
  }
  bool is_served() const { return is_done() && status().ok(); }
  // The result of the take, if it was served.
  const void* data() const { return outcome_->value.values.data(); }
  const Shape& shape() const { return outcome_->value.shape; }
  template <typename T>
  std::vector<T> values() const {
    std::vector<T> values(static_cast<size_t>(shape().num_elements()));
    if (!values.empty()) std::memcpy(values.data(), data(), values.size() * sizeof(T));
    return values;
  }

 private:
  struct Outcome {
    std::mutex mutex;
    std::condition_variable changed;
    int num_completions = 0;
    StatusCode code = StatusCode::kOk;
    std::string message;
    Value value;
  };
  std::shared_ptr<Outcome> outcome_ = std::make_shared<Outcome>();
  Accumulator::TakePtr take_;
};

inline void AwaitAccumulated(const Accumulator& accumulator, int64_t count) {
  while (accumulator.num_accumulated() < count) std::this_thread::yield();
}

}  // namespace condacc

#endif  // CONDACC_TESTS_ACCUMULATOR_ACCUMULATOR_SUPPORT_H_
