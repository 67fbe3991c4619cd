#include "cc/core/base/parallel_for.h"

#include <atomic>
#include <new>

namespace condacc {

void ParallelForThrowing(const ParallelFor& parallel_for, size_t total, size_t chunk,
                         LoopBody body) {
  std::atomic<bool> failed{false};
  const auto guarded = [&](size_t begin, size_t end) {
    try {
      body(begin, end);
    } catch (const std::bad_alloc&) {
      failed.store(true);
    }
  };
  if (total <= chunk) {
    guarded(0, total);
  } else {
    parallel_for(total, chunk, guarded);
  }
  if (failed.load()) throw std::bad_alloc();
}

}  // namespace condacc
