// The indices of a sparse gradient.
#ifndef CONDACC_CORE_ACCUMULATOR_INDEX_SPAN_H_
#define CONDACC_CORE_ACCUMULATOR_INDEX_SPAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "cc/core/base/status.h"

namespace condacc {

// The indices of one gradient: [size] int64, in memory that the span does not own. They may be in
// any order and repeat.
struct IndexSpan {
  const int64_t* data = nullptr;
  size_t size = 0;
  int64_t min = 0;           // The lowest index, if there are any.
  int64_t max = 0;           // The highest index, if there are any.
  bool is_ascending = true;  // If true, the indices ascend without repeats.
};

// Reads all indices of the span once, and sets what it finds in it. Returns InvalidArgument if one
// is negative or not below `index_bound` (unless that is -1).
Status CheckIndices(int64_t index_bound, IndexSpan* span);

// Does what CheckIndices() does for a gradient of this contributor that was accepted before its
// indices were checked, so that the error is that of its round.
Status CheckAcceptedIndices(IndexSpan span, int64_t index_bound,
                            std::optional<int64_t> contributor);

}  // namespace condacc

#endif  // CONDACC_CORE_ACCUMULATOR_INDEX_SPAN_H_
