// Tests of gradients with a bad index on a device, which is detected only when they are merged. The
// CPU is the device.
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

  // Expects a take to fail because of a bad gradient, with an error that contains `words`.
  void ExpectRefused(const DeviceTake& take, const std::string& words) {
    EXPECT_EQ(take.num_completions(), 1);
    EXPECT_EQ(take.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(take.status().message(),
              "Shape mismatch: " + words + "; the others stay accumulated");
  }
  void ExpectTakeToBeRefused(size_t num_required, const std::string& words) {
    DeviceTake take(static_cast<int64_t>(num_required));
    Request(take);
    ExpectRefused(take, words);
  }
  static std::string Discarded(const char* what = kTooHigh) {
    return std::string(what) + ". This gradient was discarded";
  }
};
INSTANTIATE_TEST_SUITE_P(WithAndWithoutFolds, BadRowsTest, testing::Values(size_t{1}, kNever));

TEST_P(BadRowsTest, ABadGradientFailsOneTakeAndTheOthersStay) {
  for (int64_t i = 0; i < 20; ++i) i == 3 ? ApplyBad() : ApplyGood(i + 1);
  EXPECT_EQ(accumulator_->num_accumulated(), 20);
  ExpectTakeToBeRefused(20, Discarded());
  EXPECT_EQ(accumulator_->num_accumulated(), 19);
  EXPECT_EQ(accumulator_->global_step(), 0);
  const Slices taken = Take(19);
  ASSERT_EQ(taken.indices.size(), 20u);
  EXPECT_EQ(taken.values[0], (20 * 21 / 2 - 4) / 19.0f);
  EXPECT_EQ(accumulator_->global_step(), 1);
  EXPECT_EQ(accumulator_->num_accumulated(), 0);
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
    ExpectTakeToBeRefused(1, Discarded(("index of slice 1 " + words).c_str()));
  }
}

TEST_P(BadRowsTest, SeveralBadGradientsFailOneTakeTogether) {
  MakeWith(Reduction::kGlobalMean);
  for (int64_t i = 0; i < 30; ++i) i % 7 == 3 ? ApplyBad(kRange + i) : ApplyRows({5}, {26});
  ExpectTakeToBeRefused(30,
                        "index of slice 1 exceeded limits of shape; index is 53 exceeded 50. This "
                        "gradient and 3 more like it were discarded");
  EXPECT_EQ(accumulator_->num_accumulated(), 26);
  EXPECT_EQ(Take(26), (Slices{{5}, {26}})) << "divided by the number of good gradients";
}

TEST_P(BadRowsTest, NothingIsLeftOfARoundOfBadGradients) {
  Make(Options(GetParam()));
  for (int i = 0; i < 9; ++i) ApplyBad(-1);
  ExpectTakeToBeRefused(9,
                        "index of slice 1 is negative; index is -1. This gradient and 8 more like "
                        "it were discarded");
  EXPECT_EQ(accumulator_->num_accumulated(), 0);
  const std::vector<Slices> wider = Gradients(3, 4);
  ApplyAll(wider, 4);
  EXPECT_EQ(Take(3), Merged(wider, 4, Reduction::kMean)) << "of another width";
}

TEST_P(BadRowsTest, ABadGradientThatCompletesAWaitingTakeFailsIt) {
  DeviceTake first(3), second(2);
  accumulator_->Request(first.ptr(), nullptr, device_);
  accumulator_->Request(second.ptr(), nullptr, device_);
  ApplyGood(1);
  ApplyBad();
  EXPECT_EQ(first.num_completions(), 0);
  ApplyGood(3);
  ExpectRefused(first, Discarded());
  ASSERT_EQ(second.num_completions(), 1) << "the good ones are enough for it";
  ASSERT_TRUE(second.status().ok()) << second.status().message();
  EXPECT_EQ(second.slices(), (Slices{{0, 1, 3}, {2, 1, 1}}));
}

TEST_P(BadRowsTest, ATakeBehindTheOneThatFailsWaitsForGoodGradients) {
  DeviceTake first(2), second(2);
  accumulator_->Request(first.ptr(), nullptr, device_);
  accumulator_->Request(second.ptr(), nullptr, device_);
  ApplyBad();
  ApplyGood(1);
  ExpectRefused(first, Discarded());
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
  ExpectRefused(tried, Discarded());
  DeviceTake again(2);
  EXPECT_FALSE(accumulator_->TryServe(again.ptr(), device_)) << "one is left";
}

TEST_P(BadRowsTest, AResetDiscardsBadGradientsSilently) {
  for (int64_t i = 0; i < 20; ++i) i % 5 == 0 ? ApplyBad() : ApplyGood(i + 1);
  EXPECT_EQ(accumulator_->Reset(7), 20);
  ApplyRows({5}, {6});
  EXPECT_EQ(Take(1), (Slices{{5}, {6}}));
  EXPECT_EQ(accumulator_->global_step(), 8);
}

TEST_P(BadRowsTest, AResetAfterTheFailedTakeDiscardsTheRest) {
  for (int64_t i = 0; i < 20; ++i) i % 5 == 0 ? ApplyBad() : ApplyGood(i + 1);
  DeviceTake take(20);
  Request(take);
  EXPECT_EQ(accumulator_->Reset(0), 16);
  ApplyBad(-9);
  ExpectTakeToBeRefused(1, Discarded("index of slice 1 is negative; index is -9"));
}

TEST_P(BadRowsTest, ACancelledTakeLeavesTheErrorToTheNext) {
  for (int64_t i = 0; i < 20; ++i) i == 3 ? ApplyBad() : ApplyGood(i + 1);
  DeviceTake cancelled(20);
  device_.OnSort([&] { accumulator_->Cancel(cancelled.ptr(), device_); });
  Request(cancelled);
  device_.OnSort(nullptr);
  EXPECT_EQ(cancelled.status().code(), StatusCode::kCancelled);
  EXPECT_EQ(accumulator_->num_accumulated(), 20);
  const auto allocate = [](size_t, char**) { return Status(); };
  const Status saved = accumulator_->Save(device_, allocate);
  EXPECT_EQ(saved.code(), StatusCode::kInvalidArgument) << "the take has found the bad gradient";
  ApplyBad(-1);
  ExpectTakeToBeRefused(
      21, std::string(kTooHigh) + ". This gradient and 1 more like it were discarded");
  EXPECT_EQ(Take(19).indices.size(), 20u);
}

TEST_P(BadRowsTest, ATakeOfAnotherStepLeavesTheErrorToTheNext) {
  for (int64_t i = 0; i < 20; ++i) i == 3 ? ApplyBad() : ApplyGood(i + 1);
  const DeviceTake late(20, /*global_step=*/0);
  device_.OnSort([&] { accumulator_->SetGlobalStep(4); });
  EXPECT_TRUE(accumulator_->TryServe(late.ptr(), device_));
  device_.OnSort(nullptr);
  EXPECT_EQ(late.status().code(), StatusCode::kFailedPrecondition);
  ExpectTakeToBeRefused(20, Discarded());
  EXPECT_EQ(accumulator_->global_step(), 4);
}

TEST_P(BadRowsTest, TheContributorOfABadGradientMayApplyAnother) {
  const auto apply = [&](int64_t contributor, int64_t row) {
    return accumulator_
        ->Apply(0, By(contributor, GradientOf({{row}, {4}}, 1, /*owned=*/true)), device_)
        .outcome();
  };
  for (int64_t i = 0; i < 20; ++i) EXPECT_EQ(apply(i, i == 3 ? -1 : 9), ApplyOutcome::kAdded);
  EXPECT_EQ(apply(3, 9), ApplyOutcome::kDuplicate) << "nobody knows yet that it is bad";
  ExpectTakeToBeRefused(20, Discarded("index of slice 0 is negative; index is -1"));
  for (int64_t i = 0; i < 20; ++i) {
    EXPECT_EQ(apply(i, 9), i == 3 ? ApplyOutcome::kAdded : ApplyOutcome::kDuplicate);
  }
  EXPECT_EQ(Take(20), (Slices{{9}, {4}}));
}

TEST_P(BadRowsTest, NothingElseIsLostWhenMemoryIsShort) {
  for (int ordinal = 0; ordinal < 8; ++ordinal) {
    for (int64_t i = 0; i < 20; ++i) {
      device_.memory().RefuseAllocation(ordinal % 4);
      i == 3 ? ApplyBad() : ApplyGood(i + 1);
    }
    device_.memory().RefuseAllocation(ordinal % 3);
    int num_refused = 0;
    for (int attempt = 0; attempt < 3; ++attempt) {
      DeviceTake take(19);
      Request(take);
      if (take.status().ok()) {
        EXPECT_EQ(take.slices().indices.size(), 20u);
        break;
      }
      num_refused += take.status().code() == StatusCode::kInvalidArgument ? 1 : 0;
    }
    EXPECT_EQ(num_refused, 1);
    EXPECT_EQ(accumulator_->num_accumulated(), 0);
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
  ExpectTakeToBeRefused(2, Discarded());
}

TEST_P(BadRowsTest, IndicesAreReadByTheHostOnlyFromTheBadGradientOn) {
  for (int64_t i = 0; i < 20; ++i) ApplyGood(i + 1);
  Take(20);
  EXPECT_EQ(device_.num_waits(), 0);
  if (GetParam() != kNever) return;
  for (int64_t i = 0; i < 20; ++i) i == 17 ? ApplyBad() : ApplyGood(i + 1);
  DeviceTake take(20);
  Request(take);
  EXPECT_EQ(device_.num_waits(), 3);
}

// Each value is 1, so the takes of sums must return as many as there were good gradients.
TEST_P(BadRowsTest, NoGradientIsLostAmongThreads) {
  constexpr int kThreads = 3, kApplies = 200;
  struct User {
    CpuDevice device;
    std::list<DeviceTake> takes;  // Another thread may complete them.
  };
  MakeWith(Reduction::kSum);
  std::vector<User> users(kThreads);
  const auto run = [&](User& user) {
    for (int i = 0; i < kApplies; ++i) {
      const int64_t row = i % 10 == 3 ? -1 : i % kRange;
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
  int64_t num_taken = 0, num_refused = 0;
  for (const User& user : users) {
    for (const DeviceTake& take : user.takes) {
      ASSERT_EQ(take.num_completions(), 1);
      num_refused += take.status().code() == StatusCode::kInvalidArgument ? 1 : 0;
      if (!take.status().ok()) continue;
      for (const float value : take.slices().values) num_taken += static_cast<int64_t>(value);
    }
  }
  EXPECT_EQ(num_taken, kThreads * kApplies * 9 / 10);
  EXPECT_GT(num_refused, 0);
  EXPECT_EQ(budget_.num_held(), 0u);
}

}  // namespace
}  // namespace condacc
