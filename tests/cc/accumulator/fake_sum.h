// Accumulators of integers, for tests of the accumulator alone.
#ifndef CONDACC_TESTS_ACCUMULATOR_FAKE_SUM_H_
#define CONDACC_TESTS_ACCUMULATOR_FAKE_SUM_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "gtest/gtest.h"
#include "tests/cc/accumulator/recorded_take.h"
#include "tests/cc/base/stop_point.h"

namespace condacc {

// The workspace of fake sums. Each piece of work stops at the stop, if there is one.
class FakeWorkspace : public Workspace {
 public:
  explicit FakeWorkspace(StopPoint* stop = nullptr) : stop_(stop) {}

  void Work() {
    if (stop_ != nullptr) stop_->Pass();
  }

 private:
  // Fake sums do not call these.
  Status Allocate(ElementType, const Shape&, Buffer*) override { return Status(); }
  void Add(const DenseAddArgs&) override {}
  Status Clear(void*, size_t) override { return Status(); }
  Status Copy(const void*, size_t, void*) override { return Status(); }
  Status Widen(const int32_t*, size_t, int64_t*) override { return Status(); }

  StopPoint* const stop_;
};

// A number that stands for a gradient.
struct FakeGradient {
  int64_t number() const { return borrowed == nullptr ? owned : *borrowed; }

  // Returns a gradient whose values are a copy of this object.
  operator Gradient() const {
    auto* const copy = new FakeGradient(*this);
    Gradient gradient;
    gradient.values =
        Buffer(copy, copy, [](void* owner) { delete static_cast<FakeGradient*>(owner); });
    return gradient;
  }
  static FakeGradient& In(const Gradient& gradient) {
    return *static_cast<FakeGradient*>(gradient.values.data());
  }

  int64_t owned = 0;
  const int64_t* borrowed = nullptr;  // If not null, the number is here, and must be added at once.
  std::shared_ptr<void> memory = {};  // Kept until the sum frees the gradient.
};

// A sum that folds in the workspace, and finishes there. If `prepares`, it prepares its result
// there, and then needs no work to finish. The shape of its value is the sum.
class FakeSum final : public RoundSum {
 public:
  FakeSum(const SumOptions& options, bool prepares) : RoundSum(options), prepares_(prepares) {}

  // The size of the last result that the last call of Advise() was given.
  static inline std::atomic<size_t> last_result_bytes{0};

  Status Check(const Gradient&, const Shape* /*early*/) const override { return Status(); }
  Missing MissingFrom(const Gradient&, bool /*is_early*/) const override {
    return Missing::kNothing;
  }
  Status Supply(Missing, Workspace&, Gradient*) const override { return Status(); }
  Appended Append(Gradient&& gradient) override {
    pending_.push_back(std::move(gradient));
    const bool is_borrowed = FakeGradient::In(pending_.back()).borrowed != nullptr;
    return is_borrowed ? Appended::kMustAddNow : Appended::kPending;
  }
  Advice Advise(const NextTake& next_take) const override {
    last_result_bytes = next_take.last_result_bytes;
    if (pending_.size() >= 2 * options_.max_pending) return Advice::kMustFold;
    const bool lacks_one = next_take.is_waiting && next_take.num_missing == 1;
    const size_t fold_at = lacks_one ? 2 : options_.max_pending;
    return next_take.num_missing != 0 && pending_.size() >= fold_at ? Advice::kFold
                                                                    : Advice::kLeave;
  }
  int64_t BeginFold() noexcept override {
    folding_.swap(pending_);
    return static_cast<int64_t>(folding_.size());
  }
  void RunFold(Workspace& workspace) noexcept override {
    Work(workspace);
    AddAll(&folding_);
  }
  bool EndFold() noexcept override { return true; }
  bool needs_preparation() const override { return prepares_; }
  Status PrepareFinish(std::vector<Gradient*> /*early*/, Workspace& workspace) override {
    if (!prepares_) return Status();
    EXPECT_FALSE(is_prepared_);
    Work(workspace);
    num_prepared_ = added_.size() + pending_.size();
    is_prepared_ = true;
    return Status();
  }
  const Shape& value_shape() const override { return value_shape_; }
  void AbandonFinish() override { is_prepared_ = false; }
  Value Finish(Workspace& workspace) noexcept override {
    EXPECT_EQ(is_prepared_, prepares_);
    if (prepares_) {
      EXPECT_EQ(added_.size() + pending_.size(), num_prepared_) << "one was added in between";
    }
    is_prepared_ = false;
    if (!prepares_) Work(workspace);
    AddAll(&pending_);
    return {Buffer(), Buffer(), Shape::Of({sum_}), Status()};
  }
  void Clear() noexcept override {
    pending_.clear();
    added_.clear();
    sum_ = 0;
  }

 private:
  static void Work(Workspace& workspace) { static_cast<FakeWorkspace&>(workspace).Work(); }
  void AddAll(std::vector<Gradient>* gradients) {
    for (Gradient& gradient : *gradients) {
      sum_ += FakeGradient::In(gradient).number();
      added_.push_back(std::move(gradient));
    }
    gradients->clear();
  }

  const bool prepares_;
  std::vector<Gradient> pending_, folding_, added_;
  const Shape value_shape_ = Shape::Of({1});
  int64_t sum_ = 0;  // The sum of `added_`.
  bool is_prepared_ = false;
  size_t num_prepared_ = 0;
};

// A take from an accumulator of fake sums.
class FakeTake : public RecordedTake {
 public:
  using RecordedTake::RecordedTake;

  // The result of the take, if it was served.
  int64_t sum() const { return value().shape.dim(0); }
};

inline FakeGradient Owned(int64_t number) {
  FakeGradient gradient;
  gradient.owned = number;
  return gradient;
}

// `number` must outlive its use by the accumulator.
inline FakeGradient Borrowed(const int64_t* number) {
  FakeGradient gradient;
  gradient.borrowed = number;
  return gradient;
}

// The options of an accumulator named "tested", whose sums are prepared or not.
inline Accumulator::Options TestedOptions(bool prepares = false) {
  Accumulator::Options options;
  options.new_sum = [](const SumOptions& sum) -> std::unique_ptr<RoundSum> {
    return std::make_unique<FakeSum>(sum, /*prepares=*/false);
  };
  if (prepares) {
    options.new_sum = [](const SumOptions& sum) -> std::unique_ptr<RoundSum> {
      return std::make_unique<FakeSum>(sum, /*prepares=*/true);
    };
  }
  return options;
}

inline void ExpectServed(const FakeTake& take, int64_t sum) {
  ASSERT_EQ(take.num_completions(), 1);
  ASSERT_TRUE(take.status().ok()) << take.status().message();
  EXPECT_EQ(take.sum(), sum);
}

}  // namespace condacc

#endif  // CONDACC_TESTS_ACCUMULATOR_FAKE_SUM_H_
