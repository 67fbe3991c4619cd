#include "cc/core/base/spare_buffers.h"

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "cc/core/base/buffer.h"
#include "cc/core/base/hold_budget.h"
#include "cc/core/base/shape.h"
#include "gtest/gtest.h"

namespace condacc {
namespace {

// A buffer without memory that counts itself.
Buffer Counted(std::atomic<int>* num_alive) {
  ++*num_alive;
  return Buffer(nullptr, num_alive, [](void* owner) { --*static_cast<std::atomic<int>*>(owner); });
}

class SpareBuffersTest : public testing::Test {
 protected:
  void Give(SpareBuffers* spares, int64_t size, size_t num_bytes) {
    spares->Give(Counted(&num_alive_), Shape::Of({size}), num_bytes);
  }

  std::atomic<int> num_alive_{0};
  HoldBudget budget_{100};
};

TEST_F(SpareBuffersTest, BuffersOfTheSameShapeComeBack) {
  SpareBuffers spares(100, &budget_);
  Give(&spares, 3, 30);
  Give(&spares, 4, 40);
  EXPECT_EQ(budget_.num_held(), 70u);
  EXPECT_TRUE(spares.Take(Shape::Of({4})));
  EXPECT_EQ(budget_.num_held(), 30u);
  EXPECT_EQ(num_alive_, 1);
}

TEST_F(SpareBuffersTest, AnotherShapeFreesThem) {
  SpareBuffers spares(100, &budget_);
  Give(&spares, 3, 30);
  EXPECT_FALSE(spares.Take(Shape::Of({4})));
  EXPECT_EQ(num_alive_, 0);
  EXPECT_EQ(budget_.num_held(), 0u);
}

TEST_F(SpareBuffersTest, BuffersBeyondALimitAreFreed) {
  SpareBuffers few(50, &budget_);
  Give(&few, 3, 30);
  Give(&few, 3, 30);
  EXPECT_EQ(num_alive_, 1);
  SpareBuffers many(1000, &budget_);
  Give(&many, 3, 80);
  EXPECT_EQ(num_alive_, 1);
  EXPECT_EQ(budget_.num_held(), 30u);
}

TEST_F(SpareBuffersTest, TheDestructorGivesTheBytesBack) {
  {
    SpareBuffers spares(100, &budget_);
    Give(&spares, 3, 30);
  }
  EXPECT_EQ(num_alive_, 0);
  EXPECT_EQ(budget_.num_held(), 0u);
}

// Each accumulator has its own spares, with their own lock.
TEST_F(SpareBuffersTest, ManyThatGiveAtTheSameMomentStayWithinTheBudget) {
  constexpr int kThreads = 4;
  std::atomic<int> num_ready{0};
  std::atomic<size_t> most_held{0};
  const auto give_often = [&] {
    SpareBuffers spares(100, &budget_);
    ++num_ready;
    while (num_ready < kThreads) std::this_thread::yield();
    for (int i = 0; i < 100000; ++i) {
      Give(&spares, 3, 60);
      const size_t held = budget_.num_held();
      size_t most = most_held;
      while (held > most && !most_held.compare_exchange_weak(most, held)) {
      }
      spares.Take(Shape::Of({3}));
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back(give_often);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most_held, 60u);
  EXPECT_EQ(budget_.num_held(), 0u);
}

}  // namespace
}  // namespace condacc
