#include "cc/memory/mapped_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "cc/core/base/buffer.h"
#include "gtest/gtest.h"
#include "tests/cc/memory/resident_pages.h"

namespace condacc {
namespace {

constexpr size_t kNumBytes = 4 * kHugePageBytes + 12345;

unsigned char* BytesOf(const Buffer& buffer) { return static_cast<unsigned char*>(buffer.data()); }

bool AreAll(const Buffer& buffer, size_t begin, size_t end, unsigned char value) {
  return std::all_of(BytesOf(buffer) + begin, BytesOf(buffer) + end,
                     [value](unsigned char byte) { return byte == value; });
}

TEST(MappedBufferTest, IsZeroAndWritableToItsLastByte) {
  const Buffer buffer = MapBuffer(kNumBytes);
  ASSERT_TRUE(buffer);
  EXPECT_TRUE(AreAll(buffer, 0, kNumBytes, 0));
  std::memset(buffer.data(), 7, kNumBytes);
  EXPECT_TRUE(AreAll(buffer, 0, kNumBytes, 7));
}

TEST(MappedBufferTest, BeginsAtAHugePage) {
  for (const size_t num_bytes : {size_t{1}, kHugePageBytes, kNumBytes}) {
    const Buffer buffer = MapBuffer(num_bytes);
    ASSERT_TRUE(buffer);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kHugePageBytes, 0u) << num_bytes;
  }
}

TEST(MappedBufferTest, OccupiesNoMemoryBeforeItIsWritten) {
  const Buffer buffer = MapBuffer(kNumBytes);
  ASSERT_TRUE(buffer);
  EXPECT_EQ(NumResidentPages(buffer.data(), kNumBytes), 0u);
}

TEST(MappedBufferTest, ReturnsDiscardedPagesToTheSystem) {
  const Buffer buffer = MapBuffer(kNumBytes);
  ASSERT_TRUE(buffer);
  std::memset(buffer.data(), 7, kNumBytes);
  EXPECT_EQ(NumResidentPages(buffer.data(), kNumBytes), kNumBytes / PageBytes());
  size_t num_discarded = 0;
  for (const size_t num_huge_pages : {size_t{1}, size_t{3}}) {
    num_discarded = num_huge_pages * kHugePageBytes;
    buffer.DiscardFirst(num_discarded + 1000);
    EXPECT_EQ(NumResidentPages(buffer.data(), num_discarded), 0u);
    EXPECT_EQ(NumResidentPages(buffer.data(), kNumBytes),
              (kNumBytes - num_discarded) / PageBytes());
  }
  EXPECT_TRUE(AreAll(buffer, num_discarded, kNumBytes, 7)) << "the rest keeps its contents";
  EXPECT_TRUE(AreAll(buffer, 0, num_discarded, 0));
}

TEST(MappedBufferTest, KeepsItsContentsIfLessThanAHugePageIsDiscarded) {
  const Buffer buffer = MapBuffer(kNumBytes);
  ASSERT_TRUE(buffer);
  std::memset(buffer.data(), 7, kNumBytes);
  buffer.DiscardFirst(kHugePageBytes - 1);
  EXPECT_TRUE(AreAll(buffer, 0, kNumBytes, 7));
}

TEST(MappedBufferTest, IsUnmappedWhenItIsDestroyed) {
  Buffer buffer = MapBuffer(kNumBytes);
  ASSERT_TRUE(buffer);
  void* const data = buffer.data();
  std::memset(data, 7, kNumBytes);
  Buffer moved = std::move(buffer);
  EXPECT_EQ(NumResidentPages(data, kNumBytes), kNumBytes / PageBytes());
  moved = Buffer();
  unsigned char page = 0;
  EXPECT_EQ(mincore(data, PageBytes(), &page), -1);
  EXPECT_EQ(errno, ENOMEM);
}

TEST(MappedBufferTest, IsEmptyIfMemoryIsRefused) {
  EXPECT_FALSE(MapBuffer(size_t{1} << 60));
  EXPECT_FALSE(MapBuffer(SIZE_MAX)) << "the size of the mapping would overflow";
}

}  // namespace
}  // namespace condacc
