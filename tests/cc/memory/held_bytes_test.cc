#include "cc/memory/held_bytes.h"

#include <cstddef>
#include <thread>
#include <type_traits>
#include <vector>

#include "cc/memory/mapped_buffer.h"
#include "cc/memory/page_pool.h"
#include "gtest/gtest.h"

namespace condacc {
namespace {

static_assert(std::is_trivially_destructible_v<HeldBytes>);

TEST(HeldBytesTest, TellsThePresentNumberAndThePeak) {
  HeldBytes held;
  held.Add(5);
  held.Add(7);
  held.Remove(5);
  EXPECT_EQ(held.now(), 7u);
  EXPECT_EQ(held.TakePeak(), 12u);
  EXPECT_EQ(held.TakePeak(), 7u) << "what is held counts for the next peak";
  held.Remove(7);
  held.Add(3);
  EXPECT_EQ(held.now(), 3u);
  EXPECT_EQ(held.TakePeak(), 7u);
}

TEST(HeldBytesTest, CountsWhatAnyThreadAddsAndRemoves) {
  constexpr size_t kThreads = 4, kTimes = 1000;
  HeldBytes held;
  std::vector<std::thread> threads;
  for (size_t i = 1; i <= kThreads; ++i) {
    threads.emplace_back([&held, i] {
      for (size_t k = 0; k < kTimes; ++k) {
        held.Add(2 * i);
        held.Remove(i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  constexpr size_t kLeft = kTimes * kThreads * (kThreads + 1) / 2;
  EXPECT_EQ(held.now(), kLeft);
  const size_t peak = held.TakePeak();
  EXPECT_GE(peak, kLeft);
  EXPECT_LE(peak, kLeft + kThreads * (kThreads + 1) / 2) << "what each thread was about to remove";
}

TEST(HeldBytesTest, ThePagesOfABufferCountUntilTheyAreFreed) {
  const auto held = [] { return HeldBytes::Global().now(); };
  const size_t before = held();
  {
    const Buffer buffer = MapBuffer(2 * kHugePageBytes + 1);
    EXPECT_EQ(held(), before + 3 * kHugePageBytes);
    buffer.FreeFirst(kHugePageBytes);
    EXPECT_EQ(held(), before + 2 * kHugePageBytes);
  }
  EXPECT_EQ(held(), before) << "pages in the pool are not held";
  EXPECT_FALSE(MapBuffer(size_t{1} << 60));
  EXPECT_EQ(held(), before);
  PagePool::Global().TrimTo(0);
}

}  // namespace
}  // namespace condacc
