#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "cc/core/base/hold_budget.h"
#include "gtest/gtest.h"
#include "tests/cc/sparse/sparse_support.h"

namespace condacc {
namespace {

constexpr size_t kWidth = 3;

Accumulator::Options OptionsOf(HoldBudget* budget, size_t fold_bytes) {
  Accumulator::Options options;
  options.new_sum = NewSparseSum<HostRows>;
  options.sum.budget = budget;
  options.sum.fold_bytes = fold_bytes;
  return options;
}

class SparseAccumulatorTest : public testing::Test {
 protected:
  void Apply(const Slices& slices, bool owned = true) {
    const ApplyResult result =
        accumulator_.Apply(step_, GradientOf(slices, kWidth, owned), workspace_);
    ASSERT_TRUE(result.is_added()) << result.status().message();
  }

  Slices Take(int64_t num_required) {
    SparseTake take(num_required);
    accumulator_.Request(take.ptr(), nullptr, workspace_);
    EXPECT_EQ(take.num_completions(), 1);
    EXPECT_TRUE(take.status().ok()) << take.status().message();
    ++step_;
    return take.slices();
  }

  HoldBudget budget_{1 << 20};
  TestSparseWorkspace workspace_;
  Accumulator accumulator_{OptionsOf(&budget_, /*fold_bytes=*/1)};
  int64_t step_ = 0;
};

TEST_F(SparseAccumulatorTest, AGradientInOrderIsHandedOutAsItIs) {
  const Slices slices = {{1, 4, 6}, std::vector<float>(3 * kWidth, 2)};
  Apply(slices);
  EXPECT_EQ(Take(1), slices);
  EXPECT_EQ(workspace_.num_allocations(), 0);
}

TEST_F(SparseAccumulatorTest, WhatIsNotOwnedIsCopied) {
  for (int round = 0; round < 3; ++round) {
    Slices slices = {{1, 4, 4}, std::vector<float>(3 * kWidth, 2)};
    Apply(slices, /*owned=*/false);
    std::fill(slices.values.begin(), slices.values.end(), -1.0f);
    std::fill(slices.indices.begin(), slices.indices.end(), 9);
    EXPECT_EQ(Take(1).values, (std::vector<float>{2, 2, 2, 4, 4, 4}));
  }
  // Memory was allocated for indices, values, entries and both outputs each time.
  EXPECT_EQ(workspace_.num_allocations(), 3 * 5);
}

TEST_F(SparseAccumulatorTest, BeyondTheBudgetOneGradientIsHeldWhateverTakeIsNear) {
  HoldBudget none(0);
  TestSparseWorkspace workspace;
  Accumulator accumulator(OptionsOf(&none, /*fold_bytes=*/size_t{1} << 40));
  const Slices slices = {{1, 4, 6}, std::vector<float>(3 * kWidth, 2)};
  const size_t kBytes = 768;  // More than is counted for such a gradient, and less than for two.
  for (int step = 0; step < 3; ++step) {
    for (int i = 0; i < 6; ++i) {
      ASSERT_TRUE(
          accumulator.Apply(step, GradientOf(slices, kWidth, i % 2 == 0), workspace).is_added());
      EXPECT_LE(none.num_held(), kBytes) << "gradient " << i << " of step " << step;
    }
    SparseTake take(6);  // The accumulator knows this from the second step on.
    accumulator.Request(take.ptr(), nullptr, workspace);
    ASSERT_EQ(take.num_completions(), 1);
    EXPECT_EQ(take.slices(), slices);
    EXPECT_EQ(none.num_held(), 0u) << "nothing is kept for the next copy, either";
  }
}

TEST_F(SparseAccumulatorTest, SmallGradientsAreHeldBesideLargeSumsBeyondTheBudget) {
  HoldBudget none(0);
  Accumulator accumulator(OptionsOf(&none, /*fold_bytes=*/size_t{1} << 40));
  std::mt19937 random(1);
  for (int i = 0; i < 2; ++i) {
    const Slices large = RandomSlices(&random, 20000, 1 << 20, kWidth);
    ASSERT_TRUE(accumulator.Apply(0, GradientOf(large, kWidth, true), workspace_).ok());
  }
  EXPECT_EQ(none.num_held(), 0u);
  const Slices small = {{1}, std::vector<float>(kWidth, 2)};
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(accumulator.Apply(0, GradientOf(small, kWidth, true), workspace_).ok());
  }
  EXPECT_GT(none.num_held(), 0u);
  EXPECT_LE(none.num_held(), 40000 * kWidth * sizeof(float) / 16);
}

// Folds that find no new rows used to leave 1 KiB each.
TEST_F(SparseAccumulatorTest, FoldsWithoutNewRowsLeaveNoBuffers) {
  const Slices slices = {{1, 4, 6}, std::vector<float>(3 * kWidth, 2)};
  for (int i = 0; i < 8; ++i) Apply(slices);
  const int64_t num_live = TestBuffer::num_live();
  for (int i = 0; i < 400; ++i) Apply(slices);
  EXPECT_EQ(TestBuffer::num_live(), num_live);
  EXPECT_EQ(Take(1), slices);
}

TEST_F(SparseAccumulatorTest, ErrorsNameTheAccumulatorAndChangeNothing) {
  const Status status =
      accumulator_
          .Apply(0, GradientOf({{-1}, std::vector<float>(kWidth)}, kWidth, true), workspace_)
          .status();
  EXPECT_EQ(status.message(), "Shape mismatch: index of slice 0 is negative; index is -1");
  EXPECT_EQ(accumulator_.num_accumulated(), 0);
}

}  // namespace
}  // namespace condacc
