// Tests of calls that do not wait for another one that is adding. What comes of calls that meet in
// any order is the explorer's part.
#include <cstdint>
#include <future>

#include "cc/core/accumulator/accumulator.h"
#include "gtest/gtest.h"
#include "tests/cc/accumulator/fake_sum.h"
#include "tests/cc/base/stop_point.h"

namespace condacc {
namespace {

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
  // Applies in a thread, and returns when the thread has stopped.
  std::future<bool> StartApply(const FakeGradient& gradient) {
    auto apply = std::async(std::launch::async, [=] { return Apply(gradient, stopping_); });
    stop_.AwaitArrivals(1);
    return apply;
  }
  void Request(const FakeTake& take) { accumulator_.Request(take.ptr(), nullptr, plain_); }

  const int64_t one_ = 1;
  StopPoint stop_;
  FakeWorkspace plain_, stopping_{&stop_};
  Accumulator accumulator_{TestedOptions()};
};

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

TEST_F(InterleavingTest, TheNextRoundDoesNotWaitForTheOneThatIsTaken) {
  constexpr int kFolded = 7;
  for (int i = 1; i < kFolded; ++i) EXPECT_TRUE(Apply(Owned(1)));
  auto folder = StartApply(Owned(1));
  FakeTake slow(1), fast(2);
  Request(slow);
  Request(fast);
  EXPECT_TRUE(Apply(Owned(1), 1));
  EXPECT_TRUE(Apply(Borrowed(&one_), 1));
  EXPECT_FALSE(slow.is_done());
  ExpectServed(fast, 2);
  EXPECT_EQ(accumulator_.global_step(), 2);
  stop_.Open();
  EXPECT_TRUE(folder.get());
  ExpectServed(slow, kFolded);
}

}  // namespace
}  // namespace condacc
