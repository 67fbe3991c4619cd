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
#include "tests/cc/math/dense_math_reference.h"

namespace condacc {
namespace {

constexpr int kNumAppliers = 4;
constexpr int kNumTakers = 3;

// Element 0 of each gradient is 1 and all others are its value, in integers.
class Crowd {
 public:
  Crowd(uint32_t seed, size_t size, int applies_each, size_t small_bytes)
      : seed_(seed), size_(size), applies_each_(applies_each), small_bytes_(small_bytes) {}

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
  Accumulator::Options Options() {
    auto options = OptionsOf<int64_t>(/*mean=*/false, &budget_);
    options.sum.small_bytes = small_bytes_;
    return options;
  }

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
  const size_t small_bytes_;
  HoldBudget budget_{12 * size_ * sizeof(int64_t)};
  Accumulator accumulator_{Options()};
  TestWorkspace workspace_;
  std::atomic<int64_t> num_accepted_{0}, num_stale_{0}, num_taken_{0}, total_{0};
  std::mutex mutex_;
  bool stopped_ = false;
  std::shared_ptr<DenseTake> takes_of_[kNumTakers];
};

void RunCrowd(size_t size, int applies_each, size_t small_bytes) {
  const uint32_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const int64_t num_live = TestBuffer::num_live();
  Crowd(seed, size, applies_each, small_bytes).Run();
  EXPECT_EQ(TestBuffer::num_live(), num_live);
}

TEST(StressTest, EverySmallGradientIsCountedExactlyOnce) { RunCrowd(5, 5000, 0); }
TEST(StressTest, EveryBigGradientIsCountedExactlyOnce) { RunCrowd(kBigSize, 60, 0); }
TEST(StressTest, EveryGradientThatIsAddedAtOnceIsCountedExactlyOnce) { RunCrowd(5, 5000, 1000); }

// The gradients of one applier are added in its order, whichever thread adds them.
template <typename T>
void RunInOrder(size_t size, int num_rounds) {
  using Traits = ElementTraits<T>;
  using Wide = decltype(Traits::Widen(T()));
  const uint32_t seed = TestSeed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const T one = Traits::Narrow(Wide{1});
  std::vector<std::vector<T>> pool(37, std::vector<T>(size));
  for (auto& values : pool) {
    for (T& value : values) value = Traits::Random(random);
    values[0] = one;  // A sum shows how many gradients it consists of.
  }
  Accumulator accumulator(OptionsOf<T>(/*mean=*/false));
  std::atomic<bool> stop{false};
  std::thread applier([&] {
    TestWorkspace workspace;
    for (size_t i = 0; !stop; ++i) {
      std::vector<T> values = pool[i % pool.size()];
      Gradient gradient = i % 5 == 0 ? Borrowed(&values) : Owned(values);
      const int64_t step = int64_t{1} << 40;
      EXPECT_TRUE(accumulator.Apply(step, std::move(gradient), workspace).ok());
      // The applier does not run so far ahead that the count of a take could not be read from its
      // sum.
      while (accumulator.num_accumulated() > 30 && !stop) std::this_thread::yield();
    }
  });
  TestWorkspace workspace;
  size_t next = 0;
  for (int round = 0; round < num_rounds; ++round) {
    DenseTake take(1 + static_cast<int64_t>(random() % 20));
    accumulator.Request(take.ptr(), nullptr, workspace);
    take.Await();
    const std::vector<T> got = take.values<T>();
    const int count = static_cast<int>(Traits::Widen(got[0]));
    std::vector<Wide> sums;
    for (T value : pool[next % pool.size()]) sums.push_back(Traits::Widen(value));
    for (int i = 1; i < count; ++i) {
      const std::vector<T>& values = pool[(next + static_cast<size_t>(i)) % pool.size()];
      for (size_t k = 0; k < size; ++k) sums[k] = Traits::Plus(sums[k], Traits::Widen(values[k]));
    }
    std::vector<T> expected;
    for (Wide sum : sums) expected.push_back(Traits::Narrow(sum));
    EXPECT_TRUE(SameBits(got, expected)) << "round " << round << " of " << count;
    next += static_cast<size_t>(count);
  }
  stop = true;
  applier.join();
}

TEST(StressTest, SmallFloatsAreAddedInOrder) { RunInOrder<float>(40, 600); }
TEST(StressTest, SmallFloat16AreAddedInOrder) { RunInOrder<Float16>(40, 600); }
TEST(StressTest, BigFloatsAreAddedInOrder) { RunInOrder<float>(kBigSize, 15); }

}  // namespace
}  // namespace condacc
