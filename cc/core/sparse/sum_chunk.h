// Memory of the sums of merged rows.
#ifndef CONDACC_CORE_SPARSE_SUM_CHUNK_H_
#define CONDACC_CORE_SPARSE_SUM_CHUNK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "cc/core/base/buffer.h"

namespace condacc {

// Holds the sums of the rows that were new in one fold, in ascending order of their indices. While
// a take writes these sums to its result, the chunk frees its memory piece by piece, so that the
// chunk and the result never exist in full at the same time.
class SumChunk {
 public:
  static constexpr size_t kMaxMarks = 64;

  // A position up to which memory can be freed: the first `num_rows` rows have indices below
  // `index`.
  struct Mark {
    int64_t index;
    size_t num_rows;
  };

  // `marks` must be in ascending order.
  SumChunk(Buffer sums, std::vector<Mark> marks, size_t row_bytes)
      : sums_(std::move(sums)), marks_(std::move(marks)), row_bytes_(row_bytes) {}

  // Frees the sums of rows whose indices are below `index`, and which will not be read again, up to
  // the nearest mark. Later calls must give higher indices. Allocates nothing.
  void DiscardBelow(int64_t index) {
    const auto is_lower = [](int64_t value, const Mark& mark) { return value < mark.index; };
    const auto after = std::upper_bound(marks_.begin(), marks_.end(), index, is_lower);
    if (after == marks_.begin()) return;
    const size_t num_bytes = std::prev(after)->num_rows * row_bytes_;
    if (num_bytes == num_discarded_) return;
    sums_.DiscardFirst(num_bytes);
    num_discarded_ = num_bytes;
  }

 private:
  Buffer sums_;
  std::vector<Mark> marks_;
  size_t row_bytes_;
  size_t num_discarded_ = 0;
};

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_SUM_CHUNK_H_
