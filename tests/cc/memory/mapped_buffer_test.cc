#include "cc/memory/mapped_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "cc/core/base/buffer.h"
#include "cc/memory/page_pool.h"
#include "gtest/gtest.h"
#include "tests/cc/memory/resident_pages.h"

namespace condacc {
namespace {

constexpr size_t kNumPages = 5;
constexpr size_t kNumBytes = (kNumPages - 1) * kHugePageBytes + 12345;

unsigned char* BytesOf(const Buffer& buffer) { return static_cast<unsigned char*>(buffer.data()); }

bool AreAll(const Buffer& buffer, size_t begin, size_t end, unsigned char value) {
  return std::all_of(BytesOf(buffer) + begin, BytesOf(buffer) + end,
                     [value](unsigned char byte) { return byte == value; });
}

// Begins and ends without pages in the pool.
class MappedBufferTest : public testing::Test {
 protected:
  MappedBufferTest() { PagePool::Global().TrimTo(0); }
  ~MappedBufferTest() override { PagePool::Global().TrimTo(0); }

  // Makes a buffer of bytes that are `value`.
  static Buffer Filled(unsigned char value) {
    Buffer buffer = MapBuffer(kNumBytes);
    EXPECT_TRUE(buffer);
    std::memset(buffer.data(), value, kNumBytes);
    return buffer;
  }
};

TEST_F(MappedBufferTest, BeginsAtAHugePage) {
  for (const size_t num_bytes : {size_t{1}, kHugePageBytes, kNumBytes}) {
    const Buffer buffer = MapBuffer(num_bytes);
    ASSERT_TRUE(buffer);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % kHugePageBytes, 0u) << num_bytes;
  }
}

TEST_F(MappedBufferTest, ConsistsOfWholePages) {
  EXPECT_EQ(kHugePageBytes % PageBytes(), 0u) << PageBytes();
}

// Returns whether the mapping at an address is marked for huge pages.
bool IsMarked(const void* address) {
  std::ifstream smaps("/proc/self/smaps");
  bool is_there = false;
  for (std::string line; std::getline(smaps, line);) {
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream words(line);
    if (words >> std::hex >> begin >> dash >> end && dash == '-') {
      const auto wanted = reinterpret_cast<uintptr_t>(address);
      is_there = begin <= wanted && wanted < end;
    }
    if (is_there && line.rfind("VmFlags:", 0) == 0) return line.find(" hg") != std::string::npos;
  }
  return false;
}

TEST_F(MappedBufferTest, AsksForHugePagesOnlyWhereTheyAreAsLargeAsThoseOfThePool) {
  const Buffer advised = MapBuffer(3 * kHugePageBytes), buffer = MapBuffer(3 * kHugePageBytes);
  // Some systems, and emulators, ignore all advice.
  madvise(advised.data(), kHugePageBytes, MADV_HUGEPAGE);
  EXPECT_EQ(IsMarked(buffer.data()), IsMarked(advised.data()) && PageBytes() == 4096);
}

TEST_F(MappedBufferTest, OccupiesNoMemoryBeforeItIsWritten) {
  const Buffer buffer = MapBuffer(kNumBytes);
  ASSERT_TRUE(buffer);
  EXPECT_EQ(NumResidentPages(buffer.data(), kNumBytes), 0u);
}

TEST_F(MappedBufferTest, ANewBufferHasThePagesOfAFreedOne) {
  Filled(7);
  EXPECT_EQ(PagePool::Global().num_bytes(), kNumPages * kHugePageBytes);
  const Buffer buffer = MapBuffer(kNumBytes);
  EXPECT_EQ(PagePool::Global().num_bytes(), 0u);
  EXPECT_TRUE(AreAll(buffer, 0, kNumBytes, 7));
}

TEST_F(MappedBufferTest, IsRefilledWithFreedPagesAfterWhatIsInUse) {
  const Buffer result = MapBuffer(kNumBytes);
  std::memset(result.data(), 1, kHugePageBytes + 1);
  const auto free_pages = [](size_t num_pages) {
    const Buffer sums = MapBuffer(num_pages * kHugePageBytes);
    std::memset(sums.data(), 7, num_pages * kHugePageBytes);
  };
  free_pages(1);
  result.RefillAfter(kHugePageBytes + 1);
  EXPECT_TRUE(AreAll(result, 0, kHugePageBytes + 1, 1));
  EXPECT_TRUE(AreAll(result, 2 * kHugePageBytes, 3 * kHugePageBytes, 7));
  std::memset(result.data(), 1, 3 * kHugePageBytes);
  free_pages(3);
  result.RefillAfter(2 * kHugePageBytes);
  EXPECT_TRUE(AreAll(result, 0, 3 * kHugePageBytes, 1)) << "pages that came before stay";
  EXPECT_TRUE(AreAll(result, 3 * kHugePageBytes, kNumBytes, 7));
  EXPECT_EQ(PagePool::Global().num_bytes(), kHugePageBytes) << "there was room for two";
}

TEST_F(MappedBufferTest, ItsFirstPagesCanBeFreedAlone) {
  {
    const Buffer buffer = Filled(7);
    buffer.FreeFirst(kHugePageBytes - 1);
    EXPECT_EQ(PagePool::Global().num_bytes(), 0u) << "the last byte of the page is in use";
    buffer.FreeFirst(2 * kHugePageBytes + 1);
    EXPECT_EQ(PagePool::Global().num_bytes(), 2 * kHugePageBytes);
    buffer.FreeFirst(2 * kHugePageBytes + 1);
    EXPECT_EQ(PagePool::Global().num_bytes(), 2 * kHugePageBytes);
    const Buffer other = MapBuffer(2 * kHugePageBytes);
    EXPECT_EQ(PagePool::Global().num_bytes(), 0u);
    std::memset(other.data(), 1, 2 * kHugePageBytes);
    EXPECT_TRUE(AreAll(buffer, 2 * kHugePageBytes, kNumBytes, 7));
  }
  EXPECT_EQ(PagePool::Global().num_bytes(), kNumPages * kHugePageBytes);
}

TEST_F(MappedBufferTest, IsUnmappedWhenItIsDestroyed) {
  Buffer buffer = Filled(7);
  void* const data = buffer.data();
  Buffer moved = std::move(buffer);
  EXPECT_EQ(NumResidentPages(data, kNumBytes), kNumBytes / PageBytes());
  moved = Buffer();
  PagePool::Global().TrimTo(0);
  for (size_t offset = 0; offset < kNumBytes; offset += kHugePageBytes) {
    EXPECT_FALSE(IsMapped(static_cast<char*>(data) + offset)) << offset;
  }
}

TEST_F(MappedBufferTest, IsEmptyIfMemoryIsRefused) {
  EXPECT_FALSE(MapBuffer(size_t{1} << 60));
  EXPECT_FALSE(MapBuffer(SIZE_MAX)) << "the size of the mapping would overflow";
}

}  // namespace
}  // namespace condacc
