#include "cc/memory/heap_trim.h"

#include <malloc.h>

#include <chrono>
#include <cstddef>
#include <exception>
#include <thread>

#include "cc/core/base/mutex.h"

namespace condacc {
namespace {

using Clock = std::chrono::steady_clock;

Mutex trim_mu;
size_t freed_bytes CONDACC_GUARDED_BY(trim_mu) = 0;  // Since the heaps were trimmed.
Clock::time_point next_trim CONDACC_GUARDED_BY(trim_mu);

bool IsTrimDueAfter(size_t num_bytes) {
  MutexLock lock(&trim_mu);
  freed_bytes += num_bytes;
  const Clock::time_point now = Clock::now();
  if (freed_bytes < size_t{256} << 20 || now < next_trim) return false;
  freed_bytes = 0;
  next_trim = now + std::chrono::seconds(10);
  return true;
}

}  // namespace

void NoteFreedHeap(size_t num_bytes) {
#ifdef __GLIBC__
  if (!IsTrimDueAfter(num_bytes)) return;
  try {
    std::thread([] { malloc_trim(0); }).detach();
  } catch (const std::exception&) {
    // No thread can be started now. The memory stays in the heap until trimming is due again.
  }
#endif
}

}  // namespace condacc
