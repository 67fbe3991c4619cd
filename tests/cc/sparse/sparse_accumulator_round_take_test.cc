// Tests of takes that name a step, beside folds and other takes.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <future>
#include <limits>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "gtest/gtest.h"
#include "tests/cc/accumulator/by_contributor.h"
#include "tests/cc/sparse/sparse_phases.h"
#include "tests/cc/sparse/sparse_support.h"

namespace condacc {
namespace {

constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

using RoundTakeTest = SparsePhases;

TEST_F(RoundTakeTest, TakesAtItsStepOnlyAndOnlyOnce) {
  accumulator_->SetGlobalStep(7);
  ApplySeveral(3);
  for (int64_t step : {int64_t{6}, int64_t{8}, int64_t{0}, kMax}) {
    const SparseTake other(1, step);
    EXPECT_FALSE(TryServe(other));
    EXPECT_FALSE(other.is_done());
  }
  const SparseTake too_many(4, 7), take(3, 7);
  EXPECT_FALSE(TryServe(too_many));
  EXPECT_FALSE(too_many.is_done());
  EXPECT_TRUE(TryServe(take));
  ExpectServed(take, 3);
  EXPECT_EQ(accumulator_->global_step(), 8);
  ApplySeveral(3);
  EXPECT_FALSE(TryServe(3, 7));
  EXPECT_TRUE(TryServe(3, 8));
}

TEST_F(RoundTakeTest, TakesNothingIfTheStepIsSetWhileItsResultIsMade) {
  ApplySeveral(2);
  const SparseTake take(2, 0), next(2, 3);
  auto request = std::async(std::launch::async, [&] {
    StoppingSparseWorkspace stopping(&stop_);
    return accumulator_->TryServe(take.ptr(), stopping);
  });
  stop_.AwaitArrivals(1);
  accumulator_->SetGlobalStep(3);
  stop_.Open();
  EXPECT_TRUE(request.get());
  EXPECT_EQ(take.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(accumulator_->num_accumulated(), 2);
  EXPECT_TRUE(TryServe(next));
  ExpectServed(next, 2);
}

// Runs contributors, and two chiefs that take by round and reset to steps never used before.
TEST_F(RoundTakeTest, EveryRoundIsTakenOnceUnderLoad) {
  constexpr int kContributors = 4, kRounds = 400;
  std::atomic<int64_t> num_added{0}, num_rounds{0}, num_discarded{0}, num_resets{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2 * kContributors; ++t) {
    threads.emplace_back([&, contributor = t % kContributors] {
      TestSparseWorkspace workspace;
      while (num_rounds < kRounds) {
        const ApplyResult result =
            accumulator_->Apply(accumulator_->global_step(),
                                By(contributor, GradientOf({{5, 2}, {1, 1}}, 1, true)), workspace);
        EXPECT_TRUE(result.ok());
        if (result.is_added()) ++num_added;
        std::this_thread::yield();
      }
    });
  }
  std::vector<std::vector<int64_t>> taken(2);
  for (size_t chief = 0; chief < 2; ++chief) {
    threads.emplace_back([&, chief] {
      TestSparseWorkspace workspace;
      std::mt19937 random(static_cast<uint32_t>(chief));
      while (num_rounds < kRounds) {
        if (random() % 256 == 0) num_discarded += accumulator_->Reset(++num_resets * 1000000);
        const int64_t step = accumulator_->global_step();
        const SparseTake take(kContributors, step);
        if (!accumulator_->TryServe(take.ptr(), workspace)) {
          std::this_thread::yield();
          continue;
        }
        take.Await();
        if (!take.status().ok()) continue;
        EXPECT_EQ(take.slices().values[0], kContributors);
        taken[chief].push_back(step);
        ++num_rounds;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  num_discarded += accumulator_->Reset(0);
  EXPECT_GT(num_resets, 0);
  EXPECT_EQ(num_added, num_rounds * kContributors + num_discarded);
  std::set<int64_t> steps(taken[0].begin(), taken[0].end());
  steps.insert(taken[1].begin(), taken[1].end());
  EXPECT_EQ(static_cast<int64_t>(steps.size()), num_rounds) << "some round was taken twice";
  EXPECT_EQ(budget_.num_held(), 0u);
  EXPECT_EQ(TestBuffer::num_live(), num_live_);
}

}  // namespace
}  // namespace condacc
