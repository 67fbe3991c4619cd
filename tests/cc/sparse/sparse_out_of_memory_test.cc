// Makes operator new fail at each place where a sparse take calls it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "cc/core/base/hold_budget.h"
#include "gtest/gtest.h"
#include "tests/cc/base/failing_new.h"
#include "tests/cc/sparse/sparse_support.h"

namespace condacc {
namespace {

constexpr size_t kWideRow = 256;

using Sum = SparseSum<HostRows>;

class SparseOutOfMemory : public testing::Test {
 protected:
  SparseOutOfMemory() {
    memory_stays_short = true;
    options_.budget = &budget_;
  }

  // Fills the sum with four merged gradients and two pending ones, which are so large that
  // their sums are freed in parts.
  void Fill(Sum* sum) {
    std::mt19937 random(5);
    gradients_.clear();
    for (int i = 0; i < 6; ++i) {
      gradients_.push_back(RandomSlices(&random, 6000, 1 << 16, kWideRow));
      Gradient gradient = GradientOf(gradients_.back(), kWideRow, true);
      ASSERT_TRUE(sum->Supply(Missing::kKeptCopy, workspace_, &gradient).ok());
      sum->Append(std::move(gradient));
      if (i != 3) continue;
      sum->BeginFold();
      sum->RunFold(workspace_);
      sum->EndFold();
    }
    ASSERT_EQ(sum->num_pending(), 2u);
  }

  void ExpectResult(const Value& value) {
    const Slices expected = Merged(gradients_, kWideRow, Reduction::kMean);
    const float* const values = static_cast<const float*>(value.values.data());
    ASSERT_EQ(value.shape.num_elements(), static_cast<int64_t>(expected.values.size()));
    EXPECT_TRUE(std::equal(expected.values.begin(), expected.values.end(), values));
  }

  HoldBudget budget_{size_t{1} << 40};
  SumOptions options_;
  TestSparseWorkspace workspace_;
  std::vector<Slices> gradients_;
};

TEST_F(SparseOutOfMemory, ATakeThatCannotBePreparedHasChangedNothing) {
  Sum sum(options_);
  Fill(&sum);
  const int64_t num_live = TestBuffer::num_live();
  int num_failed = 0;
  for (bool is_ready = false; !is_ready; ++num_failed) {
    ASSERT_LT(num_failed, 1000);
    ThrowsAt(num_failed, [&] { is_ready = sum.PrepareFinish({}, workspace_).ok(); });
    EXPECT_EQ(sum.num_pending(), 2u);
    EXPECT_EQ(TestBuffer::num_live(), num_live + (is_ready ? 3 : 0));
  }
  EXPECT_GT(num_failed, 10);
  ExpectResult(sum.Finish(workspace_));
}

TEST_F(SparseOutOfMemory, FinishingATakeAllocatesNothing) {
  Sum sum(options_);
  Fill(&sum);
  ASSERT_TRUE(sum.PrepareFinish({}, workspace_).ok());
  const int64_t num_freed = TestBuffer::num_freed_bytes();
  const int before = num_allocations;
  Value value;
  EXPECT_FALSE(ThrowsAt(0, [&] { value = sum.Finish(workspace_); }));
  EXPECT_EQ(num_allocations, before);
  EXPECT_GT(TestBuffer::num_freed_at_refill(), num_freed);
  ExpectResult(value);
}

}  // namespace
}  // namespace condacc
