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
  TakeOutcome outcome;
  EXPECT_TRUE(TryServe(&outcome, 2, -1));
  ExpectServed(outcome, 2);
  EXPECT_EQ(budget_.num_held(), 0u);
  EXPECT_EQ(TestBuffer::num_live(), num_live_);
}

TEST_F(SparseResetTest, AResetDiscardsWhatAFoldFailsToAdd) {
  ApplySeveral(3);
  apply_ = std::async(std::launch::async, [this] {
    GatedSparseWorkspace gated(&stop_, Where::kInFolds);
    gated.memory().RefuseAllocation(0);
    return Apply(gated);
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
  TakeOutcome outcome;
  EXPECT_TRUE(accumulator_->TryServe(NewTake(&outcome, 4), plain_));
  auto reset = ResetInThread(9);
  EXPECT_TRUE(IsWaiting(reset));
  EndFolding();
  EXPECT_EQ(reset.get(), 0);
  ExpectServed(outcome, 4);
  EXPECT_EQ(accumulator_->global_step(), 9);
}

TEST_F(SparseResetTest, AResetWaitsForATakeWhoseResultIsMade) {
  ApplySeveral(3);
  TakeOutcome outcome;
  auto request = std::async(std::launch::async, [&] {
    GatedSparseWorkspace gated(&stop_, Where::kInResults);
    accumulator_->Request(NewTake(&outcome, 2), accumulator_, gated);
  });
  stop_.AwaitArrivals(1);
  auto reset = ResetInThread(9);
  EXPECT_TRUE(IsWaiting(reset));
  EXPECT_EQ(accumulator_->num_accumulated(), 3);
  stop_.Open();
  request.get();
  EXPECT_EQ(reset.get(), 0);
  ExpectServed(outcome, 3);
  EXPECT_EQ(accumulator_->global_step(), 9);
}

TEST_F(SparseResetTest, AResetDiscardsWhatATakeFailsToTake) {
  ApplySeveral(3);
  TakeOutcome outcome;
  auto request = std::async(std::launch::async, [&] {
    GatedSparseWorkspace gated(&stop_, Where::kInResults);
    gated.memory().RefuseAllocation(1);
    accumulator_->Request(NewTake(&outcome, 2), accumulator_, gated);
  });
  stop_.AwaitArrivals(1);
  auto reset = ResetInThread(9);
  EXPECT_TRUE(IsWaiting(reset));
  stop_.Open();
  request.get();
  EXPECT_EQ(reset.get(), 3);
  EXPECT_EQ(outcome.code, StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace condacc
