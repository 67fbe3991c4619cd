#include "cc/core/base/hold_budget.h"

#include <cstddef>

#include "gtest/gtest.h"

namespace condacc {
namespace {

TEST(HoldBudget, IsExceededByMoreThanItsBytesOnly) {
  HoldBudget budget(100);
  EXPECT_FALSE(budget.IsExceeded());
  budget.Add(100);
  EXPECT_FALSE(budget.IsExceeded());
  budget.Add(1);
  EXPECT_TRUE(budget.IsExceeded());
  EXPECT_EQ(budget.num_held(), 101u);
}

TEST(HoldBudget, IsGoodAgainWhenBytesAreGivenBack) {
  HoldBudget budget(100);
  budget.Add(150);
  budget.Add(-size_t{50});
  EXPECT_FALSE(budget.IsExceeded());
  budget.Add(-size_t{100});
  EXPECT_EQ(budget.num_held(), 0u);
}

TEST(HoldBudget, WithoutALimitIsSharedAndNeverExceeded) {
  HoldBudget& budget = HoldBudget::Unlimited();
  EXPECT_EQ(&budget, &HoldBudget::Unlimited());
  budget.Add(size_t{1} << 62);
  EXPECT_FALSE(budget.IsExceeded());
  budget.Add(-(size_t{1} << 62));
}

}  // namespace
}  // namespace condacc
