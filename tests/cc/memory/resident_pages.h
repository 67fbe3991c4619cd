// Counts the pages of a piece of memory that the system holds in main memory.
#ifndef CONDACC_TESTS_CC_MEMORY_RESIDENT_PAGES_H_
#define CONDACC_TESTS_CC_MEMORY_RESIDENT_PAGES_H_

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"

namespace condacc {

inline size_t PageBytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

// Returns whether the page at `address` is mapped.
inline bool IsMapped(void* address) {
  unsigned char page = 0;
  return mincore(address, PageBytes(), &page) == 0 || errno != ENOMEM;
}

// Returns how many of the pages that are entirely within the `num_bytes` bytes from `data` on are
// resident.
inline size_t NumResidentPages(const void* data, size_t num_bytes) {
  const uintptr_t first = (reinterpret_cast<uintptr_t>(data) + PageBytes() - 1) / PageBytes();
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + num_bytes) / PageBytes();
  if (end <= first) return 0;
  std::vector<unsigned char> pages(end - first);
  EXPECT_EQ(mincore(reinterpret_cast<void*>(first * PageBytes()), pages.size() * PageBytes(),
                    pages.data()),
            0);
  return static_cast<size_t>(std::count_if(pages.begin(), pages.end(),
                                           [](unsigned char page) { return (page & 1) != 0; }));
}

}  // namespace condacc

#endif  // CONDACC_TESTS_CC_MEMORY_RESIDENT_PAGES_H_
