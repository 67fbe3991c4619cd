// Memory of sums that were merged before the take.
#ifndef CONDACC_CORE_SPARSE_SUM_CHUNK_H_
#define CONDACC_CORE_SPARSE_SUM_CHUNK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cc/core/base/block.h"
#include "cc/core/sparse/sparse_merge.h"

namespace condacc {

// Holds the sums of those rows that one fold found new, in ascending order of the rows. While a
// take writes them out it gives up its memory piece by piece, so that it and the result are never
// there as a whole both at once.
class SumChunk {
 public:
  static constexpr size_t kMaxMarks = 64;

  // `marks`: places among its rows (SparseMerge::MarkNewRows).
  SumChunk(Block sums, std::vector<RowMark> marks, size_t row_bytes)
      : sums_(std::move(sums)), marks_(std::move(marks)), row_bytes_(row_bytes) {}

  // What rows lower than `row` have in it will not be read again. Rows of later calls are higher.
  // Allocates nothing.
  void DiscardBelow(int64_t row) {
    const auto is_lower = [](int64_t value, const RowMark& mark) { return value < mark.row; };
    const auto after = std::upper_bound(marks_.begin(), marks_.end(), row, is_lower);
    if (after == marks_.begin()) return;
    const size_t num_bytes = std::prev(after)->position * row_bytes_;
    if (num_bytes == num_discarded_) return;
    sums_.DiscardFirst(num_bytes);
    num_discarded_ = num_bytes;
  }

 private:
  Block sums_;
  std::vector<RowMark> marks_;
  size_t row_bytes_;
  size_t num_discarded_ = 0;
};

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_SUM_CHUNK_H_
