#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
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

  std::vector<Slices> Gradients(size_t count) {
    std::vector<Slices> gradients;
    for (size_t i = 0; i < count; ++i) {
      gradients.push_back(RandomSlices(&random_, random_() % 30, 50, kWidth));
    }
    return gradients;
  }

  std::mt19937 random_{7};
  HoldBudget budget_{1 << 20};
  TestSparseWorkspace workspace_;
  Accumulator accumulator_{OptionsOf(&budget_, /*fold_bytes=*/1)};
  int64_t step_ = 0;
};

TEST_F(SparseAccumulatorTest, FoldsChangeNothingAboutTheResult) {
  for (size_t count : {1, 2, 3, 4, 5, 9, 40}) {
    const std::vector<Slices> gradients = Gradients(count);
    for (const Slices& gradient : gradients) Apply(gradient, random_() % 2 == 0);
    EXPECT_EQ(Take(static_cast<int64_t>(count)), Merged(gradients, kWidth, Reduction::kMean));
  }
}

TEST_F(SparseAccumulatorTest, MeansAreDividedByTheWeights) {
  for (const Reduction reduction : {Reduction::kMean, Reduction::kGlobalMean, Reduction::kSum}) {
    Accumulator::Options options = OptionsOf(&budget_, /*fold_bytes=*/1);
    options.sum.reduction = reduction;
    Accumulator accumulator(options);
    for (size_t count : {1, 2, 5, 40}) {
      std::vector<Slices> gradients = Gradients(count);
      for (Slices& gradient : gradients) {
        gradient.weight = static_cast<double>(random_() % 4) / 2;  // Some weights are 0 or 1.
        ASSERT_TRUE(
            accumulator
                .Apply(accumulator.global_step(), GradientOf(gradient, kWidth, true), workspace_)
                .is_added());
      }
      SparseTake take(static_cast<int64_t>(count));
      accumulator.Request(take.ptr(), nullptr, workspace_);
      ASSERT_TRUE(take.is_served());
      EXPECT_EQ(take.slices(), Merged(gradients, kWidth, reduction));
    }
  }
}

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

TEST_F(SparseAccumulatorTest, GivesBackAllThatItHeld) {
  const int64_t num_live = TestBuffer::num_live();
  {
    Accumulator accumulator(OptionsOf(&budget_, /*fold_bytes=*/1));
    for (const Slices& slices : Gradients(21)) {
      for (bool owned : {true, false}) {
        ASSERT_TRUE(accumulator.Apply(0, GradientOf(slices, kWidth, owned), workspace_).ok());
      }
    }
    EXPECT_GT(budget_.num_held(), 0u);
  }
  EXPECT_EQ(budget_.num_held(), 0u);
  EXPECT_EQ(TestBuffer::num_live(), num_live);
}

TEST_F(SparseAccumulatorTest, ARefusedAllocationChangesNothing) {
  const std::vector<Slices> gradients = Gradients(12);
  for (int refused = 0; refused < 5; ++refused) {
    for (const Slices& gradient : gradients) {
      // A gradient whose copy gets no memory is not accepted. One whose fold gets no memory, for
      // the entries or the sums, is accepted nevertheless.
      workspace_.RefuseAllocation(refused);
      const int64_t before = accumulator_.num_accumulated();
      const ApplyResult result =
          accumulator_.Apply(step_, GradientOf(gradient, kWidth, false), workspace_);
      EXPECT_EQ(accumulator_.num_accumulated(), before + (result.is_added() ? 1 : 0));
      if (!result.is_added()) {
        EXPECT_EQ(result.status().code(), StatusCode::kResourceExhausted);
        Apply(gradient);
      }
    }
    for (int memory = 0; memory < 3; ++memory) {  // These are the entries and both outputs.
      workspace_.RefuseAllocation(memory);
      SparseTake take(1);
      accumulator_.Request(take.ptr(), nullptr, workspace_);
      EXPECT_EQ(take.num_completions(), 1);
      EXPECT_EQ(take.status().code(), StatusCode::kResourceExhausted);
      EXPECT_EQ(accumulator_.num_accumulated(), static_cast<int64_t>(gradients.size()));
      EXPECT_EQ(accumulator_.global_step(), step_);
    }
    EXPECT_EQ(Take(1), Merged(gradients, kWidth, Reduction::kMean));
  }
}

TEST_F(SparseAccumulatorTest, BeyondTheBudgetOneGradientIsHeldWhateverTakeIsNear) {
  HoldBudget none(0);
  TestSparseWorkspace workspace;
  Accumulator accumulator(OptionsOf(&none, /*fold_bytes=*/size_t{1} << 40));
  const Slices slices = {{1, 4, 6}, std::vector<float>(3 * kWidth, 2)};
  const size_t kBytes = 512;  // Bytes counted for such a gradient.
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

// Nothing may be held in the second case, so that a fold comes before the takes.
TEST_F(SparseAccumulatorTest, WhenMemoryIsRefusedTheNextTakeIsTriedAtOnce) {
  const Slices rows = {{4, 1}, std::vector<float>(2 * kWidth, 2)};
  for (size_t max_bytes : {1 << 20, 0}) {
    HoldBudget budget(max_bytes);
    Accumulator accumulator(OptionsOf(&budget, /*fold_bytes=*/1));
    SparseTake first(2), second(2);
    accumulator.Request(first.ptr(), nullptr, workspace_);
    accumulator.Request(second.ptr(), nullptr, workspace_);
    ASSERT_TRUE(accumulator.Apply(0, GradientOf(rows, kWidth, true), workspace_).ok());
    workspace_.RefuseAllocation(0);
    ASSERT_TRUE(accumulator.Apply(0, GradientOf(rows, kWidth, true), workspace_).ok());
    ASSERT_EQ(first.num_completions(), 1);
    EXPECT_EQ(first.status().code(), StatusCode::kResourceExhausted);
    ASSERT_EQ(second.num_completions(), 1);
    EXPECT_EQ(second.slices(), (Slices{{1, 4}, std::vector<float>(2 * kWidth, 2)}));
    EXPECT_EQ(accumulator.global_step(), 1);
  }
}

TEST_F(SparseAccumulatorTest, ErrorsNameTheAccumulatorAndChangeNothing) {
  const Status status =
      accumulator_
          .Apply(0, GradientOf({{-1}, std::vector<float>(kWidth)}, kWidth, true), workspace_)
          .status();
  EXPECT_EQ(status.message(), "Shape mismatch: index of slice 0 is negative; index is -1");
  EXPECT_EQ(accumulator_.num_accumulated(), 0);
}

TEST_F(SparseAccumulatorTest, AGradientWithoutRowsCountsAndPinsTheWidth) {
  Apply(Slices());
  const Status status =
      accumulator_
          .Apply(0, GradientOf({{1}, std::vector<float>(kWidth + 1)}, kWidth + 1, true), workspace_)
          .status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(accumulator_.num_accumulated(), 1);
  EXPECT_EQ(Take(1), Slices());
}

// Rows hold small whole numbers, so that sums are exact in any order.
TEST(SparseAccumulatorStress, EveryAcceptedGradientIsTakenExactlyOnce) {
  constexpr int kAppliers = 3;
  constexpr int kApplies = 300;
  HoldBudget budget(1 << 20);
  Accumulator::Options options = OptionsOf(&budget, /*fold_bytes=*/1);
  options.sum.reduction = Reduction::kSum;
  Accumulator accumulator(options);
  std::mutex mutex;
  double accepted_sum = 0;
  double taken_sum = 0;
  const auto take = [&](int64_t num_required, TestSparseWorkspace& workspace) {
    SparseTake one(num_required);
    if (!accumulator.TryServe(one.ptr(), workspace)) return false;
    while (one.num_completions() == 0) std::this_thread::yield();
    const std::lock_guard<std::mutex> lock(mutex);
    for (float value : one.slices().values) taken_sum += value;
    return true;
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kAppliers; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      TestSparseWorkspace workspace;
      for (int i = 0; i < kApplies; ++i) {
        Slices slices = RandomSlices(&random, random() % 20, 40, 1);
        double sum = 0;
        for (float& value : slices.values) sum += value = static_cast<float>(random() % 8);
        const ApplyResult result = accumulator.Apply(accumulator.global_step(),
                                                     GradientOf(slices, 1, i % 2 == 0), workspace);
        ASSERT_TRUE(result.ok());
        if (i % 16 == 0) take(5, workspace);
        const std::lock_guard<std::mutex> lock(mutex);
        accepted_sum += result.is_added() ? sum : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  TestSparseWorkspace workspace;
  take(1, workspace);
  EXPECT_EQ(accumulator.num_accumulated(), 0);
  EXPECT_EQ(taken_sum, accepted_sum);
}

}  // namespace
}  // namespace condacc
