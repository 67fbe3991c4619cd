// Tests of resets, in each phase of a round of dense gradients.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <limits>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "gtest/gtest.h"
#include "tests/cc/accumulator/accumulator_support.h"
#include "tests/cc/dense/stopping_workspace.h"

namespace condacc {
namespace {

constexpr size_t kSize = 16;

class ResetTest : public testing::Test {
 protected:
  bool Apply(Gradient gradient, TestWorkspace& workspace, int64_t local_step = 1000) {
    const ApplyResult result = accumulator_.Apply(local_step, std::move(gradient), workspace);
    EXPECT_TRUE(result.ok());
    return result.is_added();
  }
  bool ApplyOwned(float value) { return Apply(Owned(std::vector<float>(kSize, value)), plain_); }
  // Applies in a thread that stops before each sum.
  std::future<bool> ApplyBorrowedGated(std::vector<float>* values) {
    return std::async(std::launch::async, [this, values] {
      StoppingWorkspace stopping(&stop_);
      return Apply(Borrowed(values), stopping);
    });
  }
  void ExpectNextRoundIs(float sum, int count) {
    RecordedTake take(count);
    EXPECT_TRUE(accumulator_.TryServe(take.ptr(), plain_));
    ASSERT_TRUE(take.is_served());
    EXPECT_EQ(take.values<float>(), std::vector<float>(kSize, sum));
  }

  const int64_t num_live_ = TestBuffer::num_live();
  HoldBudget budget_{size_t{1} << 30};
  StopPoint stop_;
  TestWorkspace plain_;
  Accumulator accumulator_{OptionsOf<float>(/*mean=*/false, &budget_)};
};

TEST_F(ResetTest, OnlyForwardDoesNothingUnlessTheStepBecomesHigher) {
  EXPECT_EQ(accumulator_.Reset(5, /*only_forward=*/true), 0);
  EXPECT_EQ(accumulator_.global_step(), 5);
  EXPECT_TRUE(ApplyOwned(1));
  for (int64_t step : {int64_t{5}, int64_t{4}, std::numeric_limits<int64_t>::min()}) {
    EXPECT_EQ(accumulator_.Reset(step, /*only_forward=*/true), 0);
    EXPECT_EQ(accumulator_.global_step(), 5);
    EXPECT_EQ(accumulator_.num_accumulated(), 1);
  }
  EXPECT_EQ(accumulator_.Reset(6, /*only_forward=*/true), 1);
  EXPECT_EQ(accumulator_.global_step(), 6);
  EXPECT_EQ(accumulator_.num_accumulated(), 0);
}

TEST_F(ResetTest, DiscardsWhatIsAccumulatedAndSetsTheStep) {
  for (int64_t step : {int64_t{7}, int64_t{3}, int64_t{-9}, std::numeric_limits<int64_t>::max()}) {
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(ApplyOwned(1));
    EXPECT_GT(budget_.num_held(), 0u);
    EXPECT_EQ(accumulator_.Reset(step), 5);
    EXPECT_EQ(accumulator_.global_step(), step);
    EXPECT_EQ(accumulator_.num_accumulated(), 0);
    EXPECT_EQ(budget_.num_held(), 0u);
    EXPECT_EQ(TestBuffer::num_live(), num_live_);
    accumulator_.SetGlobalStep(0);
  }
  EXPECT_TRUE(ApplyOwned(2));
  ExpectNextRoundIs(2, 1);
}

TEST_F(ResetTest, OfAnEmptyAccumulatorSetsTheStep) {
  EXPECT_EQ(accumulator_.Reset(-4), 0);
  EXPECT_EQ(accumulator_.global_step(), -4);
  EXPECT_EQ(accumulator_.Reset(6), 0);
  EXPECT_FALSE(Apply(Owned(std::vector<float>(kSize, 1)), plain_, 5));
}

TEST_F(ResetTest, KeepsTheNumberOfDroppedGradients) {
  EXPECT_FALSE(Apply(Owned(std::vector<float>(kSize, 1)), plain_, -1));
  EXPECT_TRUE(ApplyOwned(1));
  EXPECT_EQ(accumulator_.Reset(0), 1);
  EXPECT_EQ(accumulator_.num_dropped(), 1);
}

TEST_F(ResetTest, ForgetsContributors) {
  for (int i = 0; i < 4; ++i) {
    const std::vector<float> values(kSize, 1);
    EXPECT_TRUE(accumulator_.Apply(0, Owned(values), plain_, 3).is_added());
    EXPECT_EQ(accumulator_.Apply(0, Owned(values), plain_, 3).outcome(), ApplyOutcome::kDuplicate);
    EXPECT_EQ(accumulator_.Reset(0), 1);
  }
}

TEST_F(ResetTest, LetsGradientsOfAnotherShapeIn) {
  EXPECT_TRUE(ApplyOwned(1));
  EXPECT_EQ(accumulator_.Reset(0), 1);
  EXPECT_TRUE(Apply(Owned(std::vector<float>(3, 1)), plain_));
}

TEST_F(ResetTest, TakesWaitOn) {
  RecordedTake take(3);
  accumulator_.Request(take.ptr(), nullptr, plain_);
  EXPECT_TRUE(ApplyOwned(1));
  EXPECT_TRUE(ApplyOwned(1));
  EXPECT_EQ(accumulator_.Reset(0), 2);
  EXPECT_TRUE(ApplyOwned(10));
  EXPECT_TRUE(ApplyOwned(10));
  EXPECT_FALSE(take.is_done());
  EXPECT_TRUE(ApplyOwned(10));
  ASSERT_TRUE(take.is_served());
  EXPECT_EQ(take.values<float>()[0], 30);
  EXPECT_EQ(accumulator_.global_step(), 1);
}

TEST_F(ResetTest, ATakeThatIsBeingFinishedIsServed) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(ApplyOwned(1));
  RecordedTake take(3);
  auto request = std::async(std::launch::async, [&] {
    StoppingWorkspace stopping(&stop_);
    accumulator_.Request(take.ptr(), nullptr, stopping);
  });
  stop_.AwaitArrivals(1);
  EXPECT_TRUE(ApplyOwned(5));
  EXPECT_EQ(accumulator_.Reset(-2), 1);
  EXPECT_EQ(accumulator_.global_step(), -2);
  EXPECT_FALSE(take.is_done());
  stop_.Open();
  request.get();
  ASSERT_TRUE(take.is_served());
  EXPECT_EQ(take.values<float>()[0], 3);
}

TEST_F(ResetTest, DoesNotWaitForAFoldAndTheApplyReturnsAfterIt) {
  std::vector<float> values(kSize, 1);
  auto borrowed = ApplyBorrowedGated(&values);
  stop_.AwaitArrivals(1);
  EXPECT_TRUE(ApplyOwned(1));
  EXPECT_EQ(accumulator_.Reset(4), 2);
  EXPECT_EQ(accumulator_.num_accumulated(), 0);
  EXPECT_TRUE(ApplyOwned(7));
  ExpectNextRoundIs(7, 1);
  EXPECT_EQ(accumulator_.global_step(), 5);
  EXPECT_EQ(borrowed.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout)
      << "its gradient is being read";
  stop_.Open();
  EXPECT_TRUE(borrowed.get());
  EXPECT_EQ(budget_.num_held(), 0u);
  EXPECT_EQ(TestBuffer::num_live(), num_live_);
}

TEST_F(ResetTest, AnApplyThatWaitsForTheFoldOfAnotherReturns) {
  std::vector<float> first(kSize, 1), second(kSize, 1);
  auto folding = ApplyBorrowedGated(&first);
  stop_.AwaitArrivals(1);
  auto waiting = std::async(std::launch::async, [&] { return Apply(Borrowed(&second), plain_); });
  AwaitAccumulated(accumulator_, 2);
  EXPECT_EQ(accumulator_.Reset(0), 2);
  stop_.Open();
  EXPECT_TRUE(folding.get());
  EXPECT_TRUE(waiting.get());
  second.assign(kSize, 99);
  EXPECT_TRUE(ApplyOwned(7));
  ExpectNextRoundIs(7, 1);
  EXPECT_EQ(budget_.num_held(), 0u);
  EXPECT_EQ(TestBuffer::num_live(), num_live_);
}

TEST_F(ResetTest, AnApplyThatFoundTooMuchPendingReturnsAtOnce) {
  std::vector<float> first(kSize, 1);
  auto folding = ApplyBorrowedGated(&first);
  stop_.AwaitArrivals(1);
  for (int i = 0; i < 2 * kFoldAt - 1; ++i) EXPECT_TRUE(ApplyOwned(1));
  auto waiting = std::async(std::launch::async, [&] { return ApplyOwned(1); });
  AwaitAccumulated(accumulator_, 2 * kFoldAt + 1);
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  EXPECT_EQ(accumulator_.Reset(0), 2 * kFoldAt + 1);
  EXPECT_TRUE(waiting.get());
  stop_.Open();
  EXPECT_TRUE(folding.get());
  EXPECT_EQ(budget_.num_held(), 0u);
}

TEST_F(ResetTest, SeveralRoundsMayBeDiscardedDuringTheirFolds) {
  constexpr int kRounds = 4;
  std::vector<std::vector<float>> values(kRounds, std::vector<float>(kSize, 1));
  std::vector<std::future<bool>> applies;
  for (int i = 0; i < kRounds; ++i) {
    applies.push_back(ApplyBorrowedGated(&values[static_cast<size_t>(i)]));
    stop_.AwaitArrivals(i + 1);
    EXPECT_EQ(accumulator_.Reset(i), 1);
  }
  EXPECT_TRUE(ApplyOwned(3));
  stop_.Open();
  for (std::future<bool>& apply : applies) EXPECT_TRUE(apply.get());
  ExpectNextRoundIs(3, 1);
  EXPECT_EQ(TestBuffer::num_live(), num_live_);
}

// A request adds big gradients before it waits.
TEST_F(ResetTest, DuringTheFoldOfARequestThatThenWaits) {
  const std::vector<float> big(kBigSize, 1);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Apply(Owned(big), plain_));
  RecordedTake take(4);
  auto request = std::async(std::launch::async, [&] {
    StoppingWorkspace stopping(&stop_);
    accumulator_.Request(take.ptr(), nullptr, stopping);
  });
  stop_.AwaitArrivals(1);
  EXPECT_EQ(accumulator_.Reset(0), 3);
  stop_.Open();
  request.get();
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(take.is_done());
    EXPECT_TRUE(Apply(Owned(big), plain_));
  }
  ASSERT_TRUE(take.is_served());
  EXPECT_EQ(take.values<float>()[0], 4);
}

// Each thread applies, takes or resets at random. Every gradient that was added has been taken or
// discarded.
TEST_F(ResetTest, NothingIsLostOrTakenTwiceUnderLoad) {
  constexpr int kThreads = 6, kCalls = 4000;
  std::atomic<int64_t> num_added{0}, num_discarded{0}, num_taken{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      TestWorkspace workspace;
      std::mt19937 random(static_cast<uint32_t>(t));
      for (int i = 0; i < kCalls; ++i) {
        const uint32_t dice = random() % 32;
        if (dice == 0) {
          num_discarded += accumulator_.Reset(random() % 10);
        } else if (dice == 1) {
          RecordedTake take(1 + static_cast<int64_t>(random() % 12));
          if (!accumulator_.TryServe(take.ptr(), workspace)) continue;
          take.Await();
          num_taken += static_cast<int64_t>(take.values<float>()[0]);
        } else {
          std::vector<float> values(kSize, 1);
          num_added += Apply(dice % 3 == 0 ? Owned(values) : Borrowed(&values), workspace) ? 1 : 0;
          values.assign(kSize, 1e9f);  // This would show in a sum that reads it now.
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  num_discarded += accumulator_.Reset(0);
  EXPECT_GT(num_taken, 0);
  EXPECT_EQ(num_added, num_discarded + num_taken);
  EXPECT_EQ(budget_.num_held(), 0u);
  EXPECT_EQ(TestBuffer::num_live(), num_live_);
}

}  // namespace
}  // namespace condacc
