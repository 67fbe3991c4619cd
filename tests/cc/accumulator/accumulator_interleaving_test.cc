// Tests of calls that come while another call is in the middle of adding.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "gtest/gtest.h"
#include "tests/cc/accumulator/accumulator_support.h"
#include "tests/cc/dense/stopping_workspace.h"

namespace condacc {
namespace {

constexpr size_t kSize = 16;

std::vector<float> Ones() { return std::vector<float>(kSize, 1.0f); }

// An accumulator with a call, on a thread of its own, that has stopped in the middle of a fold.
class MidFold : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < kFoldAt; ++i) EXPECT_TRUE(ApplyOwned());
    folder_ = std::async(std::launch::async, [this] { return Apply(Owned(Ones()), stopping_); });
    stop_.AwaitArrivals(1);
    ASSERT_EQ(accumulator_.num_accumulated(), kFoldAt + 1);
  }

  bool Apply(Gradient gradient, TestWorkspace& workspace, int64_t local_step = 0) {
    const ApplyResult result = accumulator_.Apply(local_step, std::move(gradient), workspace);
    EXPECT_TRUE(result.ok());
    return result.is_added();
  }
  bool ApplyOwned() { return Apply(Owned(Ones()), plain_); }

  std::future<bool> ApplyOnThread(Gradient gradient) {
    return std::async(std::launch::async, [this, gradient = std::move(gradient)]() mutable {
      TestWorkspace workspace;
      return Apply(std::move(gradient), workspace);
    });
  }

  static bool IsWaiting(const std::future<bool>& call) {
    return call.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout;
  }

  void ExpectTaken(int count) {
    RecordedTake take(count);
    ASSERT_TRUE(accumulator_.TryServe(take.ptr(), plain_));
    ASSERT_TRUE(take.is_served());
    EXPECT_EQ(take.values<float>(), std::vector<float>(kSize, static_cast<float>(count)));
    EXPECT_EQ(accumulator_.num_accumulated(), 0);
  }

  static constexpr size_t kBudget = 1 << 20;

  HoldBudget budget_{kBudget};
  StopPoint stop_;
  TestWorkspace plain_;
  StoppingWorkspace stopping_{&stop_};
  Accumulator accumulator_{OptionsOf<float>(/*mean=*/false, &budget_)};
  std::future<bool> folder_;
};

TEST_F(MidFold, TheWorkerFinishesATakeThatComesDuringItsFold) {
  RecordedTake take(kFoldAt + 1);
  accumulator_.Request(take.ptr(), nullptr, plain_);
  EXPECT_FALSE(take.is_done());
  EXPECT_EQ(accumulator_.num_accumulated(), 0);
  EXPECT_EQ(accumulator_.global_step(), 1);
  stop_.Open();
  EXPECT_TRUE(folder_.get());
  ASSERT_TRUE(take.is_served());
  EXPECT_EQ(take.values<float>(), std::vector<float>(kSize, kFoldAt + 1));
}

// There are more gradients than the fold itself adds, so that its operands must not move.
TEST_F(MidFold, ManyOwnedGradientsAreAppendedMeanwhile) {
  constexpr int kMore = 12;
  for (int i = 0; i < kMore; ++i) EXPECT_TRUE(ApplyOwned());
  stop_.Open();
  EXPECT_TRUE(folder_.get());
  ExpectTaken(kFoldAt + 1 + kMore);
}

TEST_F(MidFold, WhoBringsTooManyWaitsForTheFold) {
  for (int i = 1; i < 2 * kFoldAt; ++i) EXPECT_TRUE(ApplyOwned());
  auto waiting = ApplyOnThread(Owned(Ones()));
  auto waiting_too = ApplyOnThread(Owned(Ones()));
  AwaitAccumulated(accumulator_, 3 * kFoldAt + 2);
  EXPECT_TRUE(IsWaiting(waiting));
  EXPECT_TRUE(IsWaiting(waiting_too));
  stop_.Open();
  EXPECT_TRUE(folder_.get());
  EXPECT_TRUE(waiting.get());
  EXPECT_TRUE(waiting_too.get());
  EXPECT_EQ(budget_.num_held(), 0u);
  ExpectTaken(3 * kFoldAt + 2);
}

TEST_F(MidFold, WhoExceedsTheBudgetWaitsForTheFold) {
  budget_.Add(kBudget);
  EXPECT_TRUE(ApplyOwned()) << "one may be pending";
  auto waiting = ApplyOnThread(Owned(Ones()));
  AwaitAccumulated(accumulator_, kFoldAt + 3);
  EXPECT_TRUE(IsWaiting(waiting));
  stop_.Open();
  EXPECT_TRUE(folder_.get());
  EXPECT_TRUE(waiting.get());
  EXPECT_EQ(budget_.num_held(), kBudget);
  ExpectTaken(kFoldAt + 3);
}

TEST_F(MidFold, ABorrowedGradientWaitsUntilItIsAdded) {
  std::vector<float> values = Ones();
  auto borrowed = ApplyOnThread(Borrowed(&values));
  AwaitAccumulated(accumulator_, kFoldAt + 2);
  EXPECT_TRUE(IsWaiting(borrowed));
  stop_.Open();
  EXPECT_TRUE(borrowed.get());
  values.assign(kSize, -1e9f);
  EXPECT_TRUE(folder_.get());
  ExpectTaken(kFoldAt + 2);
}

TEST_F(MidFold, TheWorkerAddsABorrowedGradientOfATakenRound) {
  std::vector<float> values = Ones();
  auto borrowed = ApplyOnThread(Borrowed(&values));
  AwaitAccumulated(accumulator_, kFoldAt + 2);
  RecordedTake take(1);
  accumulator_.Request(take.ptr(), nullptr, plain_);
  EXPECT_TRUE(IsWaiting(borrowed));
  stop_.LetOneThrough();  // The fold goes on.
  stop_.AwaitArrivals(2);
  EXPECT_TRUE(IsWaiting(borrowed));
  EXPECT_FALSE(take.is_done());
  stop_.LetOneThrough();  // The round ends.
  EXPECT_TRUE(borrowed.get());
  values.assign(kSize, -1e9f);
  EXPECT_TRUE(folder_.get());
  ASSERT_TRUE(take.is_served());
  EXPECT_EQ(take.values<float>(), std::vector<float>(kSize, kFoldAt + 2));
}

TEST_F(MidFold, TheNextRoundDoesNotWaitForTheOneThatIsTaken) {
  RecordedTake slow(1), fast(2);
  accumulator_.Request(slow.ptr(), nullptr, plain_);
  accumulator_.Request(fast.ptr(), nullptr, plain_);
  EXPECT_TRUE(Apply(Owned(Ones()), plain_, 1));
  std::vector<float> values = Ones();
  EXPECT_TRUE(Apply(Borrowed(&values), plain_, 1));
  EXPECT_FALSE(slow.is_done());
  ASSERT_TRUE(fast.is_served());
  EXPECT_EQ(fast.values<float>(), std::vector<float>(kSize, 2.0f));
  EXPECT_EQ(accumulator_.global_step(), 2);
  stop_.Open();
  EXPECT_TRUE(folder_.get());
  ASSERT_TRUE(slow.is_served());
  EXPECT_EQ(slow.values<float>(), std::vector<float>(kSize, kFoldAt + 1));
}

TEST_F(MidFold, ATakeWhoseRoundIsBeingAddedCannotBeCancelledAnyMore) {
  RecordedTake take(1);
  accumulator_.Request(take.ptr(), nullptr, plain_);
  accumulator_.Cancel(take.ptr(), plain_);
  EXPECT_FALSE(take.is_done());
  stop_.Open();
  EXPECT_TRUE(folder_.get());
  EXPECT_EQ(take.num_completions(), 1);
  EXPECT_TRUE(take.is_served());
}

TEST_F(MidFold, ACancelledTakeLeavesTheGradientsToTheNext) {
  RecordedTake cancelled(100), next(1);
  accumulator_.Request(cancelled.ptr(), nullptr, plain_);
  accumulator_.Request(next.ptr(), nullptr, plain_);
  accumulator_.Cancel(cancelled.ptr(), plain_);
  EXPECT_EQ(cancelled.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(accumulator_.num_accumulated(), 0) << "the round is the next take's";
  EXPECT_FALSE(next.is_done());
  stop_.Open();
  EXPECT_TRUE(folder_.get());
  ASSERT_TRUE(next.is_served());
  EXPECT_EQ(next.values<float>(), std::vector<float>(kSize, kFoldAt + 1));
}

TEST_F(MidFold, TheStepMayBeSetMeanwhile) {
  EXPECT_EQ(accumulator_.SetGlobalStep(1), 0);
  EXPECT_FALSE(ApplyOwned());
  EXPECT_EQ(accumulator_.num_dropped(), 1);
  EXPECT_TRUE(Apply(Owned(Ones()), plain_, 1));
  stop_.Open();
  EXPECT_TRUE(folder_.get());
  ExpectTaken(kFoldAt + 2);
}

}  // namespace
}  // namespace condacc
