// The rows merged so far, and a cursor over these and new entries.
#ifndef CONDACC_CORE_SPARSE_MERGED_ROWS_H_
#define CONDACC_CORE_SPARSE_MERGED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "cc/core/accumulator/gradient.h"
#include "cc/core/accumulator/host_workspace.h"
#include "cc/core/base/buffer.h"
#include "cc/core/sparse/bucket_memory.h"
#include "cc/core/sparse/slices.h"
#include "cc/core/sparse/sorted_entries.h"

namespace condacc {

// The rows merged so far: their indices, ascending and unique, and for each its sum and the total
// weight of the gradients that contain it.
struct MergedRows {
  MergedRows() = default;
  // Allocates memory for the lists of this many rows. It is not initialised, so that the threads
  // that write the rows share the cost of its pages. May throw std::bad_alloc.
  MergedRows(size_t num_rows, HostWorkspace& workspace) : size_(num_rows) {
    static_assert(sizeof(void*) == sizeof(int64_t) && sizeof(double) == sizeof(int64_t));
    lists_ = workspace.AllocateInner(3 * num_rows * sizeof(int64_t));
    if (!lists_) throw std::bad_alloc();
    indices = static_cast<int64_t*>(lists_.data());
    sums = reinterpret_cast<void**>(indices + num_rows);
    weights = reinterpret_cast<double*>(indices + 2 * num_rows);
  }

  size_t size() const { return size_; }
  IndexSpan index_span() const {
    if (size() == 0) return IndexSpan();
    return {indices, size(), indices[0], indices[size() - 1]};
  }

  int64_t* indices = nullptr;
  void** sums = nullptr;  // Each has SliceLayout::width elements of SliceLayout::sum_type().
  double* weights = nullptr;
  std::vector<BucketMemory> sum_memory;  // The sums of the rows that were new in each fold.

 private:
  size_t size_ = 0;
  Buffer lists_;
};

// A row that was merged before, or has new entries, or both. The sum may be null even if the row
// was merged before, since rows may have no elements.
struct UnionRow {
  int64_t index;
  void* sum;
  bool is_new;
  double weight;  // Total weight of the gradients in the sum; 0 for a new row.
  SliceEntry* begin;
  SliceEntry* end;
};

// Iterates over the rows of a bucket in ascending order: the union of those merged before and those
// that have new entries.
class UnionRowCursor {
 public:
  UnionRowCursor(const MergedRows& merged, const SortedEntries& entries, size_t bucket)
      : merged_(merged),
        m_(entries.num_merged_before(bucket)),
        merged_end_(entries.num_merged_before(bucket + 1)),
        entry_(entries.begin(bucket)),
        end_(entries.end(bucket)) {}

  // Outputs the next row. Returns false if there is none.
  bool Next(UnionRow* row) {
    if (entry_ == end_ && m_ == merged_end_) return false;
    const bool is_merged =
        m_ < merged_end_ && (entry_ == end_ || merged_.indices[m_] <= entry_->index);
    row->index = is_merged ? merged_.indices[m_] : entry_->index;
    row->sum = is_merged ? merged_.sums[m_] : nullptr;
    row->is_new = !is_merged;
    row->weight = is_merged ? merged_.weights[m_] : 0;
    row->begin = entry_;
    while (entry_ < end_ && entry_->index == row->index) ++entry_;
    row->end = entry_;
    m_ += is_merged ? 1 : 0;
    return true;
  }

 private:
  const MergedRows& merged_;
  size_t m_;  // Number of the next merged row.
  const size_t merged_end_;
  SliceEntry* entry_;
  SliceEntry* const end_;
};

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_MERGED_ROWS_H_
