#include "cc/memory/page_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <utility>

#include "cc/core/base/timer_queue.h"

namespace condacc {
namespace {

void* PageAt(void* first, size_t i) { return static_cast<char*>(first) + i * kHugePageBytes; }

// Returns pages to the system. Unmapping those in the middle of a mapping makes two of it, and may
// be refused because there are too many. Then only the memory is returned.
void Unmap(void* first, size_t num_pages) {
  const size_t num_bytes = num_pages * kHugePageBytes;
  if (munmap(first, num_bytes) != 0) madvise(first, num_bytes, MADV_DONTNEED);
}

bool IsMapped(void* page) {
  constexpr size_t kMinPageBytes = 4096;
  unsigned char residence[kHugePageBytes / kMinPageBytes];
  return mincore(page, kHugePageBytes, residence) == 0;
}

#ifndef MAP_FIXED_NOREPLACE  // The headers of glibc have it since 2.27.
#define MAP_FIXED_NOREPLACE 0x100000
#endif

// Maps a page at `to`. Never replaces what another thread has mapped there meanwhile. If the system
// refuses, the process ends: nothing can be put in the place of the page.
void MapAt(void* to) {
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
  if (mmap(to, kHugePageBytes, PROT_READ | PROT_WRITE, flags, -1, 0) == to) {
    AdviseHugePages(to, kHugePageBytes);
    return;
  }
  // The buffer that the page belongs to may be a result, which cannot fail any more.
  std::fputs("tf_condacc: the system has unmapped a page of memory and maps no other\n", stderr);
  std::abort();
}

// Moves a page to `to`, where another one is mapped. If the system refuses, there is a new page at
// `to`, or the one that was there, and the old one is freed.
bool Move(void* page, void* to) {
  if (mremap(page, kHugePageBytes, kHugePageBytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to) {
    return true;
  }
  // Unmapping the page makes room for another mapping.
  Unmap(page, 1);
  // The system may have unmapped what was at `to`.
  if (!IsMapped(to)) MapAt(to);
  return false;
}

}  // namespace

void AdviseHugePages(void* first, size_t num_bytes) noexcept {
  // A huge page takes the place of all ordinary ones in one page of the page table, whose entries
  // have 8 bytes. So it has 2 MiB if and only if an ordinary page has 4 KiB.
  static const bool is_useful = sysconf(_SC_PAGESIZE) == 4096;
  if (is_useful) madvise(first, num_bytes, MADV_HUGEPAGE);
}

PagePool& PagePool::Global() {
  // Made without an allocation, which could fail in a destructor.
  alignas(PagePool) static unsigned char memory[sizeof(PagePool)];
  static PagePool* const pool = new (memory) PagePool(std::chrono::seconds(10));
  return *pool;
}

void PagePool::Give(void* first, size_t num_pages, size_t buffer_bytes) noexcept {
  size_t num_kept = 0;
  if (num_pages > 0 && can_move_) {
    MutexLock lock(&mu_);
    largest_bytes_ = std::max(largest_bytes_, buffer_bytes);
    const size_t max_bytes = std::max({kMaxBytes, largest_bytes_, last_largest_bytes_});
    const size_t max_pages = max_bytes / kHugePageBytes;
    try {
      if (Watch()) {
        num_kept = std::min(num_pages, max_pages - std::min(max_pages, pages_.size()));
        if (pages_.size() + num_kept > pages_.capacity()) {
          pages_.reserve(2 * (pages_.size() + num_kept));
        }
        for (size_t i = 0; i < num_kept; ++i) pages_.push_back(PageAt(first, i));
      }
    } catch (const std::bad_alloc&) {
      num_kept = 0;
    }
    num_pages_ = pages_.size();
  }
  if (num_kept < num_pages) Unmap(PageAt(first, num_kept), num_pages - num_kept);
}

size_t PagePool::Take(void* first, size_t num_pages) noexcept {
  size_t num_taken = 0;
  void* batch[kBatch];
  while (can_move_ && num_pages_ > 0 && num_taken < num_pages) {
    const size_t num_removed = Remove(num_pages - num_taken, batch);
    for (size_t i = 0; i < num_removed; ++i) {
      if (!Move(batch[i], PageAt(first, num_taken++))) can_move_ = false;
    }
  }
  if (!can_move_) TrimTo(0);
  return num_taken;
}

void PagePool::TrimTo(size_t max_bytes) noexcept {
  const size_t max_pages = max_bytes / kHugePageBytes;
  void* batch[kBatch];
  for (size_t num_pages = num_pages_; num_pages > max_pages; num_pages = num_pages_) {
    const size_t num_removed = Remove(num_pages - max_pages, batch);
    for (size_t i = 0; i < num_removed; ++i) Unmap(batch[i], 1);
  }
}

size_t PagePool::Remove(size_t num_pages, void** batch) {
  MutexLock lock(&mu_);
  const size_t num_removed = std::min({num_pages, kBatch, pages_.size()});
  std::copy(pages_.end() - static_cast<std::ptrdiff_t>(num_removed), pages_.end(), batch);
  pages_.resize(pages_.size() - num_removed);
  num_pages_ = pages_.size();
  min_pages_ = std::min(min_pages_, pages_.size());
  return num_removed;
}

bool PagePool::Watch() {
  // The timers of the process that has forked this one are not called here.
  if (watched_by_ == getpid()) return true;
  const auto ticket = TimerQueue::Global().Schedule(interval_, [this] { EndInterval(); });
  if (ticket != TimerQueue::kNoTicket) watched_by_ = getpid();
  return ticket != TimerQueue::kNoTicket;
}

void PagePool::EndInterval() noexcept {
  size_t num_pages = 0;
  try {
    MutexLock lock(&mu_);
    watched_by_ = 0;
    last_largest_bytes_ = std::exchange(largest_bytes_, 0);
    num_pages = pages_.size() - min_pages_;
    min_pages_ = num_pages;
    // If nobody would look for unused pages later, none is kept.
    if (num_pages == 0 || !Watch()) num_pages = 0;
  } catch (const std::bad_alloc&) {
    num_pages = 0;
  }
  TrimTo(num_pages * kHugePageBytes);
}

}  // namespace condacc
