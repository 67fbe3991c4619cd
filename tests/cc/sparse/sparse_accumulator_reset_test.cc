// Tests of resets, in each phase of a round of sparse gradients.
#include <cstdint>
#include <future>

#include "cc/core/accumulator/accumulator.h"
#include "gtest/gtest.h"
#include "tests/cc/base/stop_point.h"
#include "tests/cc/sparse/sparse_phases.h"
#include "tests/cc/sparse/sparse_support.h"

namespace condacc {
namespace {

using SparseResetTest = SparsePhases;

TEST_F(SparseResetTest, AResetDiscardsWhatAFoldIsAdding) {
  StartFolding();
  EXPECT_EQ(accumulator_->Reset(-1), 4);
  EXPECT_EQ(accumulator_->num_accumulated(), 0);
  ApplySeveral(2);
  EndFolding();
  {
    const SparseTake take(2, -1);
    EXPECT_TRUE(TryServe(take));
    ExpectServed(take, 2);
  }
  EXPECT_EQ(budget_.num_held(), 0u);
  EXPECT_EQ(TestBuffer::num_live(), num_live_);
}

TEST_F(SparseResetTest, AResetDiscardsWhatAFoldFailsToAdd) {
  ApplySeveral(3);
  apply_ = std::async(std::launch::async, [this] {
    StoppingSparseWorkspace stopping(&stop_, Where::kInFolds);
    stopping.RefuseAllocation(0);
    return Apply(stopping);
  });
  stop_.AwaitArrivals(1);
  EXPECT_EQ(accumulator_->Reset(0), 4);
  EndFolding();
  EXPECT_EQ(budget_.num_held(), 0u);
  EXPECT_EQ(TestBuffer::num_live(), num_live_);
}

TEST_F(SparseResetTest, AResetAfterFoldsFreesMergedRows) {
  ApplySeveral(9);
  EXPECT_GT(TestBuffer::num_live(), num_live_);
  EXPECT_EQ(accumulator_->Reset(0), 9);
  EXPECT_EQ(budget_.num_held(), 0u);
  EXPECT_EQ(TestBuffer::num_live(), num_live_);
}

TEST_F(SparseResetTest, AResetWaitsForATakeThatWaitsForTheFold) {
  StartFolding();
  const SparseTake take(4);
  EXPECT_TRUE(TryServe(take));
  auto reset = ResetInThread(9);
  EXPECT_TRUE(IsWaiting(reset));
  EndFolding();
  EXPECT_EQ(reset.get(), 0);
  ExpectServed(take, 4);
  EXPECT_EQ(accumulator_->global_step(), 9);
}

TEST_F(SparseResetTest, AResetWaitsForATakeWhoseResultIsMade) {
  ApplySeveral(3);
  const SparseTake take(2);
  auto request = RequestInThread(take);
  auto reset = ResetInThread(9);
  EXPECT_TRUE(IsWaiting(reset));
  EXPECT_EQ(accumulator_->num_accumulated(), 3);
  stop_.Open();
  request.get();
  EXPECT_EQ(reset.get(), 0);
  ExpectServed(take, 3);
  EXPECT_EQ(accumulator_->global_step(), 9);
}

TEST_F(SparseResetTest, AResetDiscardsWhatATakeFailsToTake) {
  ApplySeveral(3);
  const SparseTake take(2);
  auto request = std::async(std::launch::async, [&] {
    StoppingSparseWorkspace stopping(&stop_, Where::kInResults);
    stopping.RefuseAllocation(1);
    accumulator_->Request(take.ptr(), accumulator_, stopping);
  });
  stop_.AwaitArrivals(1);
  auto reset = ResetInThread(9);
  EXPECT_TRUE(IsWaiting(reset));
  stop_.Open();
  request.get();
  EXPECT_EQ(reset.get(), 3);
  EXPECT_EQ(take.status().code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace condacc
