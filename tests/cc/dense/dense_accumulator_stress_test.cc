// Tests an accumulator with many threads that run as fast as they can.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/dense/dense_sum.h"
#include "gtest/gtest.h"
#include "tests/cc/base/test_settings.h"
#include "tests/cc/dense/dense_support.h"

namespace condacc {
namespace {

constexpr int kNumAppliers = 4;
constexpr int kNumTakers = 3;

// Element 0 of each gradient is 1 and all others are its value, in integers.
class Crowd {
 public:
  Crowd(uint32_t seed, size_t size, int applies_each)
      : seed_(seed), size_(size), applies_each_(applies_each) {}

  void Run() {
    std::vector<std::thread> appliers, takers;
    for (int i = 0; i < kNumTakers; ++i) takers.emplace_back([this, i] { RunTaker(i); });
    for (int i = 0; i < kNumAppliers; ++i) appliers.emplace_back([this, i] { RunApplier(i); });
    for (std::thread& thread : appliers) thread.join();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stopped_ = true;
    }
    for (int i = 0; i < kNumTakers; ++i) CancelTakeOf(i, &workspace_);
    for (std::thread& thread : takers) thread.join();
    Check();
  }

 private:
  void RunApplier(int index) {
    std::mt19937 random(seed_ + static_cast<uint32_t>(index));
    TestWorkspace workspace;
    for (int i = 0; i < applies_each_; ++i) {
      const uint32_t dice = random() % 64;
      if (dice == 0) CancelTakeOf(static_cast<int>(random() % kNumTakers), &workspace);
      if (dice == 1) accumulator_.SetGlobalStep(accumulator_.global_step() + 1);
      const int64_t value = random() % 1000;
      std::vector<int64_t> values(size_, value);
      values[0] = 1;
      Gradient gradient = random() % 2 == 0 ? Owned(values) : Borrowed(&values);
      const int64_t lag = random() % 8 == 0 ? 1 : 0;
      const ApplyResult result =
          accumulator_.Apply(accumulator_.global_step() - lag, std::move(gradient), workspace);
      EXPECT_TRUE(result.ok());
      values.assign(size_, int64_t{1} << 50);
      (result.is_added() ? num_accepted_ : num_stale_) += 1;
      if (result.is_added()) total_ += value;
    }
  }

  void RunTaker(int index) {
    std::mt19937 random(seed_ + 100 + static_cast<uint32_t>(index));
    TestWorkspace workspace;
    while (true) {
      auto take = std::make_shared<DenseTake>(1 + static_cast<int64_t>(random() % 12));
      {
        std::lock_guard<std::mutex> lock(mutex_);
        if (stopped_) return;
        takes_of_[index] = take;
      }
      if (random() % 4 == 0) {
        if (!accumulator_.TryServe(take->ptr(), workspace)) {
          EXPECT_FALSE(take->is_done());
          std::this_thread::yield();
          continue;
        }
      } else {
        accumulator_.Request(take->ptr(), nullptr, workspace);
      }
      take->Await();
      if (take->is_served()) Count(*take);
      EXPECT_EQ(take->num_completions(), 1);
    }
  }

  void CancelTakeOf(int index, TestWorkspace* workspace) {
    std::shared_ptr<DenseTake> take;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      take = takes_of_[index];
    }
    if (take != nullptr) accumulator_.Cancel(take->ptr(), *workspace);
  }

  void Count(const DenseTake& take) {
    const std::vector<int64_t> values = take.values<int64_t>();
    EXPECT_GE(values[0], take.ptr()->num_required);
    EXPECT_EQ(std::vector<int64_t>(values.begin() + 1, values.end()),
              std::vector<int64_t>(size_ - 1, values[1]));
    num_taken_ += values[0];
    total_ -= values[1];
  }

  void Check() {
    const int64_t num_left = accumulator_.num_accumulated();
    if (num_left > 0) {
      DenseTake rest(num_left);
      EXPECT_TRUE(accumulator_.TryServe(rest.ptr(), workspace_));
      ASSERT_TRUE(rest.is_served());
      Count(rest);
    }
    EXPECT_EQ(num_accepted_ + num_stale_, kNumAppliers * applies_each_);
    EXPECT_EQ(num_taken_, num_accepted_);
    EXPECT_EQ(total_, 0);
    EXPECT_EQ(accumulator_.num_dropped(), num_stale_);
    EXPECT_EQ(budget_.num_held(), 0u);
  }

  const uint32_t seed_;
  const size_t size_;
  const int applies_each_;
  HoldBudget budget_{12 * size_ * sizeof(int64_t)};
  Accumulator accumulator_{OptionsOf<int64_t>(/*mean=*/false, &budget_)};
  TestWorkspace workspace_;
  std::atomic<int64_t> num_accepted_{0}, num_stale_{0}, num_taken_{0}, total_{0};
  std::mutex mutex_;
  bool stopped_ = false;
  std::shared_ptr<DenseTake> takes_of_[kNumTakers];
};

void RunCrowd(size_t size, int applies_each) {
  const uint32_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const int64_t num_live = TestBuffer::num_live();
  Crowd(seed, size, applies_each).Run();
  EXPECT_EQ(TestBuffer::num_live(), num_live);
}

TEST(StressTest, EverySmallGradientIsCountedExactlyOnce) { RunCrowd(5, 5000); }
TEST(StressTest, EveryBigGradientIsCountedExactlyOnce) { RunCrowd(kBigSize, 60); }

}  // namespace
}  // namespace condacc
