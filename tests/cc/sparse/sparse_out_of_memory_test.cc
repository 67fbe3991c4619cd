// Lets operator new fail, at each place where a sparse take calls it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <random>
#include <utility>
#include <vector>

#include "cc/core/base/hold_budget.h"
#include "gtest/gtest.h"
#include "tests/cc/sparse/sparse_support.h"

namespace {

thread_local int allocations_left = -1;  // If negative, none fails.
thread_local int num_allocations = 0;

}  // namespace

__attribute__((noinline)) void* operator new(size_t num_bytes) {
  ++num_allocations;
  if (allocations_left == 0) throw std::bad_alloc();
  if (allocations_left > 0) --allocations_left;
  void* const memory = std::malloc(num_bytes > 0 ? num_bytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
__attribute__((noinline)) void* operator new(size_t num_bytes, const std::nothrow_t&) noexcept {
  try {
    return operator new(num_bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace condacc {
namespace {

constexpr size_t kWidth = 64;

using Sum = SparseSum<HostRows>;

class SparseOutOfMemory : public testing::Test {
 protected:
  SparseOutOfMemory() {
    options_.budget = &budget_;
    options_.spares = std::make_shared<SpareBuffers>(0, &budget_);
  }

  // Fills the sum with four merged gradients and two pending ones, which are so large that their
  // memory is discarded.
  void Fill(Sum* sum) {
    std::mt19937 random(5);
    gradients_.clear();
    for (int i = 0; i < 6; ++i) {
      gradients_.push_back(RandomSlices(&random, 6000, 1 << 16, kWidth));
      Gradient gradient = GradientOf(gradients_.back(), kWidth, true);
      ASSERT_TRUE(sum->Prepare(Missing::kKept, workspace_, &gradient).ok());
      sum->Append(std::move(gradient));
      if (i != 3) continue;
      sum->BeginFold();
      sum->RunFold(workspace_);
      sum->EndFold();
    }
    ASSERT_EQ(sum->num_pending(), 2u);
  }

  void ExpectResult(const Value& value) {
    const Slices expected = Merged(gradients_, kWidth, Reduction::kMean);
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
    allocations_left = num_failed;
    try {
      is_ready = sum.PrepareFinish(workspace_).ok();
    } catch (const std::bad_alloc&) {
    }
    allocations_left = -1;
    EXPECT_EQ(sum.num_pending(), 2u);
    EXPECT_EQ(TestBuffer::num_live(), num_live + (is_ready ? 3 : 0));
  }
  EXPECT_GT(num_failed, 10);
  ExpectResult(sum.Finish(workspace_));
}

TEST_F(SparseOutOfMemory, FinishingATakeAllocatesNothing) {
  Sum sum(options_);
  Fill(&sum);
  ASSERT_TRUE(sum.PrepareFinish(workspace_).ok());
  const int64_t num_discarded = TestBuffer::num_discarded();
  const int before = num_allocations;
  allocations_left = 0;
  const Value value = sum.Finish(workspace_);
  allocations_left = -1;
  EXPECT_EQ(num_allocations, before);
  EXPECT_GT(TestBuffer::num_discarded(), num_discarded);
  ExpectResult(value);
}

// A gradient that could not be kept leaves no trace of its contributor.
TEST_F(SparseOutOfMemory, AContributorWhoseApplyThrewMayComeAgain) {
  const Slices slices = {{3, 1}, std::vector<float>(2 * kWidth, 1)};
  int num_thrown = 0;
  bool is_added = false;
  Accumulator::Options options;
  options.name = "tested";
  options.new_sum = NewSparseSum<HostRows>;
  options.sum = options_;
  Accumulator accumulator(options);
  for (int ordinal = 0; !is_added; ++ordinal) {
    Gradient gradient = GradientOf(slices, kWidth, true);
    allocations_left = ordinal;
    try {
      is_added = accumulator.Apply(0, std::move(gradient), workspace_, 7).is_added();
      allocations_left = -1;
      ASSERT_TRUE(is_added);
    } catch (const std::bad_alloc&) {
      allocations_left = -1;
      ++num_thrown;
    }
    EXPECT_EQ(accumulator.num_accumulated(), is_added ? 1 : 0);
  }
  EXPECT_GE(num_thrown, 2) << "the contributor's, and the gradient's";
  EXPECT_EQ(accumulator.Apply(0, GradientOf(slices, kWidth, true), workspace_, 7).outcome(),
            ApplyOutcome::kDuplicate);
}

}  // namespace
}  // namespace condacc
