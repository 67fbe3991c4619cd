#include "cc/memory/mapped_memory.h"

#include <malloc.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <thread>

#include "cc/memory/trim_schedule.h"

namespace condacc {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

struct Mapping {
  void* begin;
  size_t num_bytes;

  // The data begins at the first boundary of a huge page.
  void* data() const {
    const uintptr_t address = reinterpret_cast<uintptr_t>(begin);
    return reinterpret_cast<void*>((address + kHugePage - 1) / kHugePage * kHugePage);
  }
};

void Unmap(void* owner) {
  auto* const mapping = static_cast<Mapping*>(owner);
  munmap(mapping->begin, mapping->num_bytes);
  delete mapping;
}

// Returns the whole pages among the first `num_bytes` bytes to the system.
void DiscardPages(void* owner, size_t num_bytes) {
  const size_t num_discarded = num_bytes / kHugePage * kHugePage;
  if (num_discarded > 0) {
    madvise(static_cast<Mapping*>(owner)->data(), num_discarded, MADV_DONTNEED);
  }
}

}  // namespace

Buffer MapBuffer(size_t num_bytes) {
  auto* const mapping = new (std::nothrow) Mapping{nullptr, num_bytes + kHugePage};
  if (mapping == nullptr) return Buffer();
  mapping->begin =
      mmap(nullptr, mapping->num_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping->begin == MAP_FAILED) {
    delete mapping;
    return Buffer();
  }
  // Page faults take a tenth of the time in huge pages. The rest at the end stays in small
  // pages.
  madvise(mapping->data(), num_bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
  return Buffer(mapping->data(), mapping, Unmap, DiscardPages);
}

void NoteFreedHeap(size_t num_bytes) {
#ifdef __GLIBC__
  static TrimSchedule schedule;
  if (!schedule.IsDueAfter(num_bytes, TrimSchedule::Clock::now())) return;
  try {
    std::thread([] { malloc_trim(0); }).detach();
  } catch (const std::exception&) {
    // No thread can be started now. The memory stays in the heap until trimming is due again.
  }
#endif
}

}  // namespace condacc
