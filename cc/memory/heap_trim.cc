#include "cc/memory/heap_trim.h"

#include <malloc.h>

#include <cstddef>
#include <exception>
#include <thread>

namespace condacc {

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
