// Tests of calls that come while the first gradient is copied or the round ends.
#include <cstddef>
#include <cstdint>
#include <future>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "gtest/gtest.h"
#include "tests/cc/accumulator/accumulator_support.h"
#include "tests/cc/dense/stopping_workspace.h"

namespace condacc {
namespace {

constexpr size_t kSize = 16;

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
  static std::vector<T> Ones() { return std::vector<T>(kSize, One()); }
  static float First(const RecordedTake& take) {
    if constexpr (SumsInFloat32(kTypeOf<T>)) {
      return T::ToFloat(take.values<T>()[0]);
    } else {
      return take.values<T>()[0];
    }
  }
  bool Apply(Gradient gradient, TestWorkspace& workspace, int64_t local_step = 0) {
    const ApplyResult result = accumulator_.Apply(local_step, std::move(gradient), workspace);
    EXPECT_TRUE(result.ok());
    return result.is_added();
  }

  StopPoint stop_;
  TestWorkspace plain_;
  StoppingWorkspace stopping_{&stop_};
  Accumulator accumulator_{OptionsOf<T>(/*mean=*/false)};
};

using Types = testing::Types<float, Float16>;
TYPED_TEST_SUITE(MidSum, Types);

TYPED_TEST(MidSum, OthersAppendWhileTheFirstBorrowedGradientIsCopied) {
  auto values = this->Ones();
  auto borrowed = std::async(std::launch::async,
                             [&] { return this->Apply(Borrowed(&values), this->stopping_); });
  this->stop_.AwaitArrivals(1);
  for (int i = 0; i < 12; ++i) EXPECT_TRUE(this->Apply(Owned(this->Ones()), this->plain_));
  EXPECT_EQ(this->accumulator_.num_accumulated(), 13);
  this->stop_.Open();
  EXPECT_TRUE(borrowed.get());
  values.assign(kSize, TypeParam());
  RecordedTake take(13);
  this->accumulator_.Request(take.ptr(), nullptr, this->plain_);
  ASSERT_TRUE(take.is_served());
  EXPECT_EQ(this->First(take), 13.0f);
}

TYPED_TEST(MidSum, ATakeThatComesWhileTheFirstBorrowedGradientIsCopiedIsServed) {
  auto values = this->Ones();
  auto borrowed = std::async(std::launch::async,
                             [&] { return this->Apply(Borrowed(&values), this->stopping_); });
  this->stop_.AwaitArrivals(1);
  EXPECT_TRUE(this->Apply(Owned(this->Ones()), this->plain_));
  RecordedTake take(2);
  this->accumulator_.Request(take.ptr(), nullptr, this->plain_);
  EXPECT_FALSE(take.is_done());
  this->stop_.Open();
  EXPECT_TRUE(borrowed.get());
  ASSERT_TRUE(take.is_served());
  EXPECT_EQ(this->First(take), 2.0f);
}

TYPED_TEST(MidSum, GradientsThatComeWhileARoundEndsBelongToTheNext) {
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(this->Apply(Owned(this->Ones()), this->plain_));
  RecordedTake ending(3), next(1);
  auto request = std::async(std::launch::async, [&] {
    this->accumulator_.Request(ending.ptr(), nullptr, this->stopping_);
  });
  this->stop_.AwaitArrivals(1);
  EXPECT_EQ(this->accumulator_.num_accumulated(), 0);
  EXPECT_EQ(this->accumulator_.global_step(), 1);
  EXPECT_FALSE(this->Apply(Owned(this->Ones()), this->plain_, 0));
  auto values = this->Ones();
  EXPECT_TRUE(this->Apply(Borrowed(&values), this->plain_, 1));
  this->accumulator_.Request(next.ptr(), nullptr, this->plain_);
  ASSERT_TRUE(next.is_served());
  EXPECT_EQ(this->First(next), 1.0f);
  EXPECT_FALSE(ending.is_done());
  this->stop_.Open();
  request.get();
  ASSERT_TRUE(ending.is_served());
  EXPECT_EQ(this->First(ending), 3.0f);
}

TYPED_TEST(MidSum, TheApplierThatServesATakeIsNotInTheWayOfOthers) {
  RecordedTake take(1);
  this->accumulator_.Request(take.ptr(), nullptr, this->plain_);
  auto values = this->Ones();
  auto applier = std::async(std::launch::async,
                            [&] { return this->Apply(Borrowed(&values), this->stopping_); });
  this->stop_.AwaitArrivals(1);
  for (int round = 1; round <= 3; ++round) {
    RecordedTake other(2);
    this->accumulator_.Request(other.ptr(), nullptr, this->plain_);
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(this->Apply(Owned(this->Ones()), this->plain_, round));
    }
    ASSERT_TRUE(other.is_served());
    EXPECT_EQ(this->First(other), 2.0f);
  }
  this->stop_.Open();
  EXPECT_TRUE(applier.get());
  ASSERT_TRUE(take.is_served());
  EXPECT_EQ(this->First(take), 1.0f);
}

// A request for one gradient more than there are adds big gradients before it waits. Meanwhile the
// last one may come, or another take.
TYPED_TEST(MidSum, WhatComesWhileARequestAddsIsSeenByIt) {
  for (bool another_take : {false, true}) {
    const int64_t step = this->accumulator_.global_step();
    const std::vector<TypeParam> big(kBigSize, this->One());
    auto borrowed = big;
    EXPECT_TRUE(this->Apply(Owned(big), this->plain_, step));
    EXPECT_TRUE(this->Apply(Borrowed(&borrowed), this->plain_, step));
    EXPECT_TRUE(this->Apply(Owned(big), this->plain_, step));
    StopPoint stop;
    RecordedTake take(4), other(3);
    auto request = std::async(std::launch::async, [&] {
      StoppingWorkspace stopping(&stop);
      this->accumulator_.Request(take.ptr(), nullptr, stopping);
    });
    stop.AwaitArrivals(1);
    if (another_take) this->accumulator_.Request(other.ptr(), nullptr, this->plain_);
    const int64_t next_step = this->accumulator_.global_step();
    EXPECT_TRUE(this->Apply(Owned(big), this->plain_, next_step));
    stop.Open();
    request.get();
    EXPECT_EQ(other.is_done(), another_take);
    for (int i = 1; another_take && i < 4; ++i) {
      EXPECT_FALSE(take.is_done());
      EXPECT_TRUE(this->Apply(Owned(big), this->plain_, next_step));
    }
    ASSERT_TRUE(take.is_served());
    EXPECT_EQ(this->First(take), 4.0f);
  }
}

}  // namespace
}  // namespace condacc
