// Tests of sums whose result is prepared before the take, without the lock.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "gtest/gtest.h"
#include "tests/cc/base/stop_point.h"
#include "tests/cc/dense/test_buffer.h"

namespace condacc {
namespace {

// The workspace in which results are prepared. It stops at the stop, if there is one, and fails if
// it is told to.
struct Workshop : TestWorkspace {
  StopPoint* stop = nullptr;
  bool fails = false;
  std::atomic<bool> is_in_use{false};
};

// A sum of the gradients' numbers, which is the shape of its value.
class PreparedSum : public RoundSum {
 public:
  Status Check(const Gradient&) const override { return Status(); }
  Missing MissingFrom(const Gradient&) const override { return Missing::kNothing; }
  Status Prepare(Missing, Workspace&, Gradient*) const override { return Status(); }
  Appended Append(Gradient&& gradient) override {
    sum_ += gradient.number;
    return Appended::kInSum;
  }
  bool WantsFold(int64_t) const override { return false; }
  bool IsOverfull() const override { return false; }
  int64_t BeginFold() noexcept override { return 0; }
  void RunFold(Workspace&) override {}
  bool EndFold() noexcept override { return true; }

  bool finish_needs_memory() const override { return true; }
  Status PrepareFinish(Workspace& workspace) override {
    auto& workshop = static_cast<Workshop&>(workspace);
    workshop.is_in_use = true;
    if (workshop.stop != nullptr) workshop.stop->Pass();
    workshop.is_in_use = false;
    if (workshop.fails) return Status(StatusCode::kResourceExhausted, "The workshop is closed");
    result_ = sum_;
    is_prepared_ = true;
    return Status();
  }
  void AbandonFinish() override { is_prepared_ = false; }
  Value Finish(Workspace&) override {
    EXPECT_TRUE(is_prepared_);
    EXPECT_EQ(result_, sum_) << "something was added in between";
    is_prepared_ = false;
    return {Buffer(), Buffer(), Shape::Of({sum_}), Status()};
  }
  void Clear() noexcept override { sum_ = 0; }

 private:
  int64_t sum_ = 0;
  int64_t result_ = 0;
  bool is_prepared_ = false;
};

Gradient GradientOf(int64_t number) {
  Gradient gradient;
  gradient.number = number;
  return gradient;
}

struct Outcome {
  int num_completions = 0;
  StatusCode code = StatusCode::kOk;
  int64_t value = 0;
  bool workshop_was_in_use = false;
};

class PreparingTest : public testing::Test {
 protected:
  static Accumulator::Options Options() {
    Accumulator::Options options;
    options.name = "tested";
    options.new_sum = [](const SumOptions&) -> std::unique_ptr<RoundSum> {
      return std::make_unique<PreparedSum>();
    };
    return options;
  }

  // `workshop` is the workspace that prepares the result if the take is ready when it is requested.
  static Accumulator::TakePtr NewTake(int64_t num_required, Outcome* outcome,
                                      const Workshop* workshop = nullptr) {
    return std::make_shared<PendingTake>(
        num_required, [outcome, workshop](const Status& status, Value* value) {
          ++outcome->num_completions;
          outcome->code = status.code();
          if (value != nullptr) outcome->value = value->shape.dim(0);
          outcome->workshop_was_in_use = workshop != nullptr && workshop->is_in_use;
        });
  }

  bool Apply(int64_t number, int64_t local_step = 0) {
    const ApplyResult result = accumulator_.Apply(local_step, GradientOf(number), plain_);
    EXPECT_TRUE(result.ok());
    return result.is_added();
  }

  // Requests a take of two gradients that have been added, and stops while its result is prepared.
  void StartPreparing() {
    Apply(1);
    Apply(2);
    stopping_.stop = &stop_;
    take_ = NewTake(2, &outcome_, &stopping_);
    request_ =
        std::async(std::launch::async, [this] { accumulator_.Request(take_, nullptr, stopping_); });
    stop_.AwaitArrivals(1);
  }
  void EndPreparing() {
    stop_.Open();
    request_.get();
  }

  StopPoint stop_;
  Workshop plain_, stopping_;
  Outcome outcome_;
  Accumulator::TakePtr take_;
  std::future<void> request_;
  Accumulator accumulator_{Options()};
};

TEST_F(PreparingTest, AGradientThatComesMeanwhileBelongsToTheNextRound) {
  StartPreparing();
  auto apply = std::async(std::launch::async, [this] { return Apply(4, 1); });
  EXPECT_EQ(apply.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  EXPECT_EQ(accumulator_.num_accumulated(), 2);
  EndPreparing();
  EXPECT_TRUE(apply.get());
  EXPECT_EQ(outcome_.value, 3);
  EXPECT_EQ(accumulator_.num_accumulated(), 1);
}

TEST_F(PreparingTest, AGradientThatIsStaleOnceTheRoundIsTakenIsDropped) {
  StartPreparing();
  auto apply = std::async(std::launch::async, [this] { return Apply(4, 0); });
  EXPECT_EQ(apply.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  EndPreparing();
  EXPECT_FALSE(apply.get());
  EXPECT_EQ(outcome_.value, 3);
  EXPECT_EQ(accumulator_.num_dropped(), 1);
}

// The take is not completed at once, because its workspace, which may be freed then, is in use.
TEST_F(PreparingTest, ATakeThatIsCancelledMeanwhileEndsAfterwards) {
  StartPreparing();
  accumulator_.Cancel(take_, plain_);
  EndPreparing();
  EXPECT_EQ(outcome_.num_completions, 1);
  EXPECT_EQ(outcome_.code, StatusCode::kCancelled);
  EXPECT_FALSE(outcome_.workshop_was_in_use);
  EXPECT_EQ(accumulator_.num_accumulated(), 2);
  EXPECT_EQ(accumulator_.global_step(), 0);
  EXPECT_TRUE(Apply(4));
  Outcome next;
  accumulator_.Request(NewTake(1, &next), nullptr, plain_);
  EXPECT_EQ(next.value, 7);
}

TEST_F(PreparingTest, ATakeBehindOneThatIsCancelledMeanwhileIsServed) {
  StartPreparing();
  Outcome behind;
  accumulator_.Request(NewTake(1, &behind), nullptr, plain_);
  accumulator_.Cancel(take_, plain_);
  EXPECT_EQ(behind.num_completions, 0);
  EndPreparing();
  EXPECT_EQ(outcome_.code, StatusCode::kCancelled);
  EXPECT_EQ(behind.num_completions, 1);
  EXPECT_EQ(behind.value, 3);
  EXPECT_EQ(accumulator_.global_step(), 1);
}

TEST_F(PreparingTest, ATakeBehindCanBeCancelledMeanwhile) {
  StartPreparing();
  Outcome behind;
  const auto take = NewTake(1, &behind);
  accumulator_.Request(take, nullptr, plain_);
  accumulator_.Cancel(take, plain_);
  EXPECT_EQ(behind.code, StatusCode::kCancelled);
  EndPreparing();
  EXPECT_EQ(outcome_.value, 3);
}

TEST_F(PreparingTest, NoTakeIsReadyMeanwhile) {
  StartPreparing();
  Outcome tried;
  EXPECT_FALSE(accumulator_.TryServe(NewTake(1, &tried), plain_));
  EndPreparing();
  EXPECT_EQ(tried.num_completions, 0);
  EXPECT_EQ(outcome_.value, 3);
}

TEST_F(PreparingTest, TheStepThatIsSetMeanwhileIsTheOneThatMovesOn) {
  StartPreparing();
  accumulator_.SetGlobalStep(10);
  EndPreparing();
  EXPECT_EQ(outcome_.value, 3);
  EXPECT_EQ(accumulator_.global_step(), 11);
}

TEST_F(PreparingTest, TheLastStepThatIsSetMeanwhileCannotMoveOn) {
  StartPreparing();
  accumulator_.SetGlobalStep(std::numeric_limits<int64_t>::max());
  EndPreparing();
  EXPECT_EQ(outcome_.num_completions, 1);
  EXPECT_EQ(outcome_.code, StatusCode::kOutOfRange);
  EXPECT_EQ(accumulator_.global_step(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(accumulator_.num_accumulated(), 2);
}

TEST_F(PreparingTest, ATakeWhoseResultCannotBeMadeFailsAndTheGradientsStay) {
  stopping_.fails = true;
  StartPreparing();
  EndPreparing();
  EXPECT_EQ(outcome_.num_completions, 1);
  EXPECT_EQ(outcome_.code, StatusCode::kResourceExhausted);
  EXPECT_EQ(accumulator_.num_accumulated(), 2);
  EXPECT_EQ(accumulator_.global_step(), 0);
  Outcome next;
  EXPECT_TRUE(accumulator_.TryServe(NewTake(2, &next), plain_));
  EXPECT_EQ(next.value, 3);
}

}  // namespace
}  // namespace condacc
