// Tests of calls that arrive while another call is adding.
#include <cstdint>
#include <future>

#include "cc/core/accumulator/accumulator.h"
#include "gtest/gtest.h"
#include "tests/cc/accumulator/fake_sum.h"
#include "tests/cc/base/is_waiting.h"
#include "tests/cc/base/stop_point.h"

namespace condacc {
namespace {

constexpr int kFolded = 7;  // The number of gradients that are folded.

// The gradients of all tests are ones.
class InterleavingTest : public testing::Test {
 protected:
  bool Apply(const FakeGradient& gradient, int64_t local_step = 0) {
    return Apply(gradient, plain_, local_step);
  }
  bool Apply(const FakeGradient& gradient, FakeWorkspace& workspace, int64_t local_step = 0) {
    const ApplyResult result = accumulator_.Apply(local_step, gradient, workspace);
    EXPECT_TRUE(result.ok());
    return result.is_added();
  }
  std::future<bool> ApplyInThread(const FakeGradient& gradient) {
    return std::async(std::launch::async, [=] { return Apply(gradient); });
  }
  // Applies in a thread, and returns when the thread has stopped.
  std::future<bool> StartApply(const FakeGradient& gradient) {
    auto apply = std::async(std::launch::async, [=] { return Apply(gradient, stopping_); });
    stop_.AwaitArrivals(1);
    return apply;
  }
  void Request(const FakeTake& take) { accumulator_.Request(take.ptr(), nullptr, plain_); }
  // Requests a take in a thread, and returns when the thread has stopped.
  std::future<void> StartRequest(const FakeTake& take) {
    auto request = std::async(std::launch::async, [this, &take] {
      accumulator_.Request(take.ptr(), nullptr, stopping_);
    });
    stop_.AwaitArrivals(1);
    return request;
  }

  const int64_t one_ = 1;
  StopPoint stop_;
  FakeWorkspace plain_, stopping_{&stop_};
  Accumulator accumulator_{TestedOptions()};
};

TEST_F(InterleavingTest, GradientsThatComeWhileARoundEndsBelongToTheNext) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Apply(Owned(1)));
  FakeTake ending(3), next(1);
  auto request = StartRequest(ending);
  EXPECT_EQ(accumulator_.num_accumulated(), 0);
  EXPECT_EQ(accumulator_.global_step(), 1);
  EXPECT_FALSE(Apply(Owned(1), 0));
  EXPECT_TRUE(Apply(Borrowed(&one_), 1));
  Request(next);
  ExpectServed(next, 1);
  EXPECT_FALSE(ending.is_done());
  stop_.Open();
  request.get();
  ExpectServed(ending, 3);
}

TEST_F(InterleavingTest, TheApplyThatServesATakeIsNotInTheWayOfOthers) {
  FakeTake take(1);
  Request(take);
  auto apply = StartApply(Borrowed(&one_));
  for (int round = 1; round <= 3; ++round) {
    FakeTake other(2);
    Request(other);
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(Apply(Owned(1), round));
    ExpectServed(other, 2);
  }
  stop_.Open();
  EXPECT_TRUE(apply.get());
  ExpectServed(take, 1);
}

// A request for one gradient more than there are folds before it waits.
TEST_F(InterleavingTest, TheLastGradientMayComeWhileARequestFolds) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Apply(Owned(1)));
  FakeTake take(4);
  auto request = StartRequest(take);
  EXPECT_TRUE(Apply(Owned(1)));
  stop_.Open();
  request.get();
  ExpectServed(take, 4);
}

TEST_F(InterleavingTest, AnotherTakeMayComeWhileARequestFolds) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Apply(Owned(1)));
  FakeTake take(4), other(3);
  auto request = StartRequest(take);
  Request(other);
  EXPECT_TRUE(Apply(Owned(1), 1));
  stop_.Open();
  request.get();
  ExpectServed(other, 3);
  for (int i = 1; i < 4; ++i) {
    EXPECT_FALSE(take.is_done());
    EXPECT_TRUE(Apply(Owned(1), 1));
  }
  ExpectServed(take, 4);
}

// One call, the folder, has stopped in the middle of a fold.
class MidFold : public InterleavingTest {
 protected:
  void SetUp() override {
    for (int i = 1; i < kFolded; ++i) EXPECT_TRUE(Apply(Owned(1)));
    folder_ = StartApply(Owned(1));
    ASSERT_EQ(accumulator_.num_accumulated(), kFolded);
  }
  void EndFold() {
    stop_.Open();
    EXPECT_TRUE(folder_.get());
  }
  void ExpectTaken(int count) {
    FakeTake take(count);
    ASSERT_TRUE(accumulator_.TryServe(take.ptr(), plain_));
    ExpectServed(take, count);
    EXPECT_EQ(accumulator_.num_accumulated(), 0);
  }

  std::future<bool> folder_;
};

TEST_F(MidFold, TheFolderFinishesATakeThatComesDuringItsFold) {
  FakeTake take(kFolded);
  Request(take);
  EXPECT_FALSE(take.is_done());
  EXPECT_EQ(accumulator_.num_accumulated(), 0);
  EXPECT_EQ(accumulator_.global_step(), 1);
  EndFold();
  ExpectServed(take, kFolded);
}

TEST_F(MidFold, WhoBringsTooManyWaitsForTheFold) {
  for (int i = 1; i < 2 * kFolded; ++i) EXPECT_TRUE(Apply(Owned(1)));
  auto waiting = ApplyInThread(Owned(1));
  auto waiting_too = ApplyInThread(Owned(1));
  AwaitAccumulated(accumulator_, 3 * kFolded + 1);
  EXPECT_TRUE(IsWaiting(waiting, waiting_too));
  EndFold();
  EXPECT_TRUE(waiting.get());
  EXPECT_TRUE(waiting_too.get());
  ExpectTaken(3 * kFolded + 1);
}

TEST_F(MidFold, ABorrowedGradientWaitsUntilItIsAdded) {
  int64_t number = 1;
  auto borrowed = ApplyInThread(Borrowed(&number));
  AwaitAccumulated(accumulator_, kFolded + 1);
  EXPECT_TRUE(IsWaiting(borrowed));
  stop_.Open();
  EXPECT_TRUE(borrowed.get());
  number = -1000;
  EXPECT_TRUE(folder_.get());
  ExpectTaken(kFolded + 1);
}

TEST_F(MidFold, TheFolderAddsABorrowedGradientOfATakenRound) {
  int64_t number = 1;
  auto borrowed = ApplyInThread(Borrowed(&number));
  AwaitAccumulated(accumulator_, kFolded + 1);
  FakeTake take(1);
  Request(take);
  EXPECT_TRUE(IsWaiting(borrowed));
  stop_.LetOneThrough();  // The fold continues.
  stop_.AwaitArrivals(2);
  EXPECT_TRUE(IsWaiting(borrowed));
  EXPECT_FALSE(take.is_done());
  stop_.LetOneThrough();  // The round ends.
  EXPECT_TRUE(borrowed.get());
  number = -1000;
  EXPECT_TRUE(folder_.get());
  ExpectServed(take, kFolded + 1);
}

TEST_F(MidFold, TheNextRoundDoesNotWaitForTheOneThatIsTaken) {
  FakeTake slow(1), fast(2);
  Request(slow);
  Request(fast);
  EXPECT_TRUE(Apply(Owned(1), 1));
  EXPECT_TRUE(Apply(Borrowed(&one_), 1));
  EXPECT_FALSE(slow.is_done());
  ExpectServed(fast, 2);
  EXPECT_EQ(accumulator_.global_step(), 2);
  EndFold();
  ExpectServed(slow, kFolded);
}

TEST_F(MidFold, ATakeWhoseRoundIsBeingAddedCannotBeCancelledAnyMore) {
  FakeTake take(1);
  Request(take);
  accumulator_.Cancel(take.ptr(), plain_);
  EXPECT_FALSE(take.is_done());
  EndFold();
  EXPECT_EQ(take.num_completions(), 1);
  EXPECT_TRUE(take.is_served());
}

TEST_F(MidFold, ACancelledTakeLeavesTheGradientsToTheNext) {
  FakeTake cancelled(100), next(1);
  Request(cancelled);
  Request(next);
  accumulator_.Cancel(cancelled.ptr(), plain_);
  EXPECT_EQ(cancelled.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(accumulator_.num_accumulated(), 0) << "the round is the next take's";
  EXPECT_FALSE(next.is_done());
  EndFold();
  ExpectServed(next, kFolded);
}

TEST_F(MidFold, TheStepMayBeSetMeanwhile) {
  EXPECT_EQ(accumulator_.SetGlobalStep(1), 0);
  EXPECT_FALSE(Apply(Owned(1)));
  EXPECT_EQ(accumulator_.num_dropped(), 1);
  EXPECT_TRUE(Apply(Owned(1), 1));
  EndFold();
  ExpectTaken(kFolded + 1);
}

}  // namespace
}  // namespace condacc
