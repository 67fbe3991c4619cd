// Groups the rows of sparse gradients by row number.
#ifndef CONDACC_CORE_ROW_GROUPS_H_
#define CONDACC_CORE_ROW_GROUPS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "cc/core/parallel_for.h"

namespace condacc {

// The row numbers of one gradient, none negative, in any order and with any repeats.
struct RowList {
  const int64_t* rows = nullptr;
  size_t size = 0;
  int64_t min = 0;  // of the rows, if there are any
  int64_t max = 0;
};

// One row of one gradient.
struct RowEntry {
  int64_t row;
  uint32_t gradient;  // which list
  uint32_t position;  // where in it
};

// Entries ordered by row number, and within a row in order of arrival. They lie in buckets, each of
// which covers a range of row numbers of its own, so that threads can work on buckets side by side.
class RowGroups {
 public:
  // Sorts: entries are dealt out to buckets in one stable pass and then sorted within each, in the
  // cache. Lists of 2^32 rows or more and more than 2^32 lists are not supported. `others`: how
  // many more rows, and of what range, will be walked along with these; they count for how many
  // buckets there are, and are not looked at. `entries`: where they are put, as many as the lists
  // have rows together. Throws std::bad_alloc.
  RowGroups(const std::vector<RowList>& lists, const RowList& others, RowEntry* entries,
            const ParallelFor& parallel_for);

  size_t num_buckets() const { return starts_.size() - 1; }
  size_t num_entries() const { return starts_.back(); }
  // How many belong to lower buckets.
  size_t num_entries_before(size_t bucket) const { return starts_[bucket]; }
  RowEntry* begin(size_t bucket) const { return entries_ + starts_[bucket]; }
  RowEntry* end(size_t bucket) const { return entries_ + starts_[bucket + 1]; }
  // The lowest row number that belongs to a bucket (or to one after it).
  int64_t first_row(size_t bucket) const {
    return min_ + static_cast<int64_t>(static_cast<uint64_t>(bucket) << shift_);
  }

 private:
  void ChooseBuckets(const std::vector<RowList>& lists, const RowList& others, size_t num_entries);
  void Deal(const std::vector<RowList>& lists, size_t num_entries, const ParallelFor& parallel_for);
  void Sort(const ParallelFor& parallel_for);
  size_t BucketOf(int64_t row) const {
    return static_cast<size_t>(static_cast<uint64_t>(row - min_) >> shift_);
  }

  int64_t min_ = 0;
  int shift_ = 0;
  RowEntry* const entries_;
  std::vector<size_t> starts_;  // of the buckets, and the end of the last
};

// Like parallel_for, but an std::bad_alloc in any body is thrown here, when all have returned.
void ParallelForThrowing(const ParallelFor& parallel_for, size_t total, size_t block,
                         const std::function<void(size_t, size_t)>& body);

}  // namespace condacc

#endif  // CONDACC_CORE_ROW_GROUPS_H_
