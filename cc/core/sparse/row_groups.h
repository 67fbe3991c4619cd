// Groups the rows of sparse gradients by row number.
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

// The row numbers of one gradient, none negative, in any order and with any repeats.
struct RowList {
  const int64_t* rows = nullptr;
  size_t size = 0;
  int64_t min = 0;  // of the rows, if there are any
  int64_t max = 0;
};

// Entries ordered by row number, and within a row in order of arrival. They lie in buckets, each of
// which covers a range of row numbers of its own, so that threads can work on buckets side by side.
class RowGroups {
 public:
  // Sorts: entries are dealt out to buckets in one stable pass and then sorted within each, in the
  // cache. Lists of 2^32 rows or more and more than 2^32 lists are not supported. `merged_rows` are
  // ascending and without repeats, and will be walked along with the entries: the buckets share
  // them out as well. `entries`: where the entries are put, as many as the lists have rows
  // together. Throws std::bad_alloc.
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
  // A bucket covers the row numbers from its first_row() up to that of the next bucket.
  int64_t first_row(size_t bucket) const { return buckets_.first_row(bucket); }

 private:
  // Estimates about a bucket, made before entries are dealt out.
  struct Survey {
    size_t size = 0;  // Estimated number of its entries and merged rows.
    RowRange range;   // Of its sampled entries and its merged rows.
    // The row that most of the sampled entries are of, if there is such a row; and by how many
    // sampled entries at least it outnumbers the others.
    int64_t frequent_row = 0;
    size_t majority = 0;
  };
  // For each block of entries, and each bucket: how many entries of the block belong to the bucket.
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
  // Where the entries, and the merged rows, of each bucket begin; and where those of the last end.
  std::vector<size_t> starts_;
  std::vector<size_t> merged_starts_;
};

// Like parallel_for, but an std::bad_alloc in any body is thrown here, when all have returned.
void ParallelForThrowing(const ParallelFor& parallel_for, size_t total, size_t block,
                         const std::function<void(size_t, size_t)>& body);

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_ROW_GROUPS_H_
