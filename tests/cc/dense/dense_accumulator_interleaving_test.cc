// Tests of dense gradients that arrive while others are added, and wait.
#include <cstddef>
#include <future>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/dense/dense_sum.h"
#include "gtest/gtest.h"
#include "tests/cc/base/is_waiting.h"
#include "tests/cc/dense/dense_support.h"
#include "tests/cc/dense/stopping_workspace.h"

namespace condacc {
namespace {

// An apply that makes too much pending waits for the fold that runs. The explorer shows what comes
// of gradients that arrive during a fold, but not how many are held.
class MidSum : public testing::Test {
 protected:
  static constexpr size_t kBudget = 1 << 20;

  bool Apply(TestWorkspace& workspace) {
    const ApplyResult result = accumulator_.Apply(0, Owned<float>({1}), workspace);
    EXPECT_TRUE(result.ok());
    return result.is_added();
  }
  // Expects that the apply that makes `num_pending` gradients pending during a fold waits for it,
  // if others hold `extra_bytes` of the budget meanwhile.
  void ExpectWaitsFor(int num_pending, size_t extra_bytes) {
    for (int i = 0; i < kFoldAt; ++i) EXPECT_TRUE(Apply(plain_));
    StopPoint stop;
    StoppingWorkspace stopping(&stop);
    auto folder = std::async(std::launch::async, [&] { return Apply(stopping); });
    stop.AwaitArrivals(1);
    budget_.Add(extra_bytes);
    for (int i = 1; i < num_pending; ++i) EXPECT_TRUE(Apply(plain_));
    auto waiting = std::async(std::launch::async, [this] {
      TestWorkspace workspace;
      return Apply(workspace);
    });
    const int count = kFoldAt + 1 + num_pending;
    AwaitAccumulated(accumulator_, count);
    EXPECT_TRUE(IsWaiting(waiting));
    stop.Open();
    EXPECT_TRUE(folder.get());
    EXPECT_TRUE(waiting.get());
    EXPECT_EQ(budget_.num_held(), extra_bytes);
    DenseTake take(count);
    ASSERT_TRUE(accumulator_.TryServe(take.ptr(), plain_));
    ASSERT_TRUE(take.is_served());
    EXPECT_EQ(take.values<float>(), std::vector<float>{static_cast<float>(count)});
  }

  HoldBudget budget_{kBudget};
  TestWorkspace plain_;
  Accumulator accumulator_{OptionsOf<float>(/*mean=*/false, &budget_)};
};

TEST_F(MidSum, WhoBringsTooManyWaitsForTheFold) { ExpectWaitsFor(2 * kFoldAt, /*extra_bytes=*/0); }

TEST_F(MidSum, WhoExceedsTheBudgetWaitsForTheFold) { ExpectWaitsFor(2, /*extra_bytes=*/kBudget); }

}  // namespace
}  // namespace condacc
