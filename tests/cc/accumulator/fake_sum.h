// Accumulators of integers, for tests of the accumulator alone.
#ifndef CONDACC_TESTS_ACCUMULATOR_FAKE_SUM_H_
#define CONDACC_TESTS_ACCUMULATOR_FAKE_SUM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator_impl.h"
#include "gtest/gtest.h"
#include "tests/cc/accumulator/recorded_take.h"
#include "tests/cc/base/stop_point.h"

namespace condacc {

// The workspace of fake sums. Each piece of work stops at the stop, if there is one.
struct FakeWorkspace {
  explicit FakeWorkspace(StopPoint* stop = nullptr) : stop(stop) {}

  // Returns an error if the workspace has been told to refuse memory.
  Status Work() {
    if (stop != nullptr) stop->Pass();
    return fails ? Status(StatusCode::kResourceExhausted, "The test refuses memory") : Status();
  }

  StopPoint* stop;
  bool fails = false;
};

struct FakeGradient {
  int64_t number() const { return borrowed == nullptr ? owned : *borrowed; }

  int64_t owned = 0;
  const int64_t* borrowed = nullptr;  // If not null, the number is here, and must be added at once.
  bool fits = true;
  bool lacks_memory = false;          // If true, the sum has to prepare the gradient.
  std::shared_ptr<void> memory = {};  // Kept until the sum frees the gradient.
};

struct FakeOptions {
  size_t max_pending = 7;  // Fold once this many gradients are pending.
  size_t fold_ahead = 2;   // The same if a take waits that lacks only one gradient more.
};

// A sum that folds in the workspace, and finishes there. If `kPrepares`, it prepares its result
// there, and then needs no work to finish.
template <bool kPrepares>
class FakeSumOf {
 public:
  using Options = FakeOptions;
  using Gradient = FakeGradient;
  using Workspace = FakeWorkspace;
  struct Value {
    int64_t sum = 0;
    Status failure;
  };
  enum class Missing { kNothing, kMemory };
  static constexpr bool kFinishNeedsMemory = kPrepares;

  explicit FakeSumOf(const Options& options) : options_(options) {}

  Status Check(const Gradient& gradient) const {
    return gradient.fits ? Status() : Status(StatusCode::kInvalidArgument, "It does not fit");
  }
  Missing MissingFrom(const Gradient& gradient) const {
    return gradient.lacks_memory ? Missing::kMemory : Missing::kNothing;
  }
  static Status Prepare(const Options&, Missing, Workspace& workspace, Gradient* gradient) {
    gradient->lacks_memory = false;
    return workspace.Work();
  }
  Appended Append(Gradient gradient) {
    pending_.push_back(std::move(gradient));
    return pending_.back().borrowed == nullptr ? Appended::kPending : Appended::kMustAddNow;
  }
  bool WantsFold(int64_t num_missing) const {
    const size_t fold_at = num_missing == 1 ? options_.fold_ahead : options_.max_pending;
    return num_missing != 0 && pending_.size() >= fold_at;
  }
  bool IsOverfull() const { return pending_.size() >= 2 * options_.max_pending; }
  int64_t BeginFold() noexcept {
    folding_.swap(pending_);
    return static_cast<int64_t>(folding_.size());
  }
  void RunFold(Workspace& workspace) noexcept {
    has_folded_ = workspace.Work().ok();
    if (has_folded_) AddAll(&folding_);
  }
  bool EndFold() noexcept {
    if (!has_folded_) pending_.insert(pending_.begin(), folding_.begin(), folding_.end());
    folding_.clear();
    return has_folded_;
  }
  Status PrepareFinish(Workspace& workspace) {
    EXPECT_FALSE(is_prepared_);
    const Status status = workspace.Work();
    num_prepared_ = added_.size() + pending_.size();
    is_prepared_ = status.ok();
    return status;
  }
  void AbandonFinish() { is_prepared_ = false; }
  const std::vector<int64_t>& refused() const { return refused_; }
  void RemoveRefused() noexcept {}
  Value Finish(Workspace& workspace) noexcept {
    EXPECT_EQ(is_prepared_, kPrepares);
    if (kPrepares) {
      EXPECT_EQ(added_.size() + pending_.size(), num_prepared_) << "one was added in between";
    }
    is_prepared_ = false;
    const Status failure = kPrepares ? Status() : workspace.Work();
    AddAll(&pending_);
    return {sum_, failure};
  }
  void Clear() noexcept {
    pending_.clear();
    added_.clear();
    sum_ = 0;
  }

 private:
  void AddAll(std::vector<Gradient>* gradients) {
    for (Gradient& gradient : *gradients) {
      sum_ += gradient.number();
      added_.push_back(std::move(gradient));
    }
    gradients->clear();
  }

  const Options& options_;
  std::vector<Gradient> pending_, folding_, added_;
  int64_t sum_ = 0;  // The sum of `added_`.
  bool has_folded_ = false;
  bool is_prepared_ = false;
  size_t num_prepared_ = 0;
  std::vector<int64_t> refused_;  // Always empty.
};

using FakeAccumulator = Accumulator<FakeSumOf</*kPrepares=*/false>>;
using PreparingAccumulator = Accumulator<FakeSumOf</*kPrepares=*/true>>;
using FakeTake = RecordedTakeOf<FakeAccumulator>;
using PreparingTake = RecordedTakeOf<PreparingAccumulator>;

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

// The options of an accumulator named "tested".
template <class Tested = FakeAccumulator>
typename Tested::Options TestedOptions() {
  typename Tested::Options options;
  options.name = "tested";
  return options;
}

template <class TakenFrom>
void ExpectServed(const RecordedTakeOf<TakenFrom>& take, int64_t sum) {
  ASSERT_EQ(take.num_completions(), 1);
  ASSERT_TRUE(take.status().ok()) << take.status().message();
  EXPECT_EQ(take.value().sum, sum);
}

}  // namespace condacc

#endif  // CONDACC_TESTS_ACCUMULATOR_FAKE_SUM_H_
