#include "cc/memory/huge_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>

#include "cc/memory/page_pool.h"

namespace condacc {

void AdviseHugePages(void* first, size_t num_bytes) noexcept {
  static const bool is_useful =
      SystemHugePageBytes(kHugePageSizeFile, static_cast<size_t>(sysconf(_SC_PAGESIZE))) ==
      kHugePageBytes;
  if (is_useful) madvise(first, num_bytes, MADV_HUGEPAGE);
}

size_t SystemHugePageBytes(const char* file, size_t page_bytes) noexcept {
  // A stream would need memory, of which there may be none when pages are moved.
  char text[32] = {};
  const int descriptor = open(file, O_RDONLY | O_CLOEXEC);
  if (descriptor >= 0) {
    if (read(descriptor, text, sizeof text - 1) < 0) text[0] = '\0';
    close(descriptor);
  }
  const size_t num_bytes = std::strtoull(text, nullptr, 10);
  constexpr size_t kEntryBytes = 8;
  return num_bytes > 0 ? num_bytes : page_bytes / kEntryBytes * page_bytes;
}

}  // namespace condacc
