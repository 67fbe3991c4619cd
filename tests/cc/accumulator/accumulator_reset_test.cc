// Tests of resets, and of what does not wait for a fold.
#include <atomic>
#include <cstdint>
#include <future>
#include <limits>
#include <memory>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "gtest/gtest.h"
#include "tests/cc/accumulator/fake_sum.h"
#include "tests/cc/base/is_waiting.h"
#include "tests/cc/base/stop_point.h"

namespace condacc {
namespace {

constexpr int kPendingLimit = 7;  // Fold once this many gradients are pending.

class ResetTest : public testing::Test {
 protected:
  bool Apply(FakeGradient gradient, FakeWorkspace& workspace, int64_t local_step = 1000) {
    gradient.memory = memory_;
    const ApplyResult result = accumulator_.Apply(local_step, std::move(gradient), workspace);
    EXPECT_TRUE(result.ok());
    return result.is_added();
  }
  bool ApplyOwned(int64_t number) { return Apply(Owned(number), plain_); }
  // Applies in a thread that stops in its folds.
  std::future<bool> ApplyBorrowedStopping(const int64_t* number) {
    return std::async(std::launch::async, [this, number] {
      FakeWorkspace stopping(&stop_);
      return Apply(Borrowed(number), stopping);
    });
  }
  void ExpectNextRoundIs(int64_t sum, int count) {
    FakeTake take(count);
    EXPECT_TRUE(accumulator_.TryServe(take.ptr(), plain_));
    ExpectServed(take, sum);
  }
  // The number of gradients that have not been freed.
  int64_t num_kept() const { return memory_.use_count() - 1; }

  const std::shared_ptr<void> memory_ = std::make_shared<int>();
  StopPoint stop_;
  FakeWorkspace plain_;
  Accumulator accumulator_{TestedOptions()};
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

TEST_F(ResetTest, DoesNotWaitForAFoldAndTheApplyReturnsAfterIt) {
  const int64_t number = 1;
  auto borrowed = ApplyBorrowedStopping(&number);
  stop_.AwaitArrivals(1);
  EXPECT_TRUE(ApplyOwned(1));
  EXPECT_EQ(accumulator_.Reset(4), 2);
  EXPECT_EQ(accumulator_.num_accumulated(), 0);
  EXPECT_TRUE(ApplyOwned(7));
  ExpectNextRoundIs(7, 1);
  EXPECT_EQ(accumulator_.global_step(), 5);
  EXPECT_FALSE(HasReturned(borrowed)) << "its gradient is being read";
  stop_.Open();
  EXPECT_TRUE(borrowed.get());
  EXPECT_EQ(num_kept(), 0);
}

TEST_F(ResetTest, AnApplyThatFoundTooMuchPendingReturnsAtOnce) {
  const int64_t first = 1;
  auto folding = ApplyBorrowedStopping(&first);
  stop_.AwaitArrivals(1);
  for (int i = 0; i < 2 * kPendingLimit - 1; ++i) EXPECT_TRUE(ApplyOwned(1));
  auto waiting = std::async(std::launch::async, [&] { return ApplyOwned(1); });
  AwaitAccumulated(accumulator_, 2 * kPendingLimit + 1);
  EXPECT_TRUE(IsWaiting(waiting));
  EXPECT_EQ(accumulator_.Reset(0), 2 * kPendingLimit + 1);
  EXPECT_TRUE(waiting.get());
  stop_.Open();
  EXPECT_TRUE(folding.get());
  EXPECT_EQ(num_kept(), 0);
}

// Each thread applies, takes or resets at random. Every gradient that was added has been taken or
// discarded.
TEST_F(ResetTest, NothingIsLostOrTakenTwiceUnderLoad) {
  constexpr int kThreads = 6, kCalls = 4000;
  std::atomic<int64_t> num_added{0}, num_discarded{0}, num_taken{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      FakeWorkspace workspace;
      std::mt19937 random(static_cast<uint32_t>(t));
      for (int i = 0; i < kCalls; ++i) {
        const uint32_t dice = random() % 32;
        if (dice == 0) {
          num_discarded += accumulator_.Reset(random() % 10);
        } else if (dice == 1) {
          FakeTake take(1 + static_cast<int64_t>(random() % 12));
          if (!accumulator_.TryServe(take.ptr(), workspace)) continue;
          take.Await();
          num_taken += take.sum();
        } else {
          int64_t number = 1;
          num_added += Apply(dice % 3 == 0 ? Owned(number) : Borrowed(&number), workspace) ? 1 : 0;
          number = 1000000;  // This would show in a sum that reads it now.
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  num_discarded += accumulator_.Reset(0);
  EXPECT_GT(num_taken, 0);
  EXPECT_EQ(num_added, num_discarded + num_taken);
  EXPECT_EQ(num_kept(), 0);
}

}  // namespace
}  // namespace condacc
