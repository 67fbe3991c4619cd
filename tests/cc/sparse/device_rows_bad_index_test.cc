// Tests of gradients with a bad index on a device, which is detected only when they are merged, and
// spoils their round. The CPU is the device.
#include <cstddef>
#include <cstdint>
#include <limits>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/cc/accumulator/by_contributor.h"
#include "tests/cc/accumulator/saved_bytes.h"
#include "tests/cc/sparse/device_rows_fixture.h"

namespace condacc {
namespace {

constexpr size_t kNever = size_t{1} << 30;  // Bytes before a fold.
constexpr char kTooHigh[] = "index of slice 1 exceeded limits of shape; index is 50 exceeded 50";

// The parameter is SumOptions::fold_bytes: gradients are folded as soon as possible, or never.
class BadRowsTest : public DeviceRowsTest, public testing::WithParamInterface<size_t> {
 protected:
  void SetUp() override { MakeWith(Reduction::kMean); }
  void MakeWith(Reduction reduction) {
    auto options = Options(/*fold_bytes=*/GetParam());
    options.sum.shape = Shape::Of({kRange, 1});
    options.sum.reduction = reduction;
    Make(options);
  }

  void ApplyBad(int64_t bad_index = kRange) { ApplyRows({1, bad_index}, {1000, 1000}); }
  // Applies a gradient with a row of its own and one that all gradients have.
  void ApplyGood(int64_t row) { ApplyRows({row, 0}, {1, static_cast<float>(row)}); }
  void ApplyTwenty() {
    for (int64_t i = 0; i < 20; ++i) i == 3 ? ApplyBad() : ApplyGood(i + 1);
  }

  // Expects the error of a bad index, with a text that contains `words`.
  static void ExpectBadIndex(const Status& status, const std::string& words) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(),
              "Shape mismatch: " + words +
                  ". All gradients of its round are lost: a take of the round fails and discards "
                  "them");
  }
  static void ExpectLost(const DeviceTake& take, const std::string& words = kTooHigh) {
    EXPECT_EQ(take.num_completions(), 1);
    ExpectBadIndex(take.status(), words);
  }
  void ExpectTakeToLose(int64_t num_required, const std::string& words = kTooHigh) {
    DeviceTake take(num_required);
    Request(take);
    ExpectLost(take, words);
    EXPECT_EQ(accumulator_->num_accumulated(), 0);
  }
  Status Save() {
    return accumulator_->Save(device_, [](size_t, char**) {
      return Status(StatusCode::kInternal, "Memory is asked for");
    });
  }
};
INSTANTIATE_TEST_SUITE_P(WithAndWithoutFolds, BadRowsTest, testing::Values(size_t{1}, kNever));

TEST_P(BadRowsTest, ABadIndexFailsTheTakeAndTheNextRoundWorks) {
  ApplyTwenty();
  EXPECT_EQ(accumulator_->num_accumulated(), 20);
  ExpectTakeToLose(20);
  EXPECT_EQ(accumulator_->global_step(), 1) << "the round has been taken";
  EXPECT_EQ(budget_.num_held(), 0u);
  for (int64_t i = 0; i < 20; ++i) ApplyGood(i + 1);
  EXPECT_EQ(Take(20).values[0], 20 * 21 / 2 / 20.0f);
  EXPECT_EQ(accumulator_->global_step(), 2);
  EXPECT_EQ(budget_.num_held(), 0u);
}

TEST_P(BadRowsTest, ErrorsNameTheRow) {
  struct Case {
    int64_t index;
    std::string words;
  };
  for (const auto& [index, words] :
       {Case{-2, "is negative; index is -2"},
        Case{std::numeric_limits<int64_t>::min(),
             "is negative; index is " + std::to_string(std::numeric_limits<int64_t>::min())},
        Case{kRange, "exceeded limits of shape; index is 50 exceeded 50"},
        Case{(int64_t{1} << 32) + 2,
             "exceeded limits of shape; index is 4294967298 exceeded 50"}}) {
    ApplyBad(index);
    ExpectTakeToLose(1, "index of slice 1 " + words);
  }
}

TEST_P(BadRowsTest, ErrorsNameTheContributor) {
  for (int64_t contributor = 0; contributor < 20; ++contributor) {
    const Slices slices{{9, contributor == 3 ? -1 : 8}, {4, 4}};
    const ApplyResult result =
        accumulator_->Apply(0, By(contributor, GradientOf(slices, 1, /*owned=*/true)), device_);
    ASSERT_TRUE(result.is_added());
  }
  ExpectTakeToLose(20, "index of slice 1 is negative; index is -1 (contributor 3)");
  ApplyGood(1);
  EXPECT_EQ(Take(1).indices.size(), 2u) << "the contributors of the round are forgotten";
}

TEST_P(BadRowsTest, NothingIsLeftOfARoundOfBadGradients) {
  Make(Options(GetParam()));
  for (int i = 0; i < 9; ++i) ApplyBad(-1);
  ExpectTakeToLose(9, "index of slice 1 is negative; index is -1");
  const std::vector<Slices> wider = Gradients(3, 4);
  ApplyAll(wider, 4);
  EXPECT_EQ(Take(3), Merged(wider, 4, Reduction::kMean)) << "of another width";
}

TEST_P(BadRowsTest, ABadGradientFailsTheWaitingTakeAndTheNextOneWaitsForTheNextRound) {
  DeviceTake first(2), second(2);
  accumulator_->Request(first.ptr(), nullptr, device_);
  accumulator_->Request(second.ptr(), nullptr, device_);
  ApplyBad();
  EXPECT_EQ(first.num_completions(), 0);
  ApplyGood(1);
  ExpectLost(first);
  ApplyGood(1);
  EXPECT_EQ(second.num_completions(), 0);
  ApplyGood(3);
  ASSERT_EQ(second.num_completions(), 1);
  EXPECT_EQ(second.slices(), (Slices{{0, 1, 3}, {2, 1, 1}}));
}

TEST_P(BadRowsTest, ATakeThatNeedNotWaitFailsToo) {
  ApplyGood(1);
  ApplyBad();
  DeviceTake tried(2);
  EXPECT_TRUE(accumulator_->TryServe(tried.ptr(), device_));
  ExpectLost(tried);
  DeviceTake again(1);
  EXPECT_FALSE(accumulator_->TryServe(again.ptr(), device_)) << "nothing is left";
}

TEST_P(BadRowsTest, AResetDiscardsBadGradientsSilently) {
  for (int64_t i = 0; i < 20; ++i) i % 5 == 0 ? ApplyBad() : ApplyGood(i + 1);
  EXPECT_EQ(accumulator_->Reset(7), 20);
  ApplyRows({5}, {6});
  EXPECT_EQ(Take(1), (Slices{{5}, {6}}));
  EXPECT_EQ(accumulator_->global_step(), 8);
}

TEST_P(BadRowsTest, ASaveReturnsTheErrorAndChangesNothing) {
  ApplyTwenty();
  ExpectBadIndex(Save(), kTooHigh);
  ExpectBadIndex(Save(), kTooHigh);
  EXPECT_EQ(accumulator_->num_accumulated(), 20);
  ExpectTakeToLose(20);
  SaveAndRestore(*accumulator_, device_);
}

TEST_P(BadRowsTest, ACancelledTakeLeavesTheErrorToTheNext) {
  ApplyTwenty();
  DeviceTake cancelled(20);
  device_.OnSort([&] { accumulator_->Cancel(cancelled.ptr(), device_); });
  Request(cancelled);
  device_.OnSort(nullptr);
  if (GetParam() == kNever) {
    EXPECT_EQ(cancelled.status().code(), StatusCode::kCancelled);
    EXPECT_EQ(accumulator_->num_accumulated(), 20);
    ExpectBadIndex(Save(), kTooHigh);
    ApplyBad(-1);
    ExpectTakeToLose(21);
  } else {
    ExpectLost(cancelled);  // A fold has found it, and the take sorts nothing.
  }
}

TEST_P(BadRowsTest, ATakeOfAnotherStepLeavesTheErrorToTheNext) {
  if (GetParam() != kNever) return;
  ApplyTwenty();
  const DeviceTake late(20, /*global_step=*/0);
  device_.OnSort([&] { accumulator_->SetGlobalStep(4); });
  EXPECT_TRUE(accumulator_->TryServe(late.ptr(), device_));
  device_.OnSort(nullptr);
  EXPECT_EQ(late.status().code(), StatusCode::kFailedPrecondition);
  ExpectTakeToLose(20);
  EXPECT_EQ(accumulator_->global_step(), 5);
}

TEST_P(BadRowsTest, OnlyOneTakeFailsWhenMemoryIsShort) {
  for (int ordinal = 0; ordinal < 8; ++ordinal) {
    for (int64_t i = 0; i < 20; ++i) {
      device_.memory().RefuseAllocation(ordinal % 4);
      i == 3 ? ApplyBad() : ApplyGood(i + 1);
    }
    device_.memory().RefuseAllocation(ordinal % 3);
    int num_lost = 0;
    while (accumulator_->num_accumulated() > 0) {
      DeviceTake take(20);
      Request(take);
      EXPECT_FALSE(take.status().ok());
      num_lost += take.status().code() == StatusCode::kInvalidArgument ? 1 : 0;
    }
    EXPECT_EQ(num_lost, 1);
  }
  EXPECT_EQ(budget_.num_held(), 0u);
}

TEST_P(BadRowsTest, ARefusedReadFailsTheTakeAndTakesNothing) {
  ApplyGood(1);
  ApplyBad();
  device_.OnSort([&] { device_.Refuse(true); });
  DeviceTake refused(2);
  Request(refused);
  EXPECT_EQ(refused.status().code(), StatusCode::kInternal);
  device_.Refuse(false);
  device_.OnSort(nullptr);
  EXPECT_EQ(accumulator_->num_accumulated(), 2);
  ExpectTakeToLose(2);
}

TEST_P(BadRowsTest, OnlyTheIndicesOfTheBadGradientAreReadByTheHost) {
  for (int64_t i = 0; i < 20; ++i) ApplyGood(i + 1);
  Take(20);
  EXPECT_EQ(device_.num_waits(), 0);
  ApplyTwenty();
  ExpectTakeToLose(20);
  EXPECT_EQ(device_.num_waits(), 1);
}

// Each value is 1, so a take of a good round must return at least as many as it has required, and
// one bad gradient fails one take.
TEST_P(BadRowsTest, OneTakeFailsForEachLostRoundOfManyThreads) {
  constexpr int kThreads = 3, kApplies = 200;
  struct User {
    CpuDevice device;
    std::list<DeviceTake> takes;  // Another thread may complete them.
  };
  MakeWith(Reduction::kSum);
  std::vector<User> users(kThreads);
  const auto run = [&](User& user) {
    for (int i = 0; i < kApplies; ++i) {
      const int64_t row = i % 50 == 3 ? -1 : i % kRange;
      const auto result = accumulator_->Apply(std::numeric_limits<int64_t>::max(),
                                              GradientOf({{row}, {1}}, 1, true), user.device);
      ASSERT_TRUE(result.is_added());
      if (i % 16 != 0) continue;
      user.takes.emplace_back(5);
      if (!accumulator_->TryServe(user.takes.back().ptr(), user.device)) {
        user.takes.pop_back();
      }
    }
  };
  std::vector<std::thread> threads;
  for (User& user : users) threads.emplace_back([&] { run(user); });
  for (std::thread& thread : threads) thread.join();
  while (accumulator_->num_accumulated() > 0) Request(users[0].takes.emplace_back(1));
  int64_t num_taken = 0, num_lost = 0;
  for (const User& user : users) {
    for (const DeviceTake& take : user.takes) {
      ASSERT_EQ(take.num_completions(), 1);
      num_lost += take.status().code() == StatusCode::kInvalidArgument ? 1 : 0;
      if (!take.status().ok()) continue;
      for (const float value : take.slices().values) num_taken += static_cast<int64_t>(value);
    }
  }
  constexpr int kNumBad = kThreads * kApplies / 50;
  EXPECT_GE(num_lost, 1);
  EXPECT_LE(num_lost, kNumBad);
  EXPECT_GT(num_taken, 0);
  EXPECT_LE(num_taken, kThreads * kApplies - kNumBad);
  EXPECT_EQ(budget_.num_held(), 0u);
}

}  // namespace
}  // namespace condacc
