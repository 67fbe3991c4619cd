#include "cc/memory/page_pool.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "cc/core/base/timer_queue.h"
#include "gtest/gtest.h"
#include "tests/cc/memory/resident_pages.h"

namespace {

enum class Remap { kMoves, kLosesPage, kLosesPageToAnother };
Remap remap = Remap::kMoves;

}  // namespace

// Moves a page or, if a test says so, fails after it has unmapped the page at the new address. In
// the last case, another thread then maps half of that.
extern "C" void* mremap(void* from, size_t old_bytes, size_t new_bytes, int flags, ...) noexcept {
  va_list arguments;
  va_start(arguments, flags);
  void* const to = va_arg(arguments, void*);
  va_end(arguments);
  if (remap == Remap::kMoves) {
    return reinterpret_cast<void*>(syscall(SYS_mremap, from, old_bytes, new_bytes, flags, to));
  }
  munmap(to, new_bytes);
  if (remap == Remap::kLosesPageToAnother) {
    mmap(to, new_bytes / 2, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  }
  errno = ENOMEM;
  return MAP_FAILED;
}

namespace condacc {
namespace {

constexpr PagePool::Clock::duration kInterval = std::chrono::seconds(10);

// Returns a pool that is empty. Pools are never destroyed.
PagePool& NewPool() {
  static std::vector<PagePool*>& pools = *new std::vector<PagePool*>;
  pools.push_back(new PagePool(kInterval));
  return *pools.back();
}

// Maps huge pages, without a gap. They occupy no memory until they are written.
char* MapPages(size_t num_pages) {
  void* const begin = mmap(nullptr, (num_pages + 1) * kHugePageBytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  EXPECT_NE(begin, MAP_FAILED);
  const size_t before = -reinterpret_cast<uintptr_t>(begin) % kHugePageBytes;
  return static_cast<char*>(begin) + before;
}

TEST(PagePoolTest, MovesAPageWithItsContents) {
  PagePool& pool = NewPool();
  char* const given = MapPages(3);
  for (int i = 0; i < 3; ++i) std::memset(given + i * kHugePageBytes, 10 + i, kHugePageBytes);
  pool.Give(given, 3, kHugePageBytes);
  EXPECT_EQ(pool.num_bytes(), 3 * kHugePageBytes);
  char* const taken = MapPages(2);
  EXPECT_EQ(pool.Take(taken, 2), 2u);
  EXPECT_EQ(pool.num_bytes(), kHugePageBytes);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(taken[i * kHugePageBytes], 11 + i) << "the last pages, in their order";
    EXPECT_EQ(taken[(i + 1) * kHugePageBytes - 1], 11 + i);
    EXPECT_FALSE(IsMapped(given + (i + 1) * kHugePageBytes)) << i;
  }
}

TEST(PagePoolTest, GivesNoMoreThanItHas) {
  PagePool& pool = NewPool();
  char* const taken = MapPages(3);
  EXPECT_EQ(pool.Take(taken, 3), 0u);
  pool.Give(MapPages(1), 1, kHugePageBytes);
  std::memset(taken + kHugePageBytes, 5, kHugePageBytes);
  EXPECT_EQ(pool.Take(taken, 3), 1u);
  EXPECT_EQ(taken[kHugePageBytes], 5) << "other pages stay as they are";
}

TEST(PagePoolTest, MovesMorePagesThanItRemovesAtATime) {
  constexpr size_t kNumPages = 100;
  PagePool& pool = NewPool();
  char* const given = MapPages(kNumPages);
  for (size_t i = 0; i < kNumPages; ++i) given[i * kHugePageBytes] = static_cast<char>(i + 1);
  pool.Give(given, kNumPages, kHugePageBytes);
  char* const taken = MapPages(kNumPages);
  EXPECT_EQ(pool.Take(taken, kNumPages), kNumPages);
  int sum = 0;
  for (size_t i = 0; i < kNumPages; ++i) sum += taken[i * kHugePageBytes];
  EXPECT_EQ(sum, 5050);
  munmap(taken, kNumPages * kHugePageBytes);
}

TEST(PagePoolTest, KeepsNoMoreThanItMay) {
  PagePool& pool = NewPool();
  constexpr size_t kMaxPages = PagePool::kMaxBytes / kHugePageBytes;
  char* const given = MapPages(kMaxPages + 2);
  pool.Give(given, 1, kHugePageBytes);
  pool.Give(given + kHugePageBytes, kMaxPages + 1, kHugePageBytes);
  EXPECT_EQ(pool.num_bytes(), PagePool::kMaxBytes);
  EXPECT_TRUE(IsMapped(given + (kMaxPages - 1) * kHugePageBytes));
  EXPECT_FALSE(IsMapped(given + kMaxPages * kHugePageBytes));
  const size_t large = PagePool::kMaxBytes + 3 * kHugePageBytes;
  pool.Give(MapPages(4), 4, large);
  EXPECT_EQ(pool.num_bytes(), large) << "as much as the largest buffer";
  pool.Give(MapPages(1), 1, kHugePageBytes);
  EXPECT_EQ(pool.num_bytes(), large) << "smaller buffers change nothing";
}

TEST(PagePoolTest, KeepsNoMoreForALargeBufferTwoIntervalsLater) {
  PagePool& pool = NewPool();
  constexpr size_t kMaxPages = PagePool::kMaxBytes / kHugePageBytes;
  pool.Give(MapPages(1), 1, 2 * PagePool::kMaxBytes);
  AdvanceClock(2 * kInterval);
  EXPECT_EQ(pool.num_bytes(), 0u);
  pool.Give(MapPages(kMaxPages + 1), kMaxPages + 1, kHugePageBytes);
  EXPECT_EQ(pool.num_bytes(), PagePool::kMaxBytes);
}

TEST(PagePoolTest, ReturnsPagesToTheSystemOnDemand) {
  PagePool& pool = NewPool();
  char* const given = MapPages(50);
  pool.Give(given, 50, kHugePageBytes);
  pool.TrimTo(3 * kHugePageBytes + 1);
  EXPECT_EQ(pool.num_bytes(), 3 * kHugePageBytes);
  EXPECT_TRUE(IsMapped(given + 2 * kHugePageBytes));
  for (size_t i = 3; i < 50; ++i) EXPECT_FALSE(IsMapped(given + i * kHugePageBytes)) << i;
  pool.TrimTo(0);
  EXPECT_FALSE(IsMapped(given));
}

TEST(PagePoolTest, ReturnsPagesToTheSystemWhenTheyAreNotUsed) {
  PagePool& pool = NewPool();
  for (int i = 0; i < 2; ++i) {
    char* const given = MapPages(1);
    pool.Give(given, 1, kHugePageBytes);
    AdvanceClock(kInterval / 2);
    EXPECT_TRUE(IsMapped(given));
    AdvanceClock(2 * kInterval);
    EXPECT_FALSE(IsMapped(given));
    EXPECT_EQ(pool.num_bytes(), 0u);
  }
}

// A training that needs much memory in one step only.
TEST(PagePoolTest, ReturnsPagesThatAreNotUsedWhileOthersAre) {
  PagePool& pool = NewPool();
  char* const given = MapPages(40);
  pool.Give(given, 40, 2 * PagePool::kMaxBytes);
  for (int i = 0; i < 20; ++i) {
    char* const taken = MapPages(1);
    EXPECT_EQ(pool.Take(taken, 1), 1u);
    pool.Give(taken, 1, kHugePageBytes);
    AdvanceClock(kInterval / 10);
  }
  EXPECT_EQ(pool.num_bytes(), kHugePageBytes);
  int num_mapped = 0;
  for (int i = 0; i < 40; ++i) num_mapped += IsMapped(given + i * kHugePageBytes) ? 1 : 0;
  EXPECT_LT(num_mapped, 20);  // Something else may be mapped at some of these addresses now.
}

TEST(PagePoolTest, KeepsPagesWhileItIsInUse) {
  PagePool& pool = NewPool();
  char* page = MapPages(1);
  char* next = MapPages(1);
  pool.Give(page, 1, kHugePageBytes);
  for (int i = 0; i < 10; ++i) {
    AdvanceClock(kInterval / 2);
    ASSERT_EQ(pool.Take(next, 1), 1u);
    page = std::exchange(next, MapPages(1));
    pool.Give(page, 1, kHugePageBytes);
  }
  EXPECT_EQ(pool.num_bytes(), kHugePageBytes);
}

// What is not mapped cannot be moved.
TEST(PagePoolTest, LeavesAFreshPageAndEndsIfThePageCannotBeMoved) {
  PagePool& pool = NewPool();
  char* const given = MapPages(1);
  char* const taken = MapPages(1);
  char* const other = MapPages(1);
  munmap(given, kHugePageBytes);
  pool.Give(given, 1, kHugePageBytes);
  pool.Take(taken, 1);
  std::memset(taken, 3, kHugePageBytes);
  EXPECT_EQ(taken[kHugePageBytes - 1], 3);
  pool.Give(other, 1, kHugePageBytes);
  EXPECT_EQ(pool.num_bytes(), 0u);
  EXPECT_FALSE(IsMapped(other));
}

TEST(PagePoolTest, MapsAFreshPageIfTheSystemHasUnmappedTheOneThatItShouldReplace) {
  PagePool& pool = NewPool();
  char* const given = MapPages(2);
  std::memset(given, 5, 2 * kHugePageBytes);
  pool.Give(given, 2, kHugePageBytes);
  char* const taken = MapPages(1);
  remap = Remap::kLosesPage;
  EXPECT_EQ(pool.Take(taken, 1), 1u);
  remap = Remap::kMoves;
  EXPECT_EQ(taken[0] + taken[kHugePageBytes - 1], 0);
  std::memset(taken, 3, kHugePageBytes);
  EXPECT_EQ(pool.num_bytes(), 0u) << "no page can be moved";
  EXPECT_FALSE(IsMapped(given));
}

TEST(PagePoolDeathTest, DoesNotReplaceWhatAnotherThreadHasMapped) {
  PagePool& pool = NewPool();
  pool.Give(MapPages(1), 1, kHugePageBytes);
  char* const taken = MapPages(1);
  const auto take = [&] {
    remap = Remap::kLosesPageToAnother;
    pool.Take(taken, 1);
  };
  EXPECT_DEATH(take(), "the system has unmapped a page of memory and maps no other");
}

}  // namespace
}  // namespace condacc
