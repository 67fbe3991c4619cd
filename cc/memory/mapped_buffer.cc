#include "cc/memory/mapped_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "cc/memory/page_pool.h"

namespace condacc {
namespace {

// Each page that was moved may be a mapping of its own, of which a process can have about 65,000.
// If all buffers together have more pages than this, none takes any from the pool.
constexpr size_t kMaxMappedPages = size_t{1} << 14;

std::atomic<size_t> num_mapped_pages{0};  // The huge pages of all buffers.

// The memory of a buffer: huge pages, and a remainder in small pages.
struct Mapping {
  const size_t num_bytes;
  void* begin = nullptr;  // The first huge page begins less than a huge page after this.
  // The pages before this one have been given away.
  size_t first_kept = 0;
  // The pages before this one have been used, or were taken from the pool.
  size_t first_unused = 0;

  size_t num_pages() const { return num_bytes / kHugePageBytes; }
  char* page(size_t i) const {
    const uintptr_t address = reinterpret_cast<uintptr_t>(begin);
    const size_t num_before = (address + kHugePageBytes - 1) / kHugePageBytes;
    return reinterpret_cast<char*>((num_before + i) * kHugePageBytes);
  }

  // Gives away the pages before `end`.
  void GivePagesBefore(size_t end, size_t max_bytes) {
    if (end <= first_kept) return;
    PagePool::Global().Give(page(first_kept), end - first_kept, max_bytes);
    first_kept = end;
  }
};

void Unmap(void* owner) {
  auto* const mapping = static_cast<Mapping*>(owner);
  char* const begin = static_cast<char*>(mapping->begin);
  char* const end = begin + mapping->num_bytes + kHugePageBytes;
  char* const first = mapping->page(0);
  char* const remainder = mapping->page(mapping->num_pages());
  // Much more than this would go back to the system at the end of the next op.
  mapping->GivePagesBefore(mapping->num_pages(),
                           std::min(mapping->num_bytes, 2 * PagePool::kMaxBytes));
  if (begin < first) munmap(begin, static_cast<size_t>(first - begin));
  munmap(remainder, static_cast<size_t>(end - remainder));
  num_mapped_pages -= mapping->num_pages();
  delete mapping;
}

void Discard(void* owner, size_t num_bytes) {
  // Another buffer will take them soon.
  auto* const mapping = static_cast<Mapping*>(owner);
  mapping->GivePagesBefore(num_bytes / kHugePageBytes, mapping->num_bytes);
}

void Refill(void* owner, size_t num_bytes) {
  auto* const mapping = static_cast<Mapping*>(owner);
  const size_t num_used = (num_bytes + kHugePageBytes - 1) / kHugePageBytes;
  const size_t first = std::max(mapping->first_unused, num_used);
  if (first >= mapping->num_pages() || num_mapped_pages > kMaxMappedPages) return;
  mapping->first_unused =
      first + PagePool::Global().Take(mapping->page(first), mapping->num_pages() - first);
}

constexpr Buffer::Parts kParts = {Discard, Refill};

void* Map(size_t num_bytes) {
  return mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

}  // namespace

Buffer MapBuffer(size_t num_bytes) {
  if (num_bytes > SIZE_MAX - kHugePageBytes) return Buffer();
  auto* const mapping = new (std::nothrow) Mapping{num_bytes};
  if (mapping == nullptr) return Buffer();
  mapping->begin = Map(num_bytes + kHugePageBytes);
  if (mapping->begin == MAP_FAILED) {
    PagePool::Global().TrimTo(0);
    mapping->begin = Map(num_bytes + kHugePageBytes);
  }
  if (mapping->begin == MAP_FAILED) {
    delete mapping;
    return Buffer();
  }
  num_mapped_pages += mapping->num_pages();
  // Page faults take a tenth of the time in huge pages. The remainder at the end stays in small
  // pages.
  madvise(mapping->page(0), mapping->num_pages() * kHugePageBytes, MADV_HUGEPAGE);
  Refill(mapping, 0);
  return Buffer(mapping->page(0), mapping, Unmap, &kParts);
}

}  // namespace condacc
