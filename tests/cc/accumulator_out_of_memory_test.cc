// What happens when operator new fails, at each place where it is called.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "cc/core/accumulator.h"
#include "gtest/gtest.h"
#include "tests/cc/accumulator_support.h"

namespace {

// How many allocations of this thread succeed before one fails; negative: all do.
thread_local int allocations_left = -1;

}  // namespace

__attribute__((noinline)) void* operator new(size_t num_bytes) {
  if (allocations_left >= 0 && allocations_left-- == 0) throw std::bad_alloc();
  void* const memory = std::malloc(num_bytes > 0 ? num_bytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
__attribute__((noinline)) void operator delete(void* memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace condacc {
namespace {

// Calls `call` with ever later failures until it succeeds; `check` sees what each failure left.
// Returns the number of failures.
int FailEverywhere(const std::function<void()>& call, const std::function<void()>& check) {
  for (int num_failures = 0;; ++num_failures) {
    allocations_left = num_failures;
    try {
      call();
      allocations_left = -1;
      return num_failures;
    } catch (const std::bad_alloc&) {
      allocations_left = -1;
    }
    check();
  }
}

class OutOfMemory : public testing::Test {
 protected:
  OutOfMemory() {
    auto options = OptionsOf<float>(/*mean=*/false);
    options.stall_timeout = std::chrono::hours(1);
    options.on_stall = [](const StallReport&) {};
    accumulator_ = std::make_unique<DenseAccumulator>(options);
  }

  void ApplyOrThrow(float value) {
    allocations_left_outside_ = std::exchange(allocations_left, -1);
    Gradient gradient = Owned(std::vector<float>(4, value));
    bool accepted = false;
    allocations_left = allocations_left_outside_;
    const Status status = accumulator_->Apply(0, std::move(gradient), workspace_, &accepted);
    EXPECT_TRUE(status.ok());
    EXPECT_TRUE(accepted);
  }

  void ExpectTaken(const RecordedTake& take, float value) {
    ASSERT_EQ(take.num_completions(), 1);
    ASSERT_TRUE(take.status().ok());
    EXPECT_EQ(take.values<float>(), std::vector<float>(4, value));
  }

  int allocations_left_outside_ = -1;
  TestWorkspace workspace_;
  std::unique_ptr<DenseAccumulator> accumulator_;
};

TEST_F(OutOfMemory, AnApplyThatFailsAddsNothing) {
  // The last one serves a take.
  constexpr int kCount = 20;
  RecordedTake take(kCount);
  accumulator_->Request(take.ptr(), nullptr, workspace_);
  int num_failures = 0;
  for (int i = 0; i < kCount; ++i) {
    num_failures += FailEverywhere([this] { ApplyOrThrow(1); },
                                   [&] {
                                     EXPECT_EQ(accumulator_->num_accumulated(), i);
                                     EXPECT_EQ(accumulator_->global_step(), 0);
                                     EXPECT_FALSE(take.is_done());
                                   });
  }
  EXPECT_GT(num_failures, 0);
  ExpectTaken(take, kCount);
}

TEST_F(OutOfMemory, ATakeThatFailsWasNotRequested) {
  for (bool ready : {false, true}) {
    if (ready) ApplyOrThrow(1);
    auto held = std::make_shared<int>();
    RecordedTake take(1);
    const int num_failures =
        FailEverywhere([&] { accumulator_->Request(take.ptr(), held, workspace_); },
                       [&] {
                         EXPECT_FALSE(take.is_done());
                         EXPECT_FALSE(take.ptr()->waiting);
                         EXPECT_EQ(held.use_count(), 1);
                         EXPECT_EQ(accumulator_->num_accumulated(), ready);
                         RecordedTake other(2);
                         EXPECT_FALSE(accumulator_->RequestIfReady(other.ptr(), workspace_));
                       });
    EXPECT_GT(num_failures, 0);
    if (!ready) ApplyOrThrow(1);
    ExpectTaken(take, 1);
    EXPECT_EQ(held.use_count(), 1);
    accumulator_->SetGlobalStep(0);
  }
}

TEST_F(OutOfMemory, ARequestIfReadyThatFailsHasTakenNothing) {
  ApplyOrThrow(1);
  RecordedTake take(1);
  bool decided = false;
  FailEverywhere([&] { decided = accumulator_->RequestIfReady(take.ptr(), workspace_); },
                 [&] {
                   EXPECT_FALSE(take.is_done());
                   EXPECT_EQ(accumulator_->num_accumulated(), 1);
                   EXPECT_EQ(accumulator_->global_step(), 0);
                 });
  EXPECT_TRUE(decided);
  ExpectTaken(take, 1);
}

TEST_F(OutOfMemory, ACancellationThatFailsCanBeRepeated) {
  RecordedTake take(2), behind(1);
  accumulator_->Request(take.ptr(), nullptr, workspace_);
  accumulator_->Request(behind.ptr(), nullptr, workspace_);
  ApplyOrThrow(1);
  FailEverywhere([&] { accumulator_->Cancel(take.ptr(), workspace_); },
                 [&] {
                   EXPECT_FALSE(take.is_done());
                   EXPECT_FALSE(behind.is_done());
                 });
  ASSERT_EQ(take.num_completions(), 1);
  EXPECT_EQ(take.status().code(), StatusCode::kCancelled);
  // Either the cancellation served the take behind, or it had no memory for that.
  if (!behind.is_done()) ApplyOrThrow(1);
  ASSERT_TRUE(behind.is_served());
}

}  // namespace
}  // namespace condacc
