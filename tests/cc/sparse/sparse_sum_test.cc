// Tests of when sparse sums fold, of the memory that they free while the result of a take is
// written, and of takes that fail before that.
#include "cc/core/sparse/sparse_sum.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "cc/core/base/hold_budget.h"
#include "gtest/gtest.h"
#include "tests/cc/base/parallel_for_support.h"
#include "tests/cc/sparse/sparse_support.h"

namespace condacc {
namespace {

constexpr size_t kRowWidth = 64;
// Rows of gradients whose sums are freed in several parts, and the range of their indices.
constexpr size_t kManyRows = 60000;
constexpr int64_t kWideRange = 1 << 17;
constexpr size_t kRowBytes = kRowWidth * sizeof(float);

using Sum = SparseSum<HostRows>;

// If the parameter is true, there are several threads.
class SparseSumTest : public testing::TestWithParam<bool> {
 protected:
  SparseSumTest() {
    options_.budget = &budget_;
    sum_ = std::make_unique<Sum>(options_);
  }

  void Append(size_t count, size_t size = 6000, int64_t range = 1 << 16) {
    for (size_t i = 0; i < count; ++i) {
      Append(RandomSlices(&random_, size, range, kRowWidth));
    }
  }
  void Append(const Slices& slices) {
    gradients_.push_back(slices);
    Gradient gradient = GradientOf(slices, kRowWidth, true);
    ASSERT_TRUE(sum_->Supply(Missing::kKeptCopy, workspace_, &gradient).ok());
    sum_->Append(std::move(gradient));
  }
  void Fold() {
    sum_->BeginFold();
    sum_->RunFold(workspace_);
    const bool succeeded = sum_->EndFold();
    ASSERT_TRUE(succeeded);
  }
  Status Prepare() { return sum_->PrepareFinish({}, workspace_); }
  int64_t count() const { return static_cast<int64_t>(gradients_.size()); }

  Slices Finish() {
    const Value value = sum_->Finish(workspace_);
    Slices result;
    const int64_t* const indices = static_cast<const int64_t*>(value.indices.data());
    const float* const values = static_cast<const float*>(value.values.data());
    result.indices.assign(indices, indices + value.shape.dim(0));
    result.values.assign(values, values + value.shape.num_elements());
    last_result_bytes_ = result.values.size() * sizeof(float);
    sum_->Clear();
    return result;
  }
  Advice Advise(int64_t num_missing = RoundSum::kUnknown) const {
    return sum_->Advise({num_missing, /*is_waiting=*/false, last_result_bytes_});
  }
  Slices Expected() const { return Merged(gradients_, kRowWidth, Reduction::kMean); }

  std::mt19937 random_{11};
  size_t last_result_bytes_ = 0;
  HoldBudget budget_{size_t{1} << 40};
  SumOptions options_;
  TestSparseWorkspace workspace_{GetParam() ? ParallelFor(ThreadedFor) : SerialFor};
  std::unique_ptr<Sum> sum_;
  std::vector<Slices> gradients_;
};

INSTANTIATE_TEST_SUITE_P(SerialAndThreaded, SparseSumTest, testing::Bool());

TEST_P(SparseSumTest, FoldsAreSizedByTheLastResult) {
  options_.fold_bytes = 1;
  Append(4);
  EXPECT_EQ(Advise(), Advice::kFold);
  Append(4);
  EXPECT_EQ(Advise(), Advice::kMustFold);
  ASSERT_TRUE(Prepare().ok());
  const Slices last = Finish();
  const double result_bytes = static_cast<double>(last.indices.size() * kRowBytes);
  const double gradient_bytes = 6000 * (kRowBytes + sizeof(int64_t));
  ASSERT_GT(0.75 * result_bytes, 4.1 * gradient_bytes);
  ASSERT_LT(0.75 * result_bytes, 4.9 * gradient_bytes);
  ASSERT_GT(1.5 * result_bytes, 8.1 * gradient_bytes);
  ASSERT_LT(1.5 * result_bytes, 8.9 * gradient_bytes);

  gradients_.clear();
  Append(4);
  EXPECT_EQ(Advise(), Advice::kLeave);
  Append(1);
  EXPECT_EQ(Advise(), Advice::kFold);
  EXPECT_EQ(Advise(/*num_missing=*/4), Advice::kFold);
  EXPECT_EQ(Advise(/*num_missing=*/3), Advice::kLeave);
  Append(3);
  EXPECT_NE(Advise(), Advice::kMustFold);
  Append(1);
  EXPECT_EQ(Advise(), Advice::kMustFold);
  ASSERT_TRUE(Prepare().ok());
  EXPECT_EQ(Finish(), Expected());
}

TEST_P(SparseSumTest, TinyGradientsCountWithWhatIsKeptOfThem) {
  EXPECT_LE(sizeof(Addend), 160u);
  Append(100, /*size=*/0);
  EXPECT_GE(budget_.num_held(), 100 * (sizeof(Addend) + 256)) << "with the buffers";
  EXPECT_LE(budget_.num_held(), 100 * (sizeof(Addend) + 384));
}

// Gradients held beside those of a fold add to the peak, so fewer may come than before the fold.
TEST_P(SparseSumTest, DuringAFoldLessIsHeldThanWithoutOne) {
  options_.fold_bytes = 1;
  Append(8);
  ASSERT_TRUE(Prepare().ok());
  const double result_bytes = static_cast<double>(Finish().indices.size() * kRowBytes);
  const double gradient_bytes = 3000 * (kRowBytes + sizeof(int64_t));
  ASSERT_GT(0.75 * 1.5 * result_bytes, 12.1 * gradient_bytes);
  ASSERT_LT(0.75 * 1.5 * result_bytes, 14.9 * gradient_bytes);
  ASSERT_GT(1.5 * result_bytes, 15.1 * gradient_bytes);

  gradients_.clear();
  Append(15, /*size=*/3000);
  EXPECT_NE(Advise(), Advice::kMustFold);
  gradients_.clear();
  sum_->Clear();
  Append(10, /*size=*/3000);
  sum_->BeginFold();
  Append(2, /*size=*/3000);
  EXPECT_NE(Advise(), Advice::kMustFold);
  Append(3, /*size=*/3000);
  EXPECT_EQ(Advise(), Advice::kMustFold);
  sum_->RunFold(workspace_);
  ASSERT_TRUE(sum_->EndFold());
  EXPECT_NE(Advise(), Advice::kMustFold);
  ASSERT_TRUE(Prepare().ok());
  EXPECT_EQ(Finish(), Expected());
}

TEST_P(SparseSumTest, MostOfWhatWasMergedIsFreedBeforeTheLastRowIsWritten) {
  for (size_t num_folds : {1, 2}) {
    gradients_.clear();
    for (size_t i = 0; i < num_folds; ++i) {
      Append(4, kManyRows, kWideRange);
      Fold();
    }
    if (num_folds == 2) Append(1, kManyRows, kWideRange);
    const Slices expected = Expected();
    const int64_t bytes = static_cast<int64_t>(expected.indices.size() * kRowBytes);
    ASSERT_TRUE(Prepare().ok());
    const int64_t before = TestBuffer::num_freed_bytes();
    EXPECT_EQ(Finish(), expected);
    EXPECT_GT(TestBuffer::num_freed_at_refill() - before, bytes / 2);
    sum_->Clear();
  }
}

TEST_P(SparseSumTest, AFoldTellsHowMuchItFreed) {
  Append(3);
  EXPECT_EQ(workspace_.freed_bytes(), 0u);
  Fold();
  EXPECT_GE(workspace_.freed_bytes(), 3 * 6000 * kRowBytes);
  EXPECT_LT(workspace_.freed_bytes(), 4 * 6000 * kRowBytes);
}

TEST_P(SparseSumTest, ASingleGradientInOrderOutlivesAnAbandonedTake) {
  const Slices slices = {{2, 5}, std::vector<float>(2 * kRowWidth, 1)};
  Append(slices);
  ASSERT_TRUE(Prepare().ok());
  sum_->AbandonFinish();
  ASSERT_TRUE(Prepare().ok());
  EXPECT_EQ(Finish(), slices);
  EXPECT_EQ(workspace_.num_allocations(), 0);
}

// The result is the last gradient as it is, but has not the shape of the round's first one.
TEST_P(SparseSumTest, AGradientBehindFoldedOnesWithoutRowsOrWeightIsTakenWhole) {
  const Slices nothing = {{}, {}, /*weight=*/0};
  for (size_t num_rows : {0, 1, 3}) {
    Slices slices = {{2, 5, 6}, std::vector<float>(num_rows * kRowWidth, 1)};
    slices.indices.resize(num_rows);
    gradients_.clear();
    for (int i = 0; i < 2; ++i) Append(nothing);
    Fold();
    Append(slices);
    ASSERT_TRUE(Prepare().ok());
    EXPECT_EQ(Finish(), slices);
  }
}

TEST_P(SparseSumTest, AFoldWithoutMemoryLeavesItsGradientsBeforeLaterOnes) {
  const auto append = [this](float value) { Append({{5}, std::vector<float>(kRowWidth, value)}); };
  for (const float value : {1e8f, 1.0f, 1.0f, 1.0f}) append(value);
  sum_->BeginFold();
  append(-1e8f);  // In another order, the sum would be 3.
  workspace_.RefuseAllocation(0);
  sum_->RunFold(workspace_);
  EXPECT_FALSE(sum_->EndFold());
  ASSERT_TRUE(Prepare().ok());
  EXPECT_EQ(Finish(), (Slices{{5}, std::vector<float>(kRowWidth, 0.0f)}));
}

}  // namespace
}  // namespace condacc
