// Sorts the slices of sparse gradients by their indices.
#ifndef CONDACC_CORE_SPARSE_SORTED_ENTRIES_H_
#define CONDACC_CORE_SPARSE_SORTED_ENTRIES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cc/core/accumulator/gradient.h"
#include "cc/core/accumulator/host_workspace.h"
#include "cc/core/base/parallel_for.h"
#include "cc/core/sparse/bucket_memory.h"
#include "cc/core/sparse/index_buckets.h"
#include "cc/core/sparse/row_format.h"

namespace condacc {

// The slices of several gradients as entries, ordered by index, and for each index in order of
// arrival. The entries are in buckets that cover disjoint ranges of indices, so that several
// threads can work on different buckets.
class SortedEntries {
 public:
  // Sorts the entries: they are dealt out to buckets in one stable pass and then sorted within each
  // bucket, in the cache. No index may be negative. Gradients of 2^32 slices or more and more than
  // 2^32 gradients are not supported. `merged_indices` are the indices of the rows merged before,
  // ascending and without repeats. They are walked along with the entries, so they also count when
  // buckets are chosen. May throw std::bad_alloc.
  SortedEntries(const std::vector<IndexSpan>& gradients, const IndexSpan& merged_indices,
                HostWorkspace& workspace);

  const IndexBuckets& buckets() const { return buckets_; }
  size_t num_buckets() const { return buckets_.size(); }
  size_t num_entries() const { return num_entries_; }
  // The number of merged rows in lower buckets. `bucket` may be num_buckets().
  size_t num_merged_before(size_t bucket) const { return merged_starts_[bucket]; }
  // The number of rows in lower buckets that have entries but were not merged before.
  size_t num_new_before(size_t bucket) const { return new_starts_[bucket]; }
  // The same for each bucket and, at the end, for num_buckets().
  const std::vector<size_t>& new_starts() const { return new_starts_; }
  SliceEntry* begin(size_t bucket) const {
    return reinterpret_cast<SliceEntry*>(entries_.Of(bucket));
  }
  SliceEntry* end(size_t bucket) const {
    return begin(bucket) + (starts_[bucket + 1] - starts_[bucket]);
  }

  // Frees entries whose indices are below `index`.
  void FreeBelow(int64_t index) { entries_.FreeBelow(index); }

 private:
  // Counts[chunk][bucket] is the number of the chunk's entries in the bucket. TurnIntoPlaces()
  // replaces it by the place, within the bucket, of the chunk's first entry.
  using Counts = std::vector<std::vector<size_t>>;

  void ChooseBuckets(std::vector<IndexSpan> spans, const IndexSpan& merged_indices);
  void LocateMergedIndices(const IndexSpan& merged_indices);
  Counts Count(const std::vector<IndexSpan>& gradients, const ParallelFor& parallel_for) const;
  void TurnIntoPlaces(Counts* counts);
  void Deal(const std::vector<IndexSpan>& gradients, const Counts& places,
            const ParallelFor& parallel_for);
  void Sort(const IndexSpan& merged_indices, const ParallelFor& parallel_for);
  size_t CountNew(size_t bucket, const IndexSpan& merged_indices) const;

  size_t chunk_size() const;  // The entries of a chunk, except the last.
  size_t num_chunks() const;
  // Calls visit(bucket_of, gradient, first, last) for each range of positions in a gradient whose
  // entries are in the chunk. `bucket_of` returns the bucket of an index.
  template <typename Visit>
  void VisitChunk(const std::vector<IndexSpan>& gradients, size_t chunk, Visit visit) const;

  IndexBuckets buckets_;
  BucketMemory entries_;
  size_t num_entries_ = 0;
  // The positions at which the entries, the merged rows and the new rows of each bucket begin. The
  // last element is the position at which those of the last bucket end.
  std::vector<size_t> starts_;
  std::vector<size_t> merged_starts_;
  std::vector<size_t> new_starts_;
};

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_SORTED_ENTRIES_H_
