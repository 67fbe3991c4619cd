// Tests of dense gradients that arrive while others are added.
#include <cstddef>
#include <future>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/dense/dense_sum.h"
#include "gtest/gtest.h"
#include "tests/cc/base/is_waiting.h"
#include "tests/cc/dense/dense_support.h"
#include "tests/cc/dense/stopping_workspace.h"

namespace condacc {
namespace {

constexpr size_t kNumElements = 16;

// The tests run with a type whose sums are of the same type, and with one that needs memory for
// float32 sums.
template <typename T>
class MidSum : public testing::Test {
 protected:
  static T One() {
    if constexpr (SumsInFloat32(kTypeOf<T>)) {
      return T::FromFloat(1.0f);
    } else {
      return T{1};
    }
  }
  static std::vector<T> Ones() { return std::vector<T>(kNumElements, One()); }
  static float First(const DenseTake& take) {
    if constexpr (SumsInFloat32(kTypeOf<T>)) {
      return T::ToFloat(take.values<T>()[0]);
    } else {
      return take.values<T>()[0];
    }
  }
  bool Apply(Gradient gradient, TestWorkspace& workspace) {
    const ApplyResult result = accumulator_.Apply(0, std::move(gradient), workspace);
    EXPECT_TRUE(result.ok());
    return result.is_added();
  }

  // Makes an apply fold, in another thread, and stops there.
  std::future<bool> StartFolding() {
    for (int i = 0; i < kFoldAt; ++i) EXPECT_TRUE(Apply(Owned(Ones()), plain_));
    auto folder =
        std::async(std::launch::async, [this] { return Apply(Owned(Ones()), stopping_); });
    stop_.AwaitArrivals(1);
    return folder;
  }
  // Expects that the apply that makes `num_pending` gradients pending during a fold waits for it,
  // if others hold `extra_bytes` of the budget meanwhile.
  void ExpectWaitsFor(int num_pending, size_t extra_bytes) {
    auto folder = StartFolding();
    budget_.Add(extra_bytes);
    for (int i = 1; i < num_pending; ++i) EXPECT_TRUE(Apply(Owned(Ones()), plain_));
    auto waiting = std::async(std::launch::async, [this] {
      TestWorkspace workspace;
      return Apply(Owned(Ones()), workspace);
    });
    AwaitAccumulated(accumulator_, kFoldAt + 1 + num_pending);
    EXPECT_TRUE(IsWaiting(waiting));
    stop_.Open();
    EXPECT_TRUE(folder.get());
    EXPECT_TRUE(waiting.get());
    EXPECT_EQ(budget_.num_held(), extra_bytes);
    ExpectTaken(kFoldAt + 1 + num_pending);
  }
  void ExpectTaken(int count) {
    DenseTake take(count);
    ASSERT_TRUE(accumulator_.TryServe(take.ptr(), plain_));
    ASSERT_TRUE(take.is_served());
    EXPECT_EQ(First(take), static_cast<float>(count));
  }

  static constexpr size_t kBudget = 1 << 20;

  HoldBudget budget_{kBudget};
  StopPoint stop_;
  TestWorkspace plain_;
  StoppingWorkspace stopping_{&stop_};
  Accumulator accumulator_{OptionsOf<T>(/*mean=*/false, &budget_)};
};

using RacedTypes = testing::Types<float, Float16>;
TYPED_TEST_SUITE(MidSum, RacedTypes);

TYPED_TEST(MidSum, WhoBringsTooManyWaitsForTheFold) {
  this->ExpectWaitsFor(2 * kFoldAt, /*extra_bytes=*/0);
}

TYPED_TEST(MidSum, WhoExceedsTheBudgetWaitsForTheFold) {
  this->ExpectWaitsFor(2, /*extra_bytes=*/this->kBudget);
}

}  // namespace
}  // namespace condacc
