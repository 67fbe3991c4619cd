// The indices of a sparse gradient, as a view.
#ifndef CONDACC_CORE_SPARSE_INDEX_SPAN_H_
#define CONDACC_CORE_SPARSE_INDEX_SPAN_H_

#include <cstddef>
#include <cstdint>

namespace condacc {

// The indices of one gradient: [size] int64, in memory of somebody else. They may be in any order
// and repeat.
struct IndexSpan {
  const int64_t* data = nullptr;
  size_t size = 0;
  int64_t min = 0;           // The lowest index, if there are any.
  int64_t max = 0;           // The highest index, if there are any.
  bool is_ascending = true;  // If true, the indices ascend without repeats.
};

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_INDEX_SPAN_H_
