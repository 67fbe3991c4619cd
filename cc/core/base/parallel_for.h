// How the core is lent threads.
#ifndef CONDACC_CORE_BASE_PARALLEL_FOR_H_
#define CONDACC_CORE_BASE_PARALLEL_FOR_H_

#include <cstddef>
#include <functional>

namespace condacc {

// Calls body(begin, end) for disjoint ranges that cover [0, total), each a multiple of `block`
// long but for the last, perhaps at once from several threads, and returns when all are done.
using ParallelFor = std::function<void(size_t total, size_t block,
                                       const std::function<void(size_t, size_t)>& body)>;

}  // namespace condacc

#endif  // CONDACC_CORE_BASE_PARALLEL_FOR_H_
