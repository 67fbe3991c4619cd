#include "cc/memory/heap_trim.h"

#include <malloc.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/cc/memory/resident_pages.h"

namespace condacc {
namespace {

constexpr TrimSchedule::Clock::time_point kStart{std::chrono::hours(1)};
constexpr std::chrono::seconds kSecond{1};

TEST(TrimScheduleTest, IsDueWhenEnoughWasFreedInAll) {
  TrimSchedule schedule;
  EXPECT_FALSE(schedule.IsDueAfter(TrimSchedule::kMinBytes - 1, kStart));
  EXPECT_TRUE(schedule.IsDueAfter(1, kStart));
}

TEST(TrimScheduleTest, IsNotDueAgainBeforeTheIntervalIsOver) {
  TrimSchedule schedule;
  EXPECT_TRUE(schedule.IsDueAfter(TrimSchedule::kMinBytes, kStart));
  EXPECT_FALSE(schedule.IsDueAfter(10 * TrimSchedule::kMinBytes, kStart + 9 * kSecond));
  EXPECT_TRUE(schedule.IsDueAfter(1, kStart + 10 * kSecond)) << "what was freed meanwhile counts";
}

TEST(TrimScheduleTest, CountsAnewAfterItWasDue) {
  TrimSchedule schedule;
  EXPECT_TRUE(schedule.IsDueAfter(3 * TrimSchedule::kMinBytes, kStart));
  EXPECT_FALSE(schedule.IsDueAfter(TrimSchedule::kMinBytes - 1, kStart + 20 * kSecond));
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Piece = std::unique_ptr<void, Free>;

// Allocates a piece that malloc takes from a heap: large ones get mappings of their own.
Piece Allocate(size_t num_bytes) {
  Piece piece(std::malloc(num_bytes));
  EXPECT_NE(piece, nullptr);
  std::memset(piece.get(), 1, num_bytes);
  return piece;
}

size_t NumResidentPagesOf(const std::vector<const void*>& pieces, size_t num_bytes) {
  size_t num_resident = 0;
  for (const void* const piece : pieces) num_resident += NumResidentPages(piece, num_bytes);
  return num_resident;
}

TEST(NoteFreedHeapTest, ReturnsFreedMemoryToTheSystemOnceEnoughWasFreed) {
  // Almost every piece contains a whole page, which may have 64 KiB.
  constexpr size_t kPieceBytes = 120 << 10;
  std::vector<Piece> pieces;
  std::vector<const void*> addresses;
  for (int i = 0; i < 256; ++i) {
    pieces.push_back(Allocate(kPieceBytes));
    addresses.push_back(pieces.back().get());
  }
  // free() returns the memory at the end of a heap, so that end must be in use.
  const Piece last = Allocate(kPieceBytes);
  const size_t num_pages = NumResidentPagesOf(addresses, kPieceBytes);
  pieces.clear();
  NoteFreedHeap(TrimSchedule::kMinBytes - 1);
  EXPECT_GT(NumResidentPagesOf(addresses, kPieceBytes), num_pages / 2);
  NoteFreedHeap(1);
  // A thread trims the heap.
  while (NumResidentPagesOf(addresses, kPieceBytes) > num_pages / 10) std::this_thread::yield();
}

#endif

}  // namespace
}  // namespace condacc
