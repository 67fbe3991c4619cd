// Makes operator new fail at each place where an accumulator calls it.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/dense/dense_sum.h"
#include "gtest/gtest.h"
#include "tests/cc/accumulator/by_contributor.h"
#include "tests/cc/base/failing_new.h"
#include "tests/cc/dense/dense_support.h"

namespace condacc {
namespace {

constexpr int kManyAllocations = 12;  // More than any call makes.

// If the parameter is true, memory stays short after the first failure.
class OutOfMemory : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    Renew();
    memory_stays_short = GetParam();
  }

  void Renew() {
    auto options = OptionsOf<float>(/*mean=*/false);
    options.stall_timeout = std::chrono::hours(1);
    options.on_stall = [](const StallReport&) {};
    accumulator_ = std::make_unique<Accumulator>(options);
  }

  void Apply(float value) { ASSERT_FALSE(ApplyThrowsAt(-1, value)); }
  bool ApplyThrowsAt(int ordinal, float value, std::optional<int64_t> contributor = std::nullopt) {
    Gradient gradient = Owned(std::vector<float>(4, value));
    bool is_added = false;
    const bool threw = ThrowsAt(ordinal, [&] {
      is_added =
          accumulator_->Apply(0, By(contributor, std::move(gradient)), workspace_).is_added();
    });
    EXPECT_NE(is_added, threw);
    return threw;
  }
  void Request(const DenseTake& take) { accumulator_->Request(take.ptr(), nullptr, workspace_); }

  void ExpectServed(const DenseTake& take, float value) {
    ASSERT_EQ(take.num_completions(), 1);
    ASSERT_TRUE(take.status().ok()) << take.status().message();
    EXPECT_EQ(take.values<float>(), std::vector<float>(4, value));
    EXPECT_EQ(accumulator_->num_accumulated(), 0);
  }

  TestWorkspace workspace_;
  std::unique_ptr<Accumulator> accumulator_;
};

INSTANTIATE_TEST_SUITE_P(Once, OutOfMemory, testing::Values(false));
INSTANTIATE_TEST_SUITE_P(FromThenOn, OutOfMemory, testing::Values(true));

TEST_P(OutOfMemory, AnApplyThatThrowsWasNotMade) {
  for (const std::optional<int64_t> contributor : {std::optional<int64_t>(), {7}}) {
    int num_thrown = 0;
    for (int ordinal = 0; ordinal < kManyAllocations; ++ordinal) {
      Renew();
      DenseTake take(2);
      Request(take);
      for (float value : {1.0f, 2.0f}) {
        const bool is_named = value == 2;
        const auto named = is_named ? contributor : std::nullopt;
        if (!ApplyThrowsAt(ordinal, value, named)) continue;
        ++num_thrown;
        EXPECT_EQ(accumulator_->num_accumulated(), is_named ? 1 : 0);
        EXPECT_FALSE(take.is_done());
        // The contributor may come again.
        ASSERT_FALSE(ApplyThrowsAt(-1, value, named));
      }
      ExpectServed(take, 3);
    }
    EXPECT_GT(num_thrown, 0);
    EXPECT_LT(num_thrown, kManyAllocations);
  }
}

TEST_P(OutOfMemory, ARequestThatThrowsWasNotMade) {
  int num_thrown = 0;
  for (int ordinal = 0; ordinal < kManyAllocations; ++ordinal) {
    Renew();
    DenseTake take(1);
    const auto kept = std::make_shared<int>();
    const auto request = [&] { accumulator_->Request(take.ptr(), kept, workspace_); };
    const bool threw = ThrowsAt(ordinal, request);
    Apply(1);
    if (threw) {
      ++num_thrown;
      EXPECT_FALSE(take.is_done());
      EXPECT_EQ(kept.use_count(), 1);
      EXPECT_EQ(accumulator_->num_accumulated(), 1);
      Request(take);
    }
    ExpectServed(take, 1);
    EXPECT_EQ(kept.use_count(), 1);
  }
  EXPECT_GT(num_thrown, 0);
  EXPECT_LT(num_thrown, kManyAllocations);
}

// Ending a take or a round needs memory only for messages, which are shorter if there is none.
TEST_P(OutOfMemory, TakesAndRoundsAlwaysEnd) {
  for (int ordinal = 0; ordinal < kManyAllocations; ++ordinal) {
    Renew();
    const auto call = [ordinal](const std::function<void()>& function) {
      EXPECT_FALSE(ThrowsAt(ordinal, function));
    };
    DenseTake cancelled(2), behind(1), ready(1), at_once(1), last(1);
    Request(cancelled);
    Request(behind);
    Apply(3);
    call([&] { accumulator_->Cancel(cancelled.ptr(), workspace_); });
    EXPECT_EQ(cancelled.status().code(), StatusCode::kCancelled);
    ExpectServed(behind, 3);
    accumulator_->SetGlobalStep(0);
    Apply(4);
    call([&] { Request(ready); });
    ExpectServed(ready, 4);
    accumulator_->SetGlobalStep(0);
    Apply(5);
    call([&] { EXPECT_TRUE(accumulator_->TryServe(at_once.ptr(), workspace_)); });
    ExpectServed(at_once, 5);
    accumulator_->SetGlobalStep(0);
    Apply(6);
    accumulator_->SetGlobalStep(INT64_MAX);
    call([&] { Request(last); });
    EXPECT_EQ(last.status().code(), StatusCode::kOutOfRange);
    call([&] { EXPECT_EQ(accumulator_->Reset(9), 1); });
    EXPECT_EQ(accumulator_->num_accumulated(), 0);
  }
}

TEST(Allocations, AppliesMakeNoneOnceTheirAccumulatorIsWarm) {
  TestWorkspace workspace;
  Accumulator accumulator(OptionsOf<float>(/*mean=*/true));
  for (int round = 0; round < 5; ++round) {
    DenseTake take(20);
    accumulator.Request(take.ptr(), nullptr, workspace);
    for (int i = 0; i < 20; ++i) {
      Gradient gradient = Owned(std::vector<float>(4, 1.0f));
      const int before = num_allocations;
      const Status status = accumulator.Apply(round, std::move(gradient), workspace).status();
      if (round > 1) {
        EXPECT_EQ(num_allocations, before) << round << " " << i;
      }
      EXPECT_TRUE(status.ok());
    }
    EXPECT_TRUE(take.is_served());
  }
}

}  // namespace
}  // namespace condacc
