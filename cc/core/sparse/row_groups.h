// Groups the rows of sparse gradients by their indices.
#ifndef CONDACC_CORE_SPARSE_ROW_GROUPS_H_
#define CONDACC_CORE_SPARSE_ROW_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "cc/core/base/parallel_for.h"
#include "cc/core/sparse/bucket_sorter.h"
#include "cc/core/sparse/row_buckets.h"

namespace condacc {

// The indices of one gradient: [size] int64. None is negative. They may be in any order and repeat.
struct RowList {
  const int64_t* rows = nullptr;
  size_t size = 0;
  int64_t min = 0;  // The lowest index, if there are any.
  int64_t max = 0;  // The highest index, if there are any.
};

// The rows of several gradients as entries, ordered by index, and for each index in order of
// arrival. The entries lie in buckets, each of which covers a range of indices of its own, so that
// several threads can work on different buckets.
class RowGroups {
 public:
  // Sorts the entries: they are dealt out to buckets in one stable pass and then sorted within each
  // bucket, in the cache. Lists of 2^32 rows or more and more than 2^32 lists are not supported.
  // `merged_rows` are the indices of the rows merged before, ascending and without repeats. They
  // will be walked along with the entries, so they count, too, when buckets are chosen. `entries`
  // is the memory for the entries, of which there are as many as rows in all lists. May throw
  // std::bad_alloc.
  RowGroups(const std::vector<RowList>& lists, const RowList& merged_rows, RowEntry* entries,
            const ParallelFor& parallel_for);

  size_t num_buckets() const { return buckets_.size(); }
  size_t num_entries() const { return starts_.back(); }
  // The number of entries in lower buckets.
  size_t num_entries_before(size_t bucket) const { return starts_[bucket]; }
  // The number of merged rows in lower buckets. `bucket` may be num_buckets().
  size_t num_merged_before(size_t bucket) const { return merged_starts_[bucket]; }
  RowEntry* begin(size_t bucket) const { return entries_ + starts_[bucket]; }
  RowEntry* end(size_t bucket) const { return entries_ + starts_[bucket + 1]; }
  // A bucket covers the indices from its first_row() up to that of the next bucket.
  int64_t first_row(size_t bucket) const { return buckets_.first_row(bucket); }

 private:
  // Estimates about a bucket, made before entries are dealt out to it.
  struct Survey {
    size_t size = 0;  // Estimated number of its entries and merged rows.
    RowRange range;   // Range of the indices of its sampled entries and its merged rows.
    // The result of a majority vote of the sampled entries (Boyer and Moore): if one index is that
    // of more than half of them, it is `frequent_row`. Its entries outnumber all others by at most
    // `majority`.
    int64_t frequent_row = 0;
    size_t majority = 0;
  };
  // Counts[block][bucket] is how many entries of a block belong to a bucket.
  using Counts = std::vector<std::vector<size_t>>;

  void ChooseBuckets(const std::vector<RowList>& lists, const RowList& merged_rows);
  std::vector<int64_t> Sample(const std::vector<RowList>& lists, int stride_bits) const;
  std::vector<Survey> SurveyBuckets(const std::vector<int64_t>& sample, int stride_bits,
                                    const RowList& merged_rows) const;
  void LocateMergedRows(const RowList& merged_rows);
  Counts Count(const std::vector<RowList>& lists, const ParallelFor& parallel_for) const;
  void Deal(const std::vector<RowList>& lists, Counts counts, const ParallelFor& parallel_for);
  void Sort(const ParallelFor& parallel_for);

  size_t num_blocks() const;

  RowBuckets buckets_;
  RowEntry* const entries_;
  size_t num_entries_ = 0;
  // The positions at which the entries and the merged rows of each bucket begin, and as the last
  // element, where those of the last bucket end.
  std::vector<size_t> starts_;
  std::vector<size_t> merged_starts_;
};

// Does what parallel_for does. If any call of `body` throws std::bad_alloc, this throws it after
// all calls have returned.
void ParallelForThrowing(const ParallelFor& parallel_for, size_t total, size_t block,
                         const std::function<void(size_t, size_t)>& body);

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_ROW_GROUPS_H_
