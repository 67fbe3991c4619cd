// Tests of gradients that name their contributor: a round has at most one of each, and only
// gradients of its own step.
#include <cstdint>
#include <future>
#include <limits>
#include <optional>
#include <string>

#include "cc/core/accumulator/accumulator.h"
#include "gtest/gtest.h"
#include "tests/cc/accumulator/by_contributor.h"
#include "tests/cc/accumulator/fake_sum.h"
#include "tests/cc/base/stop_point.h"

namespace condacc {
namespace {

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

}  // namespace
}  // namespace condacc
