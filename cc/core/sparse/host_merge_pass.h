// Merges sparse gradients in host memory with each other and with the rows merged before.
#ifndef CONDACC_CORE_SPARSE_HOST_MERGE_PASS_H_
#define CONDACC_CORE_SPARSE_HOST_MERGE_PASS_H_

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "cc/core/accumulator/gradient.h"
#include "cc/core/accumulator/host_workspace.h"
#include "cc/core/accumulator/round_sum.h"
#include "cc/core/base/buffer.h"
#include "cc/core/base/function_ref.h"
#include "cc/core/base/parallel_for.h"
#include "cc/core/sparse/bucket_memory.h"
#include "cc/core/sparse/row_format.h"
#include "cc/core/sparse/sorted_entries.h"

namespace condacc {

// A gradient to merge. `values` has shape [indices.size, width].
struct HostSource {
  IndexSpan indices;
  const void* values = nullptr;
  double weight = 1;
};

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

// Merges new gradients with the rows merged before. The values of each row are added in order of
// arrival. If a row is repeated within a gradient, the gradient counts once. Methods that need
// memory may throw std::bad_alloc, and then `merged` is unchanged. Each object is used for one call
// of MergeInto(), CopyTo() or WriteTo(), which overwrites its entries.
class HostMergePass {
 public:
  // Keeps a reference to `merged`.
  HostMergePass(const SliceLayout& layout, std::vector<HostSource> sources, MergedRows* merged,
                HostWorkspace& workspace);

  size_t num_rows() const { return num_rows_before(entries_.num_buckets()); }
  size_t num_new_rows() const { return entries_.num_new_before(entries_.num_buckets()); }
  size_t num_entries() const { return entries_.num_entries(); }

  // Adds the sources to the sums in place, and the sums of new rows beside them.
  void MergeInto(HostWorkspace& workspace);

  // Writes the indices, weights and sums of all rows to memory for num_rows() rows. Leaves the
  // merged rows as they are. Allocates nothing and cannot fail.
  void CopyTo(const SumMemory& memory, const ParallelFor& parallel_for);

  // Called between the portions of a result, of which `num_rows` rows have been written.
  using PortionWritten = FunctionRef<void(size_t num_rows)>;

  // Writes all indices to `indices` [num_rows()], and the sums of their rows to `values`
  // [num_rows(), width]. Each sum is divided by `divisor` or, if that is kOfEachRow, by the total
  // weight of the gradients that contain the row. The result is written in at most
  // `num_portions` portions. Between them, entries and sums that have been read are freed,
  // and the calling thread calls `portion_written`. Allocates nothing and cannot fail.
  void WriteTo(
      int64_t* indices, void* values, double divisor, const ParallelFor& parallel_for,
      size_t num_portions = 1, PortionWritten portion_written = [](size_t) {});

 private:
  class RowQueue;
  struct UnionRow;
  class UnionRowCursor;

  size_t num_rows_before(size_t bucket) const {
    return entries_.num_merged_before(bucket) + entries_.num_new_before(bucket);
  }
  const char* ValuesOf(const SliceEntry& entry) const {
    return static_cast<const char*>(sources_[entry.gradient].values) +
           entry.position * layout_.num_bytes();
  }
  void Push(const UnionRow& row, void* out, double divisor, RowQueue* queue);
  // Returns the total weight of the gradients that contain the row, including the new ones.
  double WeightOf(const UnionRow& row) const;
  // Calls visit(row, place) for the rows of buckets [first, last) with their places among all rows.
  template <class Visit>
  void VisitRows(size_t first, size_t last, Visit visit);

  const SliceLayout layout_;
  const std::vector<HostSource> sources_;
  MergedRows& merged_;
  SortedEntries entries_;
  const bool has_weights_;  // If false, the weights of all sources are 1.
  const bool is_cached_;    // Whether all sources and results may be in the caches.
};

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_HOST_MERGE_PASS_H_
