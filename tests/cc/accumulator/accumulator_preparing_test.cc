// Tests of sums whose result is prepared before the take, without the lock.
#include <cstdint>
#include <future>
#include <limits>

#include "cc/core/accumulator/accumulator.h"
#include "gtest/gtest.h"
#include "tests/cc/accumulator/fake_sum.h"
#include "tests/cc/base/is_waiting.h"
#include "tests/cc/base/stop_point.h"

namespace condacc {
namespace {

class PreparingTest : public testing::Test {
 protected:
  bool Apply(int64_t number) {
    const ApplyResult result = accumulator_.Apply(0, Owned(number), plain_);
    EXPECT_TRUE(result.ok());
    return result.is_added();
  }
  void Request(const FakeTake& take) { accumulator_.Request(take.ptr(), nullptr, plain_); }

  // Requests a take of two gradients that have been added, and stops while its result is prepared.
  void StartPreparing() {
    Apply(1);
    Apply(2);
    request_ = std::async(std::launch::async,
                          [this] { accumulator_.Request(take_.ptr(), nullptr, stopping_); });
    stop_.AwaitArrivals(1);
  }
  void EndPreparing() {
    stop_.Open();
    request_.get();
  }
  void ExpectEnded(StatusCode code, int64_t global_step) {
    EXPECT_EQ(take_.num_completions(), 1);
    EXPECT_EQ(take_.status().code(), code);
    EXPECT_EQ(accumulator_.global_step(), global_step);
    EXPECT_EQ(accumulator_.num_accumulated(), 2);
  }

  StopPoint stop_;
  FakeWorkspace plain_, stopping_{&stop_};
  FakeTake take_{2};
  std::future<void> request_;
  Accumulator accumulator_{TestedOptions(/*prepares=*/true)};
};

TEST_F(PreparingTest, AGradientThatIsStaleOnceTheRoundIsTakenIsDropped) {
  StartPreparing();
  auto apply = std::async(std::launch::async, [this] { return Apply(4); });
  EXPECT_TRUE(IsWaiting(apply));
  EndPreparing();
  EXPECT_FALSE(apply.get());
  ExpectServed(take_, 3);
  EXPECT_EQ(accumulator_.num_dropped(), 1);
}

// The take is not completed at once, because its workspace, which may be freed then, is in use.
TEST_F(PreparingTest, ATakeThatIsCancelledMeanwhileEndsAfterwards) {
  StartPreparing();
  accumulator_.Cancel(take_.ptr(), plain_);
  EXPECT_FALSE(take_.is_done());
  EndPreparing();
  ExpectEnded(StatusCode::kCancelled, 0);
  EXPECT_TRUE(Apply(4));
  FakeTake next(1);
  Request(next);
  ExpectServed(next, 7);
}

TEST_F(PreparingTest, AResetNeedNotWaitForATakeThatIsCancelledDuringAFold) {
  const int64_t number = 1;
  auto apply = std::async(std::launch::async, [&] {
    return accumulator_.Apply(0, Borrowed(&number), stopping_).is_added();
  });
  stop_.AwaitArrivals(1);
  FakeTake ready(1);
  Request(ready);
  auto reset = std::async(std::launch::async, [this] { return accumulator_.Reset(5); });
  EXPECT_TRUE(IsWaiting(reset));
  accumulator_.Cancel(ready.ptr(), plain_);
  EXPECT_EQ(reset.get(), 1);
  stop_.Open();
  EXPECT_TRUE(apply.get());
}

TEST_F(PreparingTest, TheStepThatIsSetMeanwhileIsTheOneThatMovesOn) {
  StartPreparing();
  accumulator_.SetGlobalStep(10);
  EndPreparing();
  ExpectServed(take_, 3);
  EXPECT_EQ(accumulator_.global_step(), 11);
}

TEST_F(PreparingTest, TheLastStepThatIsSetMeanwhileCannotMoveOn) {
  constexpr int64_t kLast = std::numeric_limits<int64_t>::max();
  StartPreparing();
  accumulator_.SetGlobalStep(kLast);
  EndPreparing();
  ExpectEnded(StatusCode::kOutOfRange, kLast);
}

}  // namespace
}  // namespace condacc
