// Tests of folds that run in a thread of their own.
#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "gtest/gtest.h"
#include "tests/cc/sparse/sparse_phases.h"
#include "tests/cc/sparse/sparse_support.h"

namespace condacc {
namespace {

// Records the work that a thread would do, and does it when the test says so.
class SparseFolderTest : public SparsePhases {
 protected:
  SparseFolderTest() { Make(/*fold_bytes=*/1, /*long_fold_bytes=*/0); }
  ~SparseFolderTest() override {
    accumulator_.reset();
    EXPECT_EQ(budget_.num_held() + none_.num_held(), 0u);
    EXPECT_EQ(TestBuffer::num_live(), num_live_);
  }

  void Make(size_t fold_bytes, size_t long_fold_bytes, HoldBudget* budget = nullptr) {
    Accumulator::Options options = Options(budget == nullptr ? &budget_ : budget);
    options.sum.fold_bytes = fold_bytes;
    options.sum.long_fold_bytes = long_fold_bytes;
    options.start_thread = [this](const WorkspaceUser& work) {
      ++num_tried_;
      if (throws_) throw std::bad_alloc();
      if (!refuses_) started_.push_back(work);
      return !refuses_;
    };
    accumulator_ = std::make_shared<Accumulator>(options);
  }
  void RunStarted() {
    for (const WorkspaceUser& work : std::exchange(started_, {})) work(folders_);
  }
  // After this, the next take is expected to require as many gradients.
  void ServeFirstRound(int num_required) {
    for (int i = 0; i < num_required; ++i) {
      ApplySeveral(1);
      RunStarted();
    }
    const SparseTake take(num_required);
    EXPECT_TRUE(TryServe(take));
    ExpectServed(take, num_required);
  }

  HoldBudget none_{0};
  int num_tried_ = 0;
  bool refuses_ = false;
  bool throws_ = false;
  std::vector<WorkspaceUser> started_;
  TestSparseWorkspace folders_;
};

TEST_F(SparseFolderTest, AnApplyLeavesALongFoldToAThread) {
  ApplySeveral(4);
  ASSERT_EQ(started_.size(), 1u);
  EXPECT_EQ(plain_.freed_bytes(), 0u);
  RunStarted();
  EXPECT_GT(folders_.freed_bytes(), 0u);
  const SparseTake take(4);
  EXPECT_TRUE(TryServe(take));
  ExpectServed(take, 4);
}

TEST_F(SparseFolderTest, TheThreadAddsWhatArrivesBeforeItBegins) {
  ApplySeveral(6);
  EXPECT_EQ(num_tried_, 1) << "one thread at a time";
  RunStarted();
  ApplySeveral(3);
  EXPECT_EQ(num_tried_, 1) << "nothing was left of the first six";
  ApplySeveral(1);
  EXPECT_EQ(num_tried_, 2);
  RunStarted();
}

TEST_F(SparseFolderTest, AnApplyFoldsIfNoThreadCanBeStarted) {
  for (bool* const failure : {&refuses_, &throws_}) {
    *failure = true;
    ApplySeveral(4);
    EXPECT_GT(plain_.freed_bytes(), 0u);
    *failure = false;
    EXPECT_EQ(accumulator_->Reset(0), 4);
  }
  EXPECT_EQ(num_tried_, 2);
}

TEST_F(SparseFolderTest, NoFoldBeginsIfTheTakeCanAddEverything) {
  ServeFirstRound(7);
  num_tried_ = 0;
  ApplySeveral(7);
  EXPECT_EQ(num_tried_, 0);
  const SparseTake take(7);
  EXPECT_TRUE(TryServe(take));
  ExpectServed(take, 7);
}

TEST_F(SparseFolderTest, AFoldBeginsIfAppliesWouldWaitBeforeTheTake) {
  ServeFirstRound(8);
  num_tried_ = 0;
  ApplySeveral(3);
  EXPECT_EQ(num_tried_, 0) << "the fold is not worth its cost yet";
  ApplySeveral(1);
  EXPECT_EQ(num_tried_, 1);
  RunStarted();
}

TEST_F(SparseFolderTest, AFoldBeginsIfMoreArriveThanTheLastTakeRequired) {
  ServeFirstRound(4);
  num_tried_ = 0;
  ApplySeveral(4);
  EXPECT_EQ(num_tried_, 0);
  ApplySeveral(1);
  EXPECT_EQ(num_tried_, 1);
  RunStarted();
}

TEST_F(SparseFolderTest, AShortFoldRunsInTheApply) {
  Make(/*fold_bytes=*/1, /*long_fold_bytes=*/size_t{1} << 20);
  ApplySeveral(4);
  EXPECT_EQ(num_tried_, 0);
  EXPECT_GT(plain_.freed_bytes(), 0u);
}

TEST_F(SparseFolderTest, AnApplyThatExceedsTheBudgetFolds) {
  Make(/*fold_bytes=*/1, /*long_fold_bytes=*/0, &none_);
  ApplySeveral(2);
  EXPECT_EQ(num_tried_, 0);
  EXPECT_GT(plain_.freed_bytes(), 0u);
}

}  // namespace
}  // namespace condacc
