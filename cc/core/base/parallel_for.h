// The interface through which the core uses threads that it does not own.
#ifndef CONDACC_CORE_BASE_PARALLEL_FOR_H_
#define CONDACC_CORE_BASE_PARALLEL_FOR_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <new>

#include "cc/core/base/function_ref.h"

namespace condacc {

// A loop calls its body with ranges [begin, end).
using LoopBody = FunctionRef<void(size_t begin, size_t end)>;

// Calls body(begin, end) for disjoint ranges that cover [0, total), and returns when all calls have
// returned. Several threads may call `body` at the same time. The length of each range but the last
// is a multiple of `chunk`.
using ParallelFor = std::function<void(size_t total, size_t chunk, LoopBody body)>;

// Does what parallel_for does. If any call of `body` throws std::bad_alloc, this throws it after
// all calls have returned.
inline void ParallelForThrowing(const ParallelFor& parallel_for, size_t total, size_t chunk,
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

#endif  // CONDACC_CORE_BASE_PARALLEL_FOR_H_
