#include "cc/memory/heap_trim.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <thread>

#include "cc/core/base/timer_queue.h"
#include "gtest/gtest.h"

namespace {

std::atomic<int> num_trims{0};

}  // namespace

extern "C" int malloc_trim(size_t) noexcept { return ++num_trims; }

namespace condacc {
namespace {

TEST(NoteFreedHeapTest, TrimsHeapsOnceEnoughWasFreedAndNotTooOften) {
  constexpr size_t kMinBytes = size_t{256} << 20;
  const auto await = [](int count) {  // A thread trims the heaps.
    while (num_trims < count) std::this_thread::yield();
    EXPECT_EQ(num_trims, count);
  };
  NoteFreedHeap(kMinBytes - 1);
  EXPECT_EQ(num_trims, 0);
  NoteFreedHeap(1);
  await(1);
  AdvanceClock(std::chrono::seconds(9));
  NoteFreedHeap(10 * kMinBytes);
  AdvanceClock(std::chrono::seconds(1));
  NoteFreedHeap(1);  // What was freed meanwhile counts.
  await(2);
  AdvanceClock(std::chrono::seconds(20));
  NoteFreedHeap(kMinBytes - 1);
  NoteFreedHeap(1);
  await(3);
}

}  // namespace
}  // namespace condacc
