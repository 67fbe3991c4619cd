#include "cc/memory/mapped_buffer.h"

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <new>

namespace condacc {
namespace {

struct Mapping {
  void* begin;
  size_t num_bytes;

  // The data begins at the first boundary of a huge page.
  void* data() const {
    const uintptr_t address = reinterpret_cast<uintptr_t>(begin);
    return reinterpret_cast<void*>((address + kHugePageBytes - 1) / kHugePageBytes *
                                   kHugePageBytes);
  }
};

void Unmap(void* owner) {
  auto* const mapping = static_cast<Mapping*>(owner);
  munmap(mapping->begin, mapping->num_bytes);
  delete mapping;
}

// Returns the whole pages among the first `num_bytes` bytes to the system.
void DiscardPages(void* owner, size_t num_bytes) {
  const size_t num_discarded = num_bytes / kHugePageBytes * kHugePageBytes;
  if (num_discarded > 0) {
    madvise(static_cast<Mapping*>(owner)->data(), num_discarded, MADV_DONTNEED);
  }
}

}  // namespace

Buffer MapBuffer(size_t num_bytes) {
  if (num_bytes > SIZE_MAX - kHugePageBytes) return Buffer();
  auto* const mapping = new (std::nothrow) Mapping{nullptr, num_bytes + kHugePageBytes};
  if (mapping == nullptr) return Buffer();
  mapping->begin =
      mmap(nullptr, mapping->num_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping->begin == MAP_FAILED) {
    delete mapping;
    return Buffer();
  }
  // Page faults take a tenth of the time in huge pages. The remainder at the end stays in small
  // pages.
  madvise(mapping->data(), num_bytes / kHugePageBytes * kHugePageBytes, MADV_HUGEPAGE);
  return Buffer(mapping->data(), mapping, Unmap, DiscardPages);
}

}  // namespace condacc
