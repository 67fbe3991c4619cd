// The interface through which the core uses threads that it does not own.
#ifndef CONDACC_CORE_BASE_PARALLEL_FOR_H_
#define CONDACC_CORE_BASE_PARALLEL_FOR_H_

#include <cstddef>
#include <functional>

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
void ParallelForThrowing(const ParallelFor& parallel_for, size_t total, size_t chunk,
                         LoopBody body);

}  // namespace condacc

#endif  // CONDACC_CORE_BASE_PARALLEL_FOR_H_
