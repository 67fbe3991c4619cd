// Compares random calls, one at a time, with a simple model of an accumulator.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "cc/core/accumulator/accumulator.h"
#include "gtest/gtest.h"
#include "tests/cc/accumulator/fake_sum.h"

namespace condacc {
namespace {

enum class Outcome { kNone, kServed, kInvalid, kCancelled, kOutOfRange };

constexpr int64_t kNobody = -1;  // The contributor of a gradient that names none.

struct ModelTake {
  int64_t num_required;
  std::optional<int64_t> step;
  bool cancelled = false;
  Outcome outcome = Outcome::kNone;
  int64_t value = 0;
};

class Model {
 public:
  ApplyOutcome Apply(int64_t local_step, int64_t value, int64_t contributor) {
    if (local_step < step_) {
      ++num_dropped_;
      return ApplyOutcome::kStale;
    }
    if (contributor != kNobody) {
      if (local_step > step_) return ApplyOutcome::kAhead;
      if (!contributors_.insert(contributor).second) return ApplyOutcome::kDuplicate;
    }
    ++count_;
    sum_ += value;
    Serve();
    return ApplyOutcome::kAdded;
  }

  int64_t Reset(int64_t step) {
    step_ = step;
    sum_ = 0;
    contributors_.clear();
    return std::exchange(count_, 0);
  }

  // Returns false if the take would have to wait and `may_wait` is false.
  bool Request(ModelTake* take, bool may_wait) {
    if (take->num_required < 1) {
      take->outcome = Outcome::kInvalid;
    } else if (take->cancelled) {
      take->outcome = Outcome::kCancelled;
    } else if (!may_wait && (!queue_.empty() || count_ < take->num_required ||
                             take->step.value_or(step_) != step_)) {
      return false;
    } else {
      queue_.push_back(take);
      Serve();
    }
    return true;
  }

  void Cancel(ModelTake* take) {
    take->cancelled = true;
    const auto found = std::find(queue_.begin(), queue_.end(), take);
    if (found == queue_.end()) return;
    queue_.erase(found);
    take->outcome = Outcome::kCancelled;
    Serve();
  }

  int64_t SetStep(int64_t step) { return std::exchange(step_, step); }

  int64_t count() const { return count_; }
  int64_t step() const { return step_; }
  int64_t num_dropped() const { return num_dropped_; }

 private:
  void Serve() {
    while (!queue_.empty() && count_ >= queue_.front()->num_required) {
      ModelTake* const take = queue_.front();
      queue_.pop_front();
      if (step_ == std::numeric_limits<int64_t>::max()) {
        take->outcome = Outcome::kOutOfRange;
        continue;
      }
      take->outcome = Outcome::kServed;
      take->value = std::exchange(sum_, 0);
      count_ = 0;
      contributors_.clear();
      ++step_;
    }
  }

  int64_t count_ = 0, sum_ = 0, step_ = 0, num_dropped_ = 0;
  std::deque<ModelTake*> queue_;
  std::set<int64_t> contributors_;
};

// The parameter tells whether the sums are prepared.
class ModelTest : public testing::TestWithParam<bool> {
 protected:
  void Run() {
    SCOPED_TRACE(testing::Message() << "seed " << seed_);
    for (int i = 0; i < 20000 && !HasFatalFailure(); ++i) {
      CallAtRandom();
      if (i % 25 == 0) Compare();
    }
    Compare();
    for (const FakeTake& take : takes_) accumulator_.Cancel(take.ptr(), workspace_);
  }

  void CallAtRandom() {
    switch (random_() % 17) {
      case 0:
        return SetStep();
      case 16:
        return random_() % 2 == 0 ? Reset() : SetStep();
      case 1:
      case 2:
        return Request(/*may_wait=*/true);
      case 3:
        return Request(/*may_wait=*/false);
      case 4:
        return Cancel();
      default:
        return Apply();
    }
  }

  void Apply() {
    const int64_t lag = random_() % 4 == 0 ? 1 : 0;
    const bool is_ahead = random_() % 8 == 0 && model_.step() < 10;
    const int64_t local_step = model_.step() - std::min(lag, model_.step()) + (is_ahead ? 1 : 0);
    const int64_t contributor = random_() % 2 == 0 ? kNobody : static_cast<int64_t>(random_() % 12);
    const int64_t value = static_cast<int64_t>(random_()) - (int64_t{1} << 31);
    const ApplyResult result = accumulator_.Apply(
        local_step, random_() % 3 == 0 ? Borrowed(&value) : Owned(value), workspace_,
        contributor == kNobody ? std::nullopt : std::optional<int64_t>(contributor));
    ASSERT_TRUE(result.ok());
    EXPECT_EQ(result.outcome(), model_.Apply(local_step, value, contributor));
  }

  void Request(bool may_wait) {
    const int64_t num_required = random_() % 8 == 0 ? 0 : 1 + static_cast<int64_t>(random_() % 20);
    std::optional<int64_t> step;
    if (!may_wait && random_() % 2 == 0) step = model_.step() + (random_() % 4 == 0 ? -1 : 0);
    const FakeTake& take = takes_.emplace_back(num_required, step);
    ModelTake* const model_take = &model_takes_.emplace_back(ModelTake{num_required, step});
    if (random_() % 8 == 0) {
      accumulator_.Cancel(take.ptr(), workspace_);
      model_.Cancel(model_take);
    }
    if (may_wait) {
      accumulator_.Request(take.ptr(), nullptr, workspace_);
      model_.Request(model_take, true);
    } else {
      EXPECT_EQ(accumulator_.TryServe(take.ptr(), workspace_), model_.Request(model_take, false));
    }
  }

  // Cancels one of the latest takes, because most older ones are done.
  void Cancel() {
    if (takes_.empty()) return;
    const size_t back = random_() % std::min<size_t>(takes_.size(), 6);
    const size_t index = takes_.size() - 1 - back;
    accumulator_.Cancel(takes_[index].ptr(), workspace_);
    model_.Cancel(&model_takes_[index]);
  }

  int64_t RandomStep() {
    return random_() % 4 == 0 ? std::numeric_limits<int64_t>::max()
                              : static_cast<int64_t>(random_() % 10);
  }
  void SetStep() {
    const int64_t step = RandomStep();
    EXPECT_EQ(accumulator_.SetGlobalStep(step), model_.SetStep(step));
  }
  void Reset() {
    const int64_t step = RandomStep();
    EXPECT_EQ(accumulator_.Reset(step), model_.Reset(step));
  }

  void Compare() {
    ASSERT_EQ(accumulator_.num_accumulated(), model_.count());
    ASSERT_EQ(accumulator_.global_step(), model_.step());
    ASSERT_EQ(accumulator_.num_dropped(), model_.num_dropped());
    for (size_t i = 0; i < takes_.size(); ++i) {
      ASSERT_EQ(OutcomeOf(takes_[i]), model_takes_[i].outcome) << i;
      if (model_takes_[i].outcome != Outcome::kServed) continue;
      ASSERT_EQ(takes_[i].sum(), model_takes_[i].value);
    }
  }

  static Outcome OutcomeOf(const FakeTake& take) {
    EXPECT_LE(take.num_completions(), 1);
    if (!take.is_done()) return Outcome::kNone;
    switch (take.status().code()) {
      case StatusCode::kOk:
        return Outcome::kServed;
      case StatusCode::kCancelled:
        return Outcome::kCancelled;
      case StatusCode::kOutOfRange:
        return Outcome::kOutOfRange;
      default:
        return Outcome::kInvalid;
    }
  }

  const uint32_t seed_ = std::random_device()();
  std::mt19937 random_{seed_};
  FakeWorkspace workspace_;
  Accumulator accumulator_{TestedOptions(GetParam())};
  Model model_;
  std::deque<FakeTake> takes_;
  std::deque<ModelTake> model_takes_;
};

TEST_P(ModelTest, RandomCallsDoWhatTheModelDoes) { Run(); }
INSTANTIATE_TEST_SUITE_P(Sums, ModelTest, testing::Bool());

}  // namespace
}  // namespace condacc
