#include "cc/core/row_groups.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <new>
#include <vector>

namespace condacc {
namespace {

constexpr size_t kEntriesPerBucket = 1024;  // so that a bucket is sorted within the L1 cache
constexpr size_t kMaxBuckets = 4096;        // at first, and so many more each time some are divided
constexpr size_t kDealBlock = 1 << 16;      // entries that one thread deals out at a time
constexpr size_t kSortBlock = 16;           // buckets that one thread sorts at a time
constexpr size_t kOverfull = 8;             // times its share: such a bucket is divided
constexpr int kMaxDivisions = 6;            // each takes two more passes over the row numbers

// Calls visit(gradient, position, row) for the entries numbered [begin, end) over all lists.
template <typename Visit>
void VisitEntries(const std::vector<RowList>& lists, size_t begin, size_t end, Visit visit) {
  size_t list_begin = 0;
  for (size_t g = 0; g < lists.size() && list_begin < end; ++g) {
    const size_t list_end = list_begin + lists[g].size;
    const size_t last = std::min(end, list_end);
    for (size_t i = std::max(begin, list_begin); i < last; ++i) {
      visit(static_cast<uint32_t>(g), static_cast<uint32_t>(i - list_begin),
            lists[g].rows[i - list_begin]);
    }
    list_begin = list_end;
  }
}

// Beyond any row number, so that any row number extends it.
constexpr RowRange kEmptyRange = {std::numeric_limits<int64_t>::max(), -1};

void Extend(RowRange* range, const RowRange& other) {
  range->min = std::min(range->min, other.min);
  range->max = std::max(range->max, other.max);
}

RowRange RangeOfAll(const std::vector<RowList>& lists, const RowList& others) {
  RowRange range = kEmptyRange;
  for (const RowList& list : lists) {
    if (list.size > 0) Extend(&range, {list.min, list.max});
  }
  if (others.size > 0) Extend(&range, {others.min, others.max});
  return range.max < 0 ? RowRange{0, 0} : range;
}

}  // namespace

void ParallelForThrowing(const ParallelFor& parallel_for, size_t total, size_t block,
                         const std::function<void(size_t, size_t)>& body) {
  std::atomic<bool> failed{false};
  const auto guarded = [&](size_t begin, size_t end) {
    try {
      body(begin, end);
    } catch (const std::bad_alloc&) {
      failed.store(true);
    }
  };
  if (total <= block) {
    guarded(0, total);
  } else {
    parallel_for(total, block, guarded);
  }
  if (failed.load()) throw std::bad_alloc();
}

RowGroups::RowGroups(const std::vector<RowList>& lists, const RowList& others, RowEntry* entries,
                     const ParallelFor& parallel_for)
    : entries_(entries) {
  for (const RowList& list : lists) num_entries_ += list.size;
  Deal(lists, ChooseBuckets(lists, others, parallel_for), parallel_for);
  Sort(parallel_for);
}

size_t RowGroups::num_blocks() const { return (num_entries_ + kDealBlock - 1) / kDealBlock; }

// Divides buckets that hold far more than their share until none does. A single row number may be
// as frequent as it likes: its bucket cannot be divided.
RowGroups::Counts RowGroups::ChooseBuckets(const std::vector<RowList>& lists, const RowList& others,
                                           const ParallelFor& parallel_for) {
  const size_t num_rows = num_entries_ + others.size;
  const size_t share = std::max(kEntriesPerBucket, num_rows / kMaxBuckets);
  buckets_ = RowBuckets(RangeOfAll(lists, others), std::max<size_t>(1, num_rows / share));
  for (int i = 0;; ++i) {
    Counts counts = Count(lists, parallel_for);
    ShareOut(others);
    const std::vector<size_t> sizes = BucketSizes(counts);
    std::vector<size_t> overfull;
    for (size_t b = 0; b < num_buckets(); ++b) {
      if (sizes[b] > kOverfull * share && buckets_.num_bits(b) > 0) overfull.push_back(b);
    }
    if (overfull.empty() || i == kMaxDivisions) return counts;
    const std::vector<RowRange> ranges = RangesOf(overfull, others, lists, parallel_for);
    std::vector<RowBuckets::Split> splits;
    for (size_t k = 0; k < overfull.size(); ++k) {
      if (ranges[k].min == ranges[k].max) continue;
      splits.push_back({overfull[k], ranges[k], sizes[overfull[k]] / share});
    }
    if (splits.empty()) return counts;
    buckets_.Divide(splits, sizes);
  }
}

RowGroups::Counts RowGroups::Count(const std::vector<RowList>& lists,
                                   const ParallelFor& parallel_for) const {
  Counts counts(num_blocks());
  ParallelForThrowing(parallel_for, num_blocks(), 1, [&](size_t first, size_t last) {
    for (size_t block = first; block < last; ++block) {
      std::vector<size_t>& sizes = counts[block];
      sizes.assign(num_buckets(), 0);
      VisitEntries(lists, block * kDealBlock, std::min(num_entries_, (block + 1) * kDealBlock),
                   [&](uint32_t, uint32_t, int64_t row) { ++sizes[buckets_.BucketOf(row)]; });
    }
  });
  return counts;
}

void RowGroups::ShareOut(const RowList& others) {
  other_starts_.assign(num_buckets() + 1, others.size);
  const int64_t* const end = others.rows + others.size;
  const int64_t* start = others.rows;
  other_starts_[0] = 0;
  for (size_t b = 1; b < num_buckets() && start < end; ++b) {
    start = std::lower_bound(start, end, first_row(b));
    other_starts_[b] = static_cast<size_t>(start - others.rows);
  }
}

// How many rows are in each bucket, the others included.
std::vector<size_t> RowGroups::BucketSizes(const Counts& counts) const {
  std::vector<size_t> sizes(num_buckets());
  for (size_t b = 0; b < sizes.size(); ++b) sizes[b] = other_starts_[b + 1] - other_starts_[b];
  for (const std::vector<size_t>& block : counts) {
    for (size_t b = 0; b < sizes.size(); ++b) sizes[b] += block[b];
  }
  return sizes;
}

// The ranges of the row numbers in the `wanted` buckets, which ascend.
std::vector<RowRange> RowGroups::RangesOf(const std::vector<size_t>& wanted, const RowList& others,
                                          const std::vector<RowList>& lists,
                                          const ParallelFor& parallel_for) const {
  constexpr size_t kNotWanted = std::numeric_limits<size_t>::max();
  std::vector<size_t> places(num_buckets(), kNotWanted);
  for (size_t k = 0; k < wanted.size(); ++k) places[wanted[k]] = k;
  std::vector<std::vector<RowRange>> of_blocks(num_blocks());
  ParallelForThrowing(parallel_for, num_blocks(), 1, [&](size_t first, size_t last) {
    for (size_t block = first; block < last; ++block) {
      std::vector<RowRange>& ranges = of_blocks[block];
      ranges.assign(wanted.size(), kEmptyRange);
      VisitEntries(lists, block * kDealBlock, std::min(num_entries_, (block + 1) * kDealBlock),
                   [&](uint32_t, uint32_t, int64_t row) {
                     const size_t place = places[buckets_.BucketOf(row)];
                     if (place != kNotWanted) Extend(&ranges[place], {row, row});
                   });
    }
  });
  std::vector<RowRange> ranges(wanted.size(), kEmptyRange);
  for (size_t k = 0; k < wanted.size(); ++k) {
    const size_t begin = other_starts_[wanted[k]];
    const size_t end = other_starts_[wanted[k] + 1];
    if (begin < end) ranges[k] = {others.rows[begin], others.rows[end - 1]};
    for (const std::vector<RowRange>& block : of_blocks) Extend(&ranges[k], block[k]);
  }
  return ranges;
}

// From how many entries of each block go to each bucket follows where each block may write, so that
// all blocks write at once.
void RowGroups::Deal(const std::vector<RowList>& lists, Counts counts,
                     const ParallelFor& parallel_for) {
  starts_.assign(num_buckets() + 1, 0);
  size_t place = 0;
  for (size_t bucket = 0; bucket < num_buckets(); ++bucket) {
    starts_[bucket] = place;
    for (std::vector<size_t>& block : counts) {
      const size_t size = block[bucket];
      block[bucket] = place;
      place += size;
    }
  }
  starts_.back() = place;
  Counts& places = counts;
  ParallelForThrowing(parallel_for, num_blocks(), 1, [&](size_t first, size_t last) {
    for (size_t b = first; b < last; ++b) {
      VisitEntries(lists, b * kDealBlock, std::min(num_entries_, (b + 1) * kDealBlock),
                   [&](uint32_t gradient, uint32_t position, int64_t row) {
                     const size_t bucket = buckets_.BucketOf(row);
                     entries_[places[b][bucket]++] = {row, gradient, position};
                   });
    }
  });
}

void RowGroups::Sort(const ParallelFor& parallel_for) {
  ParallelForThrowing(parallel_for, num_buckets(), kSortBlock, [&](size_t first, size_t last) {
    BucketSorter sorter;
    for (size_t b = first; b < last; ++b) {
      sorter.Sort(begin(b), end(b), buckets_.base(b), buckets_.num_bits(b));
    }
  });
}

}  // namespace condacc
