// What happens when calls meet while one of them is in the middle of adding.
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <vector>

#include "cc/core/accumulator.h"
#include "gtest/gtest.h"
#include "tests/cc/accumulator_support.h"
#include "tests/cc/gate.h"

namespace condacc {
namespace {

constexpr size_t kSize = 16;

std::vector<float> Ones() { return std::vector<float>(kSize, 1.0f); }

// An accumulator one of whose calls, on a thread of its own, stands in the middle of a fold.
class MidFold : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < kFoldAt; ++i) EXPECT_TRUE(ApplyOwned());
    folder_ = std::async(std::launch::async, [this] { return Apply(Owned(Ones()), gated_); });
    gate_.AwaitArrivals(1);
    ASSERT_EQ(accumulator_.num_accumulated(), kFoldAt + 1);
  }

  bool Apply(Gradient gradient, TestWorkspace& workspace) {
    bool accepted = false;
    EXPECT_TRUE(accumulator_.Apply(0, std::move(gradient), workspace, &accepted).ok());
    return accepted;
  }
  bool ApplyOwned() { return Apply(Owned(Ones()), plain_); }

  std::future<bool> ApplyOnThread(Gradient gradient) {
    return std::async(std::launch::async, [this, gradient = std::move(gradient)]() mutable {
      TestWorkspace workspace;
      return Apply(std::move(gradient), workspace);
    });
  }

  static bool IsWaiting(const std::future<bool>& call) {
    return call.wait_for(std::chrono::milliseconds(20)) == std::future_status::timeout;
  }

  Gate gate_;
  TestWorkspace plain_;
  GatedWorkspace gated_{&gate_};
  DenseAccumulator accumulator_{OptionsOf<float>(/*mean=*/false)};
  std::future<bool> folder_;
};

TEST_F(MidFold, TheWorkerFinishesATakeThatComesDuringItsFold) {
  RecordedTake take(kFoldAt + 1);
  accumulator_.Request(take.ptr(), nullptr, plain_);
  EXPECT_FALSE(take.is_done());
  EXPECT_EQ(accumulator_.num_accumulated(), 0);
  EXPECT_EQ(accumulator_.global_step(), 1);
  gate_.Open();
  EXPECT_TRUE(folder_.get());
  ASSERT_TRUE(take.is_served());
  EXPECT_EQ(take.values<float>(), std::vector<float>(kSize, kFoldAt + 1));
}

TEST_F(MidFold, ManyOwnedGradientsAreAppendedMeanwhile) {
  constexpr int kMore = 12;
  for (int i = 0; i < kMore; ++i) EXPECT_TRUE(ApplyOwned());
  gate_.Open();
  EXPECT_TRUE(folder_.get());
  RecordedTake take(1);
  ASSERT_TRUE(accumulator_.RequestIfReady(take.ptr(), plain_));
  EXPECT_EQ(take.values<float>(), std::vector<float>(kSize, kFoldAt + 1 + kMore));
}

}  // namespace
}  // namespace condacc
