// Tests of an accumulator's gradients, takes and steps, with one call at a time.
#include "cc/core/accumulator/accumulator.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <string>

#include "gtest/gtest.h"
#include "tests/cc/accumulator/fake_sum.h"

namespace condacc {
namespace {

class AccumulatorTest : public testing::Test {
 protected:
  bool Apply(int64_t number, int64_t local_step = 0) {
    const ApplyResult result = accumulator_.Apply(local_step, Owned(number), workspace_);
    EXPECT_TRUE(result.ok()) << result.status().message();
    return result.is_added();
  }
  void Request(const FakeTake& take) { accumulator_.Request(take.ptr(), nullptr, workspace_); }
  bool TryServe(const FakeTake& take) { return accumulator_.TryServe(take.ptr(), workspace_); }

  FakeWorkspace workspace_;
  Accumulator accumulator_{TestedOptions()};
};

TEST_F(AccumulatorTest, ATakeGetsTheSumAndMovesTheStepOn) {
  EXPECT_TRUE(Apply(1));
  EXPECT_TRUE(Apply(2));
  EXPECT_TRUE(Apply(6));
  EXPECT_EQ(accumulator_.num_accumulated(), 3);
  FakeTake take(3);
  Request(take);
  ExpectServed(take, 9);
  EXPECT_EQ(accumulator_.num_accumulated(), 0);
  EXPECT_EQ(accumulator_.global_step(), 1);
}

TEST_F(AccumulatorTest, AllLaterRoundsKnowTheSizeOfTheLastResult) {
  Apply(1);
  EXPECT_EQ(FakeSum::last_result_bytes, 0);
  for (int64_t round = 0; round < 3; ++round) {
    FakeTake take(1);
    Request(take);
    EXPECT_TRUE(Apply(2, round + 1));
    EXPECT_EQ(FakeSum::last_result_bytes, sizeof(float));  // One element.
  }
}

TEST_F(AccumulatorTest, AStaleGradientIsDroppedAndCounted) {
  accumulator_.SetGlobalStep(5);
  EXPECT_FALSE(Apply(100, 4));
  EXPECT_FALSE(Apply(100, -1));
  EXPECT_EQ(accumulator_.num_dropped(), 2);
  EXPECT_EQ(accumulator_.num_accumulated(), 0);
  EXPECT_TRUE(Apply(1, 5));
  EXPECT_TRUE(Apply(3, 6));
  EXPECT_EQ(accumulator_.num_dropped(), 2);
  FakeTake take(1);
  Request(take);
  ExpectServed(take, 4);
}

TEST_F(AccumulatorTest, SettingTheStepTouchesNeitherGradientsNorTakes) {
  Apply(1);
  FakeTake take(2);
  Request(take);
  EXPECT_EQ(accumulator_.SetGlobalStep(10), 0);
  EXPECT_EQ(accumulator_.num_accumulated(), 1);
  EXPECT_FALSE(take.is_done());
  EXPECT_FALSE(Apply(100, 9));
  Apply(3, 10);
  ExpectServed(take, 4);
  EXPECT_EQ(accumulator_.global_step(), 11);
  EXPECT_EQ(accumulator_.SetGlobalStep(-7), 11);
  EXPECT_TRUE(Apply(1, -7));
}

TEST_F(AccumulatorTest, TryServeTakesOnlyWhatIsThereAlready) {
  FakeTake take(2);
  EXPECT_FALSE(TryServe(take));
  Apply(1);
  EXPECT_FALSE(TryServe(take));
  EXPECT_FALSE(take.is_done());
  EXPECT_EQ(accumulator_.num_accumulated(), 1);
  EXPECT_EQ(accumulator_.global_step(), 0);
  Apply(3);
  EXPECT_FALSE(take.is_done());
  EXPECT_TRUE(TryServe(take));
  ExpectServed(take, 4);
}

TEST_F(AccumulatorTest, AtTheLastStepTakesFailAndTheGradientsStay) {
  constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
  accumulator_.SetGlobalStep(kLast);
  FakeTake first(1), second(1), third(2);
  for (const FakeTake* take : {&first, &second, &third}) Request(*take);
  EXPECT_TRUE(Apply(5, kLast));
  for (const FakeTake* take : {&first, &second}) {
    ASSERT_EQ(take->num_completions(), 1);
    EXPECT_EQ(take->status().code(), StatusCode::kOutOfRange);
  }
  EXPECT_FALSE(third.is_done());
  EXPECT_EQ(accumulator_.num_accumulated(), 1);
  EXPECT_EQ(accumulator_.global_step(), kLast);
  accumulator_.SetGlobalStep(kLast - 1);
  Apply(7, kLast);
  ExpectServed(third, 12);
  EXPECT_EQ(accumulator_.global_step(), kLast);
}

TEST_F(AccumulatorTest, ATakeWithoutMemoryForItsValueLeavesTheGradients) {
  for (bool prepares : {false, true}) {
    Accumulator accumulator(TestedOptions(prepares));
    const auto apply = [&] { EXPECT_TRUE(accumulator.Apply(0, Owned(3), workspace_).is_added()); };
    const FakeTake waiting(1), tried(1), throwing(1), served(4);
    for (const FakeTake* take : {&waiting, &tried}) {
      take->ptr()->reserve = [](const Shape& shape) {
        EXPECT_EQ(shape, Shape::Of({1}));
        return Status(StatusCode::kResourceExhausted, "refused");
      };
    }
    throwing.ptr()->reserve = [](const Shape&) -> Status { throw std::bad_alloc(); };
    accumulator.Request(waiting.ptr(), nullptr, workspace_);
    accumulator.Request(throwing.ptr(), nullptr, workspace_);
    accumulator.Request(served.ptr(), nullptr, workspace_);
    apply();  // It succeeds, although it finds that the takes get no memory.
    apply();
    EXPECT_FALSE(served.is_done());
    EXPECT_EQ(accumulator.num_accumulated(), 2);
    accumulator.Cancel(served.ptr(), workspace_);
    EXPECT_TRUE(accumulator.TryServe(tried.ptr(), workspace_));
    for (const FakeTake* take : {&waiting, &throwing, &tried}) {
      EXPECT_EQ(take->num_completions(), 1);
      EXPECT_EQ(take->status().code(), StatusCode::kResourceExhausted);
    }
    EXPECT_EQ(accumulator.global_step(), 0);
    const FakeTake next(2);
    EXPECT_TRUE(accumulator.TryServe(next.ptr(), workspace_));
    ExpectServed(next, 6);
  }
}

TEST_F(AccumulatorTest, TheNumberRequiredMustBePositive) {
  Apply(1);
  for (int64_t num_required : {int64_t{0}, int64_t{-1}, INT64_MIN}) {
    FakeTake requested(num_required), tried(num_required);
    Request(requested);
    EXPECT_TRUE(TryServe(tried));
    for (const FakeTake* take : {&requested, &tried}) {
      ASSERT_EQ(take->num_completions(), 1);
      EXPECT_EQ(take->status().code(), StatusCode::kInvalidArgument);
      EXPECT_EQ(take->status().message(),
                "Argument num_required must be positive, but was " + std::to_string(num_required));
    }
  }
  EXPECT_EQ(accumulator_.num_accumulated(), 1);
  EXPECT_EQ(accumulator_.global_step(), 0);
}

TEST(SumOptionsTest, TowersAndDevicesHaveTheirOwn) {
  SumOptions towers;
  towers.UseForTowers(/*folds_wait=*/false);
  EXPECT_EQ(towers.reduction, Reduction::kGlobalMean);
  EXPECT_EQ(towers.fold_bytes, 0u);
  SumOptions sums;
  sums.reduction = Reduction::kSum;
  sums.UseForTowers(/*folds_wait=*/true);
  EXPECT_EQ(sums.reduction, Reduction::kSum);
  EXPECT_GT(sums.fold_bytes, 0u);
  const SumOptions queue = SumOptions::OfQueue(/*max_inputs=*/5);
  EXPECT_EQ(queue.max_inputs, 5u);
  EXPECT_FALSE(queue.is_in_host_memory);
}

TEST(PendingTakeTest, ReleasesWhatItsFunctionsReferToWhenItEnds) {
  const auto value = std::make_shared<int>(1);
  PendingTake take(1, [value](const Status&, Value*) {});
  take.reserve = [value](const Shape&) { return Status(); };
  take.keep_alive = value;
  EXPECT_EQ(value.use_count(), 4);
  take.Complete();
  EXPECT_EQ(value.use_count(), 1);
}

}  // namespace
}  // namespace condacc
