// Tests of gradients that name their contributor: a round has at most one of each, and only
// gradients of its own step.
#include <atomic>
#include <cstdint>
#include <future>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "gtest/gtest.h"
#include "tests/cc/accumulator/by_contributor.h"
#include "tests/cc/accumulator/fake_sum.h"
#include "tests/cc/base/stop_point.h"

namespace condacc {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

class ContributionTest : public testing::Test {
 protected:
  ApplyResult Apply(std::optional<int64_t> contributor, int64_t value = 1, int64_t local_step = 0) {
    return accumulator_.Apply(local_step, By(contributor, Owned(value)), workspace_);
  }
  ApplyOutcome Outcome(std::optional<int64_t> contributor, int64_t value = 1,
                       int64_t local_step = 0) {
    const ApplyResult result = Apply(contributor, value, local_step);
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.outcome();
  }
  int64_t Take(int64_t num_required) {
    FakeTake take(num_required);
    EXPECT_TRUE(accumulator_.TryServe(take.ptr(), workspace_));
    return take.is_served() ? take.sum() : -1;
  }

  // A gradient that the accumulator must prepare.
  static FakeGradient Lacking(int64_t number) {
    FakeGradient gradient = Owned(number);
    gradient.lacks_memory = true;
    return gradient;
  }

  FakeWorkspace workspace_;
  Accumulator accumulator_{TestedOptions()};
};

TEST_F(ContributionTest, TheFirstGradientOfAContributorCounts) {
  EXPECT_EQ(Outcome(7, 1), ApplyOutcome::kAdded);
  EXPECT_EQ(Outcome(7, 10), ApplyOutcome::kDuplicate);
  EXPECT_EQ(Outcome(8, 100), ApplyOutcome::kAdded);
  EXPECT_EQ(Outcome(7, 1000), ApplyOutcome::kDuplicate);
  EXPECT_EQ(accumulator_.num_accumulated(), 2);
  EXPECT_EQ(Take(2), 101);
}

TEST_F(ContributionTest, EarlierStepsAreStaleAndLaterOnesAhead) {
  accumulator_.SetGlobalStep(5);
  EXPECT_EQ(Outcome(0, 1, 4), ApplyOutcome::kStale);
  EXPECT_EQ(Outcome(0, 1, 6), ApplyOutcome::kAhead);
  EXPECT_EQ(Outcome(0, 1, kMax), ApplyOutcome::kAhead);
  EXPECT_EQ(Outcome(0, 1, 5), ApplyOutcome::kAdded);
  EXPECT_EQ(Outcome(0, 1, 4), ApplyOutcome::kStale) << "before it is a duplicate";
  EXPECT_EQ(Outcome(0, 1, 6), ApplyOutcome::kAhead) << "before it is a duplicate";
  EXPECT_EQ(accumulator_.num_accumulated(), 1);
}

TEST_F(ContributionTest, OnlyStaleGradientsCountAsDropped) {
  accumulator_.SetGlobalStep(5);
  EXPECT_EQ(Outcome(0, 1, 5), ApplyOutcome::kAdded);
  EXPECT_EQ(Outcome(0, 1, 5), ApplyOutcome::kDuplicate);
  EXPECT_EQ(Outcome(1, 1, 6), ApplyOutcome::kAhead);
  EXPECT_EQ(accumulator_.num_dropped(), 0);
  EXPECT_EQ(Outcome(1, 1, 4), ApplyOutcome::kStale);
  EXPECT_EQ(accumulator_.num_dropped(), 1);
}

TEST_F(ContributionTest, EachTakeBeginsARoundForAll) {
  for (int64_t step = 0; step < 4; ++step) {
    for (int64_t contributor : {int64_t{0}, int64_t{3}, kMax}) {
      EXPECT_EQ(Outcome(contributor, 1, step), ApplyOutcome::kAdded);
      EXPECT_EQ(Outcome(contributor, 1, step), ApplyOutcome::kDuplicate);
    }
    EXPECT_EQ(Take(3), 3);
  }
}

TEST_F(ContributionTest, AnotherStepIsStillTheSameRound) {
  EXPECT_EQ(Outcome(2), ApplyOutcome::kAdded);
  accumulator_.SetGlobalStep(9);
  EXPECT_EQ(Outcome(2, 1, 9), ApplyOutcome::kDuplicate);
  EXPECT_EQ(Outcome(3, 10, 9), ApplyOutcome::kAdded);
  EXPECT_EQ(Take(2), 11) << "gradients of the steps 0 and 9";
}

TEST_F(ContributionTest, GradientsWithoutAContributorMixFreely) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Outcome(std::nullopt, 1), ApplyOutcome::kAdded);
    EXPECT_EQ(Outcome(std::nullopt, 1, kMax), ApplyOutcome::kAdded) << "may be ahead";
    EXPECT_EQ(Outcome(4, 100), i == 0 ? ApplyOutcome::kAdded : ApplyOutcome::kDuplicate);
  }
  EXPECT_EQ(Take(7), 106);
}

TEST_F(ContributionTest, ManyContributors) {
  std::mt19937_64 random(3);
  std::vector<int64_t> contributors;
  for (int i = 0; i < 3000; ++i) contributors.push_back(static_cast<int64_t>(random() >> 1));
  for (int64_t contributor : contributors) {
    ASSERT_EQ(Outcome(contributor), ApplyOutcome::kAdded);
  }
  for (int64_t contributor : contributors) {
    ASSERT_EQ(Outcome(contributor), ApplyOutcome::kDuplicate);
  }
  EXPECT_EQ(Take(1), 3000);
}

TEST_F(ContributionTest, NegativeContributorsAreErrorsThatNameTheAccumulator) {
  for (int64_t contributor : {int64_t{-1}, std::numeric_limits<int64_t>::min()}) {
    for (int64_t local_step : {-1, 0, 1}) {
      const ApplyResult result = Apply(contributor, 1, local_step);
      EXPECT_FALSE(result.is_added());
      EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
      EXPECT_EQ(result.status().message(), "Argument contributor must not be negative, but was " +
                                               std::to_string(contributor));
    }
  }
  EXPECT_EQ(accumulator_.num_accumulated(), 0);
  EXPECT_EQ(accumulator_.num_dropped(), 0);
}

TEST_F(ContributionTest, AfterAGradientThatDoesNotFitTheContributorMayComeAgain) {
  EXPECT_EQ(Outcome(0, 1), ApplyOutcome::kAdded);
  FakeGradient unfit;
  unfit.fits = false;
  const ApplyResult refused = accumulator_.Apply(0, By(1, unfit), workspace_);
  EXPECT_EQ(refused.status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Outcome(1, 10), ApplyOutcome::kAdded);
  const ApplyResult ignored = accumulator_.Apply(0, By(1, unfit), workspace_);
  ASSERT_TRUE(ignored.ok()) << "a duplicate is not looked at";
  EXPECT_EQ(ignored.outcome(), ApplyOutcome::kDuplicate);
  EXPECT_EQ(Take(2), 11);
}

TEST_F(ContributionTest, AfterAGradientWithoutMemoryTheContributorMayComeAgain) {
  workspace_.fails = true;
  const ApplyResult refused = accumulator_.Apply(0, By(1, Lacking(5)), workspace_);
  EXPECT_EQ(refused.status().code(), StatusCode::kResourceExhausted);
  workspace_.fails = false;
  EXPECT_TRUE(accumulator_.Apply(0, By(1, Lacking(5)), workspace_).is_added());
  EXPECT_EQ(Take(1), 5);
}

TEST_F(ContributionTest, OfTwoAtTheSameMomentOneIsAdded) {
  StopPoint stop;
  const auto apply = [&] {
    FakeWorkspace workspace(&stop);
    const ApplyResult result = accumulator_.Apply(0, By(1, Lacking(5)), workspace);
    EXPECT_TRUE(result.ok());
    return result.outcome();
  };
  auto a = std::async(std::launch::async, apply);
  auto b = std::async(std::launch::async, apply);
  stop.AwaitArrivals(2);  // Both have been found to be the first.
  stop.Open();
  const bool a_is_added = a.get() == ApplyOutcome::kAdded;
  EXPECT_EQ(b.get(), a_is_added ? ApplyOutcome::kDuplicate : ApplyOutcome::kAdded);
  EXPECT_EQ(Take(1), 5);
}

TEST_F(ContributionTest, ADuplicateDoesNotWaitForAFold) {
  StopPoint stop;
  const int64_t number = 5;
  auto borrowed = std::async(std::launch::async, [&] {
    FakeWorkspace workspace(&stop);
    return accumulator_.Apply(0, By(1, Borrowed(&number)), workspace).is_added();
  });
  stop.AwaitArrivals(1);
  EXPECT_EQ(Outcome(1), ApplyOutcome::kDuplicate);
  EXPECT_EQ(Outcome(2, 10), ApplyOutcome::kAdded);
  stop.Open();
  EXPECT_TRUE(borrowed.get());
  EXPECT_EQ(Take(2), 15);
}

// Contributor i adds 2^(5 i) repeatedly, in two threads at once. If one of its gradients is counted
// twice, the sum shows it.
TEST_F(ContributionTest, UnderLoadEachCountsOnceARound) {
  constexpr int kContributors = 6, kThreadsEach = 2, kRounds = 300;
  constexpr int64_t kAll = 0x2108421;
  std::atomic<int64_t> num_added{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kContributors * kThreadsEach; ++t) {
    threads.emplace_back([&, contributor = t % kContributors] {
      FakeWorkspace workspace;
      std::mt19937 random(static_cast<uint32_t>(contributor));
      for (int64_t step = 0; step < kRounds; step = accumulator_.global_step()) {
        const int64_t number = int64_t{1} << (5 * contributor);
        const FakeGradient gradient = random() % 2 == 0 ? Owned(number) : Borrowed(&number);
        const ApplyResult result = accumulator_.Apply(step, By(contributor, gradient), workspace);
        EXPECT_TRUE(result.ok());
        EXPECT_NE(result.outcome(), ApplyOutcome::kAhead);
        if (result.is_added()) ++num_added;
        for (int i = 0; i < 20 && accumulator_.global_step() == step; ++i)
          std::this_thread::yield();
      }
    });
  }
  for (int64_t round = 0; round < kRounds; ++round) {
    FakeTake take(kContributors);
    accumulator_.Request(take.ptr(), nullptr, workspace_);
    take.Await();
    ASSERT_TRUE(take.is_served());
    ASSERT_EQ(take.sum(), kAll) << round;
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(num_added, kContributors * kRounds);
}

}  // namespace
}  // namespace condacc
