// Keeps the pages of freed buffers for new ones.
#ifndef CONDACC_MEMORY_PAGE_POOL_H_
#define CONDACC_MEMORY_PAGE_POOL_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <vector>

#include "cc/core/base/mutex.h"

namespace condacc {

// The size and the alignment of a huge page, where an ordinary page has 4 KiB. It is a multiple of
// every page size that Linux has, which on aarch64 may also be 16 or 64 KiB.
inline constexpr size_t kHugePageBytes = size_t{2} << 20;

// Asks the system to use huge pages for memory that begins at a multiple of kHugePageBytes. Does
// nothing if the system's huge pages are of another size. Where an ordinary page has 64 KiB, as on
// some aarch64 systems, they are of 512 MiB: touching one byte could fill that much memory.
void AdviseHugePages(void* first, size_t num_bytes) noexcept;

// Keeps huge pages that were freed. The system would have to find a new page and fill it with
// zeros, which takes longer than adding gradients in it. A page stays at its address until Take()
// moves it, without copying, to the address where it is needed. Its contents are what was last
// written there. Thread-safe.
class PagePool {
 public:
  using Clock = std::chrono::steady_clock;

  // The pool keeps this many bytes or, if that is more, as many as the largest buffer that gave it
  // pages in the current interval or in the last one.
  static constexpr size_t kMaxBytes = size_t{256} << 20;

  // Pages that nobody has taken for a whole interval return to the system.
  explicit PagePool(Clock::duration interval) : interval_(interval) {}
  ~PagePool() = delete;  // A timer may still refer to the pool.
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  // Returns the pool of this process.
  static PagePool& Global();

  // Takes over the `num_pages` pages from `first` on, of a buffer of `buffer_bytes` bytes. They are
  // private memory mapped readable and writable. Those that are too many return to the system.
  void Give(void* first, size_t num_pages, size_t buffer_bytes) noexcept CONDACC_EXCLUDES(mu_);

  // Replaces at most `num_pages` pages from `first` on, by kept ones or, if the system refuses to
  // move these, by fresh ones. Returns how many.
  size_t Take(void* first, size_t num_pages) noexcept CONDACC_EXCLUDES(mu_);

  // Returns pages to the system until at most `max_bytes` bytes are kept.
  void TrimTo(size_t max_bytes) noexcept CONDACC_EXCLUDES(mu_);

  size_t num_bytes() const { return num_pages_.load(std::memory_order_relaxed) * kHugePageBytes; }

 private:
  // Remove() removes at most this many pages, which are then moved without the lock.
  static constexpr size_t kBatch = 32;

  // Moves at most kBatch pages from the end of `pages_` to `batch`, and returns how many.
  size_t Remove(size_t num_pages, void** batch) CONDACC_EXCLUDES(mu_);
  // Makes sure that a timer will call EndInterval(). Returns false if there can be none. May throw
  // std::bad_alloc.
  bool Watch() CONDACC_REQUIRES(mu_);
  // Returns the pages that were not taken in the interval, and begins another one.
  void EndInterval() noexcept CONDACC_EXCLUDES(mu_);

  const Clock::duration interval_;
  Mutex mu_;
  std::vector<void*> pages_ CONDACC_GUARDED_BY(mu_);
  std::atomic<size_t> num_pages_{0};  // The size of `pages_`.
  // The lowest number of pages in this interval: so many were not taken.
  size_t min_pages_ CONDACC_GUARDED_BY(mu_) = 0;
  // The largest buffers that gave pages in this interval and in the last one.
  size_t largest_bytes_ CONDACC_GUARDED_BY(mu_) = 0;
  size_t last_largest_bytes_ CONDACC_GUARDED_BY(mu_) = 0;
  // The process in which a timer will call EndInterval(), or 0.
  pid_t watched_by_ CONDACC_GUARDED_BY(mu_) = 0;
  std::atomic<bool> can_move_{true};  // False once the system has refused to move a page.
};

}  // namespace condacc

#endif  // CONDACC_MEMORY_PAGE_POOL_H_
