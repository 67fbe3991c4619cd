#include "cc/memory/mapped_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "cc/memory/held_bytes.h"
#include "cc/memory/page_pool.h"

namespace condacc {
namespace {

// Each page that was moved may be a mapping of its own, of which a process can have about 65,000.
// If all buffers together have more pages than this, none takes any from the pool.
constexpr size_t kMaxMappedPages = size_t{1} << 14;

std::atomic<size_t> num_mapped_pages{0};  // The huge pages of all buffers.

// The memory of a buffer.
struct Mapping {
  const size_t num_pages;
  char* begin = nullptr;
  // The pages before this one have been used, or were taken from the pool.
  size_t first_unused = 0;
  size_t num_freed = 0;  // The pages before this one are no longer the mapping's.

  size_t num_bytes() const { return num_pages * kHugePageBytes; }
  char* page(size_t i) const { return begin + i * kHugePageBytes; }
};

// Frees the pages before page `end`. Another buffer will take them soon.
void FreePages(Mapping* mapping, size_t end) {
  if (end <= mapping->num_freed) return;
  const size_t num_pages = end - mapping->num_freed;
  PagePool::Global().Give(mapping->page(mapping->num_freed), num_pages, mapping->num_bytes());
  num_mapped_pages -= num_pages;
  HeldBytes::Global().Remove(num_pages * kHugePageBytes);
  mapping->num_freed = end;
}

void FreeFirst(void* owner, size_t num_bytes) {
  FreePages(static_cast<Mapping*>(owner), num_bytes / kHugePageBytes);
}

void Unmap(void* owner) {
  auto* const mapping = static_cast<Mapping*>(owner);
  FreePages(mapping, mapping->num_pages);
  delete mapping;
}

void Refill(void* owner, size_t num_bytes) {
  auto* const mapping = static_cast<Mapping*>(owner);
  const size_t num_used = (num_bytes + kHugePageBytes - 1) / kHugePageBytes;
  const size_t first = std::max(mapping->first_unused, num_used);
  if (first >= mapping->num_pages || num_mapped_pages > kMaxMappedPages) return;
  mapping->first_unused =
      first + PagePool::Global().Take(mapping->page(first), mapping->num_pages - first);
}

// Maps memory that begins at a multiple of the size of a huge page. Returns null if there is not
// enough.
char* Map(size_t num_bytes) {
  const size_t num_mapped = num_bytes + kHugePageBytes;
  void* const mapped =
      mmap(nullptr, num_mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const size_t offset = reinterpret_cast<uintptr_t>(mapped) % kHugePageBytes;
  const size_t num_before = offset == 0 ? 0 : kHugePageBytes - offset;
  char* const begin = static_cast<char*>(mapped) + num_before;
  if (num_before > 0) munmap(mapped, num_before);
  munmap(begin + num_bytes, kHugePageBytes - num_before);
  return begin;
}

}  // namespace

Buffer MapBuffer(size_t num_bytes) {
  if (num_bytes > SIZE_MAX - 2 * kHugePageBytes) return Buffer();
  const size_t num_pages = (num_bytes + kHugePageBytes - 1) / kHugePageBytes;
  auto* const mapping = new (std::nothrow) Mapping{num_pages};
  if (mapping == nullptr) return Buffer();
  mapping->begin = Map(mapping->num_bytes());
  if (mapping->begin == nullptr) {
    PagePool::Global().TrimTo(0);
    mapping->begin = Map(mapping->num_bytes());
  }
  if (mapping->begin == nullptr) {
    delete mapping;
    return Buffer();
  }
  num_mapped_pages += num_pages;
  HeldBytes::Global().Add(mapping->num_bytes());
  // Page faults take a tenth of the time in huge pages.
  AdviseHugePages(mapping->begin, mapping->num_bytes());
  Refill(mapping, 0);
  return Buffer(mapping->begin, mapping, Unmap, Refill, FreeFirst);
}

}  // namespace condacc
