// Lets operator new fail, at each place where an accumulator calls it.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "gtest/gtest.h"
#include "tests/cc/accumulator/accumulator_support.h"

namespace {

// The number of allocations of this thread that succeed before one fails. If negative, all succeed.
thread_local int allocations_left = -1;
// If true, all allocations after that one fail as well.
thread_local bool memory_stays_short = false;
thread_local int num_allocations = 0;

}  // namespace

__attribute__((noinline)) void* operator new(size_t num_bytes) {
  ++num_allocations;
  if (allocations_left == 0) {
    if (!memory_stays_short) allocations_left = -1;
    throw std::bad_alloc();
  }
  if (allocations_left > 0) --allocations_left;
  void* const memory = std::malloc(num_bytes > 0 ? num_bytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace condacc {
namespace {

enum class Ending { kReturned, kThrew };

// Makes a call in which allocation number `ordinal`, counted from 0, fails.
Ending CallWithFailure(int ordinal, const std::function<void()>& call) {
  Ending ending = Ending::kReturned;
  allocations_left = ordinal;
  try {
    call();
  } catch (const std::bad_alloc&) {
    ending = Ending::kThrew;
  }
  allocations_left = -1;
  return ending;
}

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
    accumulator_ = std::make_unique<DenseAccumulator>(options);
  }

  void Apply(float value) { ASSERT_EQ(ApplyWithFailure(-1, value), Ending::kReturned); }
  Ending ApplyWithFailure(int ordinal, float value,
                          std::optional<int64_t> contributor = std::nullopt) {
    Gradient gradient = Owned(std::vector<float>(4, value));
    bool is_added = false;
    const Ending ending = CallWithFailure(ordinal, [&] {
      is_added = accumulator_->Apply(0, std::move(gradient), workspace_, contributor).is_added();
    });
    if (ending == Ending::kReturned) {
      EXPECT_TRUE(is_added);
    }
    return ending;
  }
  void Request(const RecordedTake& take) { accumulator_->Request(take.ptr(), nullptr, workspace_); }

  void ExpectServed(const RecordedTake& take, float value) {
    ASSERT_EQ(take.num_completions(), 1);
    ASSERT_TRUE(take.status().ok()) << take.status().message();
    EXPECT_EQ(take.values<float>(), std::vector<float>(4, value));
  }

  // A take that failed loses nothing: the next one gets the gradients.
  void ExpectServedOrFailedForMemory(const RecordedTake& take, float value) {
    ASSERT_EQ(take.num_completions(), 1);
    if (!take.status().ok()) {
      ++num_failed_takes_;
      EXPECT_EQ(take.status().code(), StatusCode::kResourceExhausted);
      EXPECT_EQ(take.status().message().find("Out of memory"), 0u);
      EXPECT_EQ(accumulator_->global_step(), 0);
      RecordedTake next(1);
      Request(next);
      ExpectServed(next, value);
    } else {
      ExpectServed(take, value);
    }
    EXPECT_EQ(accumulator_->global_step(), 1);
    EXPECT_EQ(accumulator_->num_accumulated(), 0);
  }

  TestWorkspace workspace_;
  std::unique_ptr<DenseAccumulator> accumulator_;
  int num_failed_takes_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Once, OutOfMemory, testing::Values(false));
INSTANTIATE_TEST_SUITE_P(FromThenOn, OutOfMemory, testing::Values(true));

TEST_P(OutOfMemory, AnApplyThatThrowsHasChangedNothingAndATakeIsToldOnce) {
  for (int ordinal = 0; ordinal < kManyAllocations; ++ordinal) {
    Renew();
    RecordedTake take(2);
    Request(take);
    Apply(1);
    if (ApplyWithFailure(ordinal, 2) == Ending::kThrew) {
      EXPECT_EQ(accumulator_->num_accumulated(), 1);
      EXPECT_FALSE(take.is_done());
      Apply(2);
    }
    ExpectServedOrFailedForMemory(take, 3);
  }
  EXPECT_GT(num_failed_takes_, 0);
  EXPECT_LT(num_failed_takes_, kManyAllocations);
}

TEST_P(OutOfMemory, AContributorWhoseApplyThrewMayComeAgain) {
  int num_thrown = 0;
  for (int ordinal = 0; ordinal < kManyAllocations; ++ordinal) {
    Renew();
    Apply(1);
    if (ApplyWithFailure(ordinal, 2, 7) == Ending::kThrew) {
      ++num_thrown;
      EXPECT_EQ(accumulator_->num_accumulated(), 1);
      EXPECT_EQ(ApplyWithFailure(-1, 2, 7), Ending::kReturned);
    }
    EXPECT_EQ(accumulator_->Apply(0, Owned(std::vector<float>(4, 1)), workspace_, 7).outcome(),
              ApplyOutcome::kDuplicate);
    RecordedTake take(2);
    Request(take);
    ExpectServed(take, 3);
  }
  EXPECT_GT(num_thrown, 0);
  EXPECT_LT(num_thrown, kManyAllocations);
}

TEST_P(OutOfMemory, AResetThatThrowsHasChangedNothing) {
  int num_thrown = 0;
  for (int ordinal = 0; ordinal < kManyAllocations; ++ordinal) {
    Renew();
    Apply(1);
    int64_t num_discarded = -1;
    const auto reset = [&] { num_discarded = accumulator_->Reset(9); };
    if (CallWithFailure(ordinal, reset) == Ending::kThrew) {
      ++num_thrown;
      EXPECT_EQ(accumulator_->global_step(), 0);
      EXPECT_EQ(accumulator_->num_accumulated(), 1);
      reset();
    }
    EXPECT_EQ(num_discarded, 1);
    EXPECT_EQ(accumulator_->global_step(), 9);
    EXPECT_EQ(accumulator_->num_accumulated(), 0);
  }
  EXPECT_GT(num_thrown, 0);
  EXPECT_LT(num_thrown, kManyAllocations);
}

TEST_P(OutOfMemory, ARequestThatThrowsWasNotMade) {
  int num_thrown = 0;
  for (int ordinal = 0; ordinal < kManyAllocations; ++ordinal) {
    Renew();
    RecordedTake take(1);
    const auto kept = std::make_shared<int>();
    const auto request = [&] { accumulator_->Request(take.ptr(), kept, workspace_); };
    if (CallWithFailure(ordinal, request) == Ending::kThrew) {
      ++num_thrown;
      EXPECT_FALSE(take.is_done());
      EXPECT_EQ(kept.use_count(), 1);
      Apply(1);
      EXPECT_FALSE(take.is_done());
      EXPECT_EQ(accumulator_->num_accumulated(), 1);
      Request(take);
    } else {
      Apply(1);
    }
    ExpectServed(take, 1);
    EXPECT_EQ(kept.use_count(), 1);
  }
  EXPECT_GT(num_thrown, 0);
  EXPECT_LT(num_thrown, kManyAllocations);
}

TEST_P(OutOfMemory, ARequestOfWhatIsReadyThrowsOrIsTold) {
  for (bool may_wait : {true, false}) {
    for (int ordinal = 0; ordinal < kManyAllocations; ++ordinal) {
      Renew();
      Apply(5);
      RecordedTake take(1);
      const auto request = [&] {
        if (may_wait) {
          Request(take);
        } else {
          EXPECT_TRUE(accumulator_->TryServe(take.ptr(), workspace_));
        }
      };
      if (CallWithFailure(ordinal, request) == Ending::kThrew) {
        EXPECT_FALSE(take.is_done());
        EXPECT_EQ(accumulator_->num_accumulated(), 1);
        request();
      }
      ExpectServedOrFailedForMemory(take, 5);
    }
  }
}

TEST_P(OutOfMemory, ACancellationAlwaysSucceeds) {
  for (int ordinal = 0; ordinal < kManyAllocations; ++ordinal) {
    Renew();
    RecordedTake take(2), behind(1);
    Request(take);
    Request(behind);
    Apply(3);
    EXPECT_EQ(CallWithFailure(ordinal, [&] { accumulator_->Cancel(take.ptr(), workspace_); }),
              Ending::kReturned);
    ASSERT_EQ(take.num_completions(), 1);
    EXPECT_EQ(take.status().code(), StatusCode::kCancelled);
    ExpectServedOrFailedForMemory(behind, 3);
  }
}

TEST_P(OutOfMemory, AtTheLastStepEveryTakeIsTold) {
  for (int ordinal = 0; ordinal < kManyAllocations; ++ordinal) {
    Renew();
    accumulator_->SetGlobalStep(INT64_MAX);
    RecordedTake first(1), second(1);
    Request(first);
    Request(second);
    Gradient gradient = Owned(std::vector<float>(4, 1.0f));
    EXPECT_EQ(CallWithFailure(
                  ordinal,
                  [&] { (void)accumulator_->Apply(INT64_MAX, std::move(gradient), workspace_); }),
              Ending::kReturned);
    for (const RecordedTake* take : {&first, &second}) {
      ASSERT_EQ(take->num_completions(), 1);
      EXPECT_EQ(take->status().code(), StatusCode::kOutOfRange);
    }
    EXPECT_EQ(accumulator_->num_accumulated(), 1);
  }
}

TEST(Allocations, AppliesMakeNoneOnceTheirAccumulatorIsWarm) {
  TestWorkspace workspace;
  DenseAccumulator accumulator(OptionsOf<float>(/*mean=*/true));
  for (int round = 0; round < 5; ++round) {
    RecordedTake take(20);
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
