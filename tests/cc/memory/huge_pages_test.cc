#include "cc/memory/huge_pages.h"

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "cc/core/base/buffer.h"
#include "cc/memory/mapped_buffer.h"
#include "cc/memory/page_pool.h"
#include "gtest/gtest.h"
#include "tests/cc/memory/resident_pages.h"

namespace condacc {
namespace {

constexpr size_t kKiB = 1024, kMiB = 1024 * kKiB;

TEST(HugePagesTest, HaveTheSizeThatTheSystemStates) {
  const std::string file = testing::TempDir() + "hpage_pmd_size";
  std::ofstream(file) << "536870912\n";
  EXPECT_EQ(SystemHugePageBytes(file.c_str(), 4 * kKiB), 512 * kMiB);
}

TEST(HugePagesTest, HaveTheSizeThatFollowsFromThePagesIfTheSystemStatesNone) {
  const std::string file = testing::TempDir() + "no_number";
  std::ofstream(file) << "\n";
  for (const char* each : {"/proc/no/such/file", file.c_str(), "/proc"}) {
    EXPECT_EQ(SystemHugePageBytes(each, 4 * kKiB), 2 * kMiB) << each;
    EXPECT_EQ(SystemHugePageBytes(each, 16 * kKiB), 32 * kMiB) << each;
    EXPECT_EQ(SystemHugePageBytes(each, 64 * kKiB), 512 * kMiB) << each;
  }
}

TEST(HugePagesTest, ConsistOfWholePagesInThePool) {
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

TEST(HugePagesTest, AreAskedForOnlyWhereTheyAreAsLargeAsThePagesOfThePool) {
  const Buffer advised = MapBuffer(3 * kHugePageBytes), buffer = MapBuffer(3 * kHugePageBytes);
  // Some systems, and emulators, ignore all advice.
  madvise(advised.data(), kHugePageBytes, MADV_HUGEPAGE);
  const bool is_useful = SystemHugePageBytes(kHugePageSizeFile, PageBytes()) == kHugePageBytes;
  EXPECT_EQ(IsMarked(buffer.data()), IsMarked(advised.data()) && is_useful);
}

}  // namespace
}  // namespace condacc
