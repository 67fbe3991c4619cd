// Tests of the memory that dense sums and takes use, and for how long.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/dense/dense_sum.h"
#include "gtest/gtest.h"
#include "tests/cc/base/failing_new.h"
#include "tests/cc/dense/dense_support.h"

namespace condacc {
namespace {

constexpr size_t kSize = 24;
constexpr size_t kBytes = kSize * sizeof(float);

class MemoryTest : public testing::Test {
 protected:
  void Apply(Gradient gradient) {
    ASSERT_TRUE(accumulator_.Apply(0, std::move(gradient), workspace_).is_added());
  }
  void ApplyOwned(float value, size_t size = kSize) {
    Apply(Owned(std::vector<float>(size, value)));
  }
  // Takes all gradients and sets the step to 0 again.
  void Take(const DenseTake& take) {
    accumulator_.Request(take.ptr(), nullptr, workspace_);
    ASSERT_TRUE(take.is_served());
    accumulator_.SetGlobalStep(0);
  }

  HoldBudget budget_{1 << 30};
  TestWorkspace workspace_;
  Accumulator accumulator_{OptionsOf<float>(/*mean=*/false, &budget_)};
};

TEST_F(MemoryTest, OwnedGradientsAreMovedAndTheFirstBecomesTheValue) {
  for (int count : {1, 2, 8, 30}) {
    Gradient first = Owned(std::vector<float>(kSize, 1.0f));
    const void* memory = first.values.data();
    Apply(std::move(first));
    for (int i = 1; i < count; ++i) ApplyOwned(1);
    DenseTake take(count);
    Take(take);
    EXPECT_EQ(take.data(), memory);
    EXPECT_EQ(take.values<float>(), std::vector<float>(kSize, static_cast<float>(count)));
  }
  EXPECT_EQ(workspace_.num_allocations(), 0);
}

TEST_F(MemoryTest, ATakeIsCompletedBeforeItsGradientsAreFreed) {
  const int64_t num_live = TestBuffer::num_live();
  for (int i = 0; i < 3; ++i) ApplyOwned(1, /*size=*/1 << 14);
  int64_t num_live_at_completion = 0;
  const auto take = std::make_shared<PendingTake>(3, [&](const Status& status, Value*) {
    EXPECT_TRUE(status.ok());
    num_live_at_completion = TestBuffer::num_live();
  });
  accumulator_.Request(take, nullptr, workspace_);
  EXPECT_EQ(num_live_at_completion, num_live + 3);
  EXPECT_EQ(TestBuffer::num_live(), num_live);
  EXPECT_EQ(budget_.num_held(), 0u);
}

TEST_F(MemoryTest, WhatIsPendingIsAddedAheadOfTheLastGradientOnAHost) {
  for (bool is_in_host_memory : {true, false}) {
    auto options = OptionsOf<float>(/*mean=*/false, &budget_);
    options.sum.is_in_host_memory = is_in_host_memory;
    Accumulator accumulator(options);
    const int64_t num_live = TestBuffer::num_live();
    const auto apply = [&] {
      Gradient gradient = Owned(std::vector<float>(1 << 16, 1));
      ASSERT_TRUE(accumulator.Apply(0, std::move(gradient), workspace_).ok());
    };
    apply();
    apply();
    DenseTake take(3);
    accumulator.Request(take.ptr(), nullptr, workspace_);
    EXPECT_EQ(TestBuffer::num_live(), num_live + (is_in_host_memory ? 1 : 2));
    apply();
    ASSERT_TRUE(take.is_served());
    EXPECT_EQ(take.values<float>(), std::vector<float>(1 << 16, 3));
  }
}

TEST_F(MemoryTest, BorrowedGradientsAreNeitherWrittenToNorKept) {
  const int64_t num_live = TestBuffer::num_live();
  std::vector<float> expected(kSize, 0.0f);
  for (int i = 0; i < 20; ++i) {
    std::vector<float> values(kSize);
    std::iota(values.begin(), values.end(), static_cast<float>(i));
    const std::vector<float> before = values;
    Apply(Borrowed(&values));
    EXPECT_EQ(values, before);
    EXPECT_EQ(TestBuffer::num_live(), num_live + 1) << "the sum alone";
    EXPECT_EQ(budget_.num_held(), 0u);
    for (size_t k = 0; k < kSize; ++k) expected[k] += std::exchange(values[k], -1e9f);
  }
  EXPECT_EQ(workspace_.num_allocations(), 1);
  DenseTake take(20);
  Take(take);
  EXPECT_EQ(take.values<float>(), expected);
}

TEST_F(MemoryTest, ABorrowedGradientAddsWhatIsPendingBeforeIt) {
  for (float value : {1.0f, 2.0f, 3.0f}) ApplyOwned(value);
  EXPECT_EQ(budget_.num_held(), 2 * kBytes);
  std::vector<float> values(kSize, 4.0f);
  Apply(Borrowed(&values));
  EXPECT_EQ(budget_.num_held(), 0u);
  EXPECT_EQ(workspace_.num_sums(), 1);
  EXPECT_EQ(workspace_.num_allocations(), 0);
  DenseTake take(4);
  Take(take);
  EXPECT_EQ(workspace_.num_sums(), 1) << "nothing was left to do";
  EXPECT_EQ(take.values<float>(), std::vector<float>(kSize, 10.0f));
}

TEST_F(MemoryTest, GradientsAreFoldedWhenSevenArePending) {
  ApplyOwned(1);
  for (int fold = 1; fold <= 3; ++fold) {
    for (size_t pending = 1; pending < kFoldAt; ++pending) {
      ApplyOwned(1);
      EXPECT_EQ(budget_.num_held(), pending * kBytes);
      EXPECT_EQ(workspace_.num_sums(), fold - 1);
    }
    ApplyOwned(1);
    EXPECT_EQ(budget_.num_held(), 0u);
    EXPECT_EQ(workspace_.num_sums(), fold);
  }
  DenseTake take(1);
  Take(take);
  EXPECT_EQ(take.values<float>(), std::vector<float>(kSize, 1 + 3 * kFoldAt));
}

TEST_F(MemoryTest, ARoundAsLongAsTheOneBeforeIsNotFoldedRightBeforeItsTake) {
  constexpr int kLength = kFoldAt + 1;
  for (int expected_folds : {1, 0}) {
    const int before = workspace_.num_sums();
    for (int i = 0; i < kLength; ++i) ApplyOwned(1);
    EXPECT_EQ(workspace_.num_sums() - before, expected_folds);
    DenseTake take(kLength);
    Take(take);
    EXPECT_EQ(take.values<float>(), std::vector<float>(kSize, kLength));
  }
}

TEST_F(MemoryTest, BigGradientsAreFoldedWhenTheTakeThatWaitsLacksOne) {
  for (bool request_first : {true, false}) {
    const int before = workspace_.num_sums();
    DenseTake take(4);
    if (request_first) accumulator_.Request(take.ptr(), nullptr, workspace_);
    ApplyOwned(1, kBigSize);
    ApplyOwned(2, kBigSize);
    EXPECT_EQ(workspace_.num_sums() - before, 0);
    ApplyOwned(3, kBigSize);
    if (!request_first) accumulator_.Request(take.ptr(), nullptr, workspace_);
    EXPECT_EQ(workspace_.num_sums() - before, 1);
    EXPECT_EQ(budget_.num_held(), 0u);
    ApplyOwned(4, kBigSize);
    EXPECT_EQ(workspace_.num_sums() - before, 2);
    ASSERT_TRUE(take.is_served());
    EXPECT_EQ(take.values<float>(), std::vector<float>(kBigSize, 10.0f));
    accumulator_.SetGlobalStep(0);
  }
}

TEST_F(MemoryTest, SmallGradientsAreLeftForTheTake) {
  DenseTake take(4);
  accumulator_.Request(take.ptr(), nullptr, workspace_);
  for (int i = 0; i < 3; ++i) ApplyOwned(1);
  EXPECT_EQ(workspace_.num_sums(), 0);
  ApplyOwned(1);
  EXPECT_EQ(workspace_.num_sums(), 1);
  EXPECT_TRUE(take.is_served());
}

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
    DenseTake take(3);
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
    EXPECT_EQ(budget.num_held(), size == kSize ? 0u : 3 * size * sizeof(float));
    DenseTake take(4);
    accumulator.Request(take.ptr(), nullptr, workspace);
    ASSERT_TRUE(take.is_served());
    EXPECT_EQ(take.values<float>(), std::vector<float>(size, 4.0f));
  }
}

// float16 is added in float32, which needs memory. The sum is right even if the memory arrives too
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
  DenseTake take(40);
  accumulator.Request(take.ptr(), nullptr, workspace);
  ASSERT_TRUE(take.is_served());
  for (Float16 value : take.values<Float16>()) EXPECT_EQ(Float16::ToFloat(value), 40.0f);
  EXPECT_EQ(budget.num_held(), 0u);
}

TEST(MemoryOfApplies, IsNotAllocatedOnceTheirAccumulatorIsWarm) {
  TestWorkspace workspace;
  Accumulator accumulator(OptionsOf<float>(/*mean=*/true));
  for (int round = 0; round < 5; ++round) {
    DenseTake take(20);
    accumulator.Request(take.ptr(), nullptr, workspace);
    for (int i = 0; i < 20; ++i) {
      Gradient gradient = Owned(std::vector<float>(4, 1.0f));
      const int before = num_allocations;
      const Status status = accumulator.Apply(round, std::move(gradient), workspace).status();
      if (round > 1) {
        EXPECT_EQ(num_allocations, before) << round << " " << i;
      }
      EXPECT_TRUE(status.ok());
    }
    EXPECT_TRUE(take.is_served());
  }
}

}  // namespace
}  // namespace condacc
