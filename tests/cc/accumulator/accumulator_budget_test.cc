// The hold budget decides whether gradients are held back or added as they come.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "gtest/gtest.h"
#include "tests/cc/accumulator/accumulator_support.h"

namespace condacc {
namespace {

constexpr size_t kSize = 24;
constexpr size_t kBytes = kSize * sizeof(float);

TEST(BudgetTest, AnExceededBudgetFoldsAtOnceAndIsSharedByAccumulators) {
  HoldBudget budget(3 * kBytes);
  TestWorkspace workspace;
  Accumulator a(OptionsOf<float>(/*mean=*/false, &budget));
  Accumulator b(OptionsOf<float>(/*mean=*/false, &budget));
  const auto apply = [&workspace](Accumulator* accumulator) {
    const std::vector<float> ones(kSize, 1.0f);
    EXPECT_TRUE(accumulator->Apply(0, Owned(ones), workspace).ok());
  };
  for (int i = 0; i < 3; ++i) apply(&a);
  for (int i = 0; i < 2; ++i) apply(&b);
  EXPECT_EQ(budget.num_held(), 3 * kBytes);
  EXPECT_EQ(workspace.num_sums(), 0);
  apply(&b);  // This is one too many: b adds its pending gradients.
  EXPECT_EQ(workspace.num_sums(), 1);
  EXPECT_EQ(budget.num_held(), 2 * kBytes);
  for (Accumulator* accumulator : {&a, &b}) {
    RecordedTake take(3);
    accumulator->Request(take.ptr(), nullptr, workspace);
    ASSERT_TRUE(take.is_served());
    EXPECT_EQ(take.values<float>(), std::vector<float>(kSize, 3.0f));
  }
  EXPECT_EQ(budget.num_held(), 0u);
}

TEST(BudgetTest, OfNothingHoldsNothingBack) {
  HoldBudget budget(0);
  TestWorkspace workspace;
  Accumulator accumulator(OptionsOf<float>(/*mean=*/false, &budget));
  for (int i = 0; i < 5; ++i) {
    const std::vector<float> ones(kSize, 1.0f);
    EXPECT_TRUE(accumulator.Apply(0, Owned(ones), workspace).ok());
    EXPECT_EQ(budget.num_held(), 0u);
    EXPECT_EQ(workspace.num_sums(), i);
  }
}

TEST(SmallTest, SmallGradientsAreAddedAsTheyCome) {
  HoldBudget budget(1 << 20);
  TestWorkspace workspace;
  auto options = OptionsOf<float>(/*mean=*/false, &budget);
  options.sum.small_bytes = kBytes;
  Accumulator accumulator(options);
  for (size_t size : {kSize, kSize + 1}) {
    const int before = workspace.num_sums();
    const int64_t step = accumulator.global_step();
    for (int i = 0; i < 4; ++i) {
      const std::vector<float> ones(size, 1.0f);
      EXPECT_TRUE(accumulator.Apply(step, Owned(ones), workspace).ok());
    }
    EXPECT_EQ(workspace.num_sums() - before, size == kSize ? 3 : 0);
    RecordedTake take(4);
    accumulator.Request(take.ptr(), nullptr, workspace);
    ASSERT_TRUE(take.is_served());
    EXPECT_EQ(take.values<float>(), std::vector<float>(size, 4.0f));
  }
}

// float16 is added in float32, which needs memory. The sum is right even if the memory comes too
// late for a fold.
TEST(BudgetTest, OfNothingStillGivesTheRightFloat16Sums) {
  HoldBudget budget(0);
  TestWorkspace workspace;
  Accumulator accumulator(OptionsOf<Float16>(/*mean=*/false, &budget));
  for (int i = 0; i < 40; ++i) {
    const std::vector<Float16> ones(kSize, Float16::FromFloat(1.0f));
    ASSERT_TRUE(accumulator.Apply(0, Owned(ones), workspace).ok());
    EXPECT_LE(budget.num_held(), kSize * sizeof(Float16));
  }
  EXPECT_EQ(workspace.num_allocations(), 1);
  RecordedTake take(40);
  accumulator.Request(take.ptr(), nullptr, workspace);
  ASSERT_TRUE(take.is_served());
  for (Float16 value : take.values<Float16>()) EXPECT_EQ(Float16::ToFloat(value), 40.0f);
  EXPECT_EQ(budget.num_held(), 0u);
}

}  // namespace
}  // namespace condacc
