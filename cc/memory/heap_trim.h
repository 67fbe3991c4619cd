// Returns freed memory from malloc's heaps to the system.
#ifndef CONDACC_MEMORY_HEAP_TRIM_H_
#define CONDACC_MEMORY_HEAP_TRIM_H_

#include <chrono>
#include <cstddef>
#include <optional>

#include "cc/core/base/mutex.h"

namespace condacc {

// Records that `num_bytes` bytes of malloc's memory were freed. glibc keeps freed buffers, even
// large ones, in the heaps of the threads that freed them, where other threads cannot use them.
// When TrimSchedule says so, a background thread returns them to the system. Does not block.
void NoteFreedHeap(size_t num_bytes);

// Decides when heaps should be trimmed. malloc_trim() walks the whole heap of the process, so its
// cost depends on the size of the heap and not on what was freed. It should run rarely, and only
// after much was freed. Thread-safe.
class TrimSchedule {
 public:
  using Clock = std::chrono::steady_clock;

  static constexpr size_t kMinBytes = size_t{256} << 20;
  static constexpr std::chrono::seconds kMinInterval{10};

  // Records that `num_bytes` bytes were freed at the time `now`. Returns whether the heap should be
  // trimmed now: at least kMinBytes were freed since this last returned true, which was at least
  // kMinInterval ago or never happened.
  bool IsDueAfter(size_t num_bytes, Clock::time_point now) CONDACC_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    freed_bytes_ += num_bytes;
    if (freed_bytes_ < kMinBytes) return false;
    if (last_.has_value() && now - *last_ < kMinInterval) return false;
    freed_bytes_ = 0;
    last_ = now;
    return true;
  }

 private:
  Mutex mu_;
  size_t freed_bytes_ CONDACC_GUARDED_BY(mu_) = 0;
  std::optional<Clock::time_point> last_ CONDACC_GUARDED_BY(mu_);
};

}  // namespace condacc

#endif  // CONDACC_MEMORY_HEAP_TRIM_H_
