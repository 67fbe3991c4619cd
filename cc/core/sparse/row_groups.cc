#include "cc/core/sparse/row_groups.h"

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

constexpr size_t kEntriesPerBucket = 1024;  // So that a bucket is sorted within the L1 cache.
constexpr size_t kMaxBuckets = 4096;        // Initially; each division may add about as many.
constexpr size_t kDealBlock = 1 << 16;      // Entries that one thread deals out at a time.
constexpr size_t kSortBlock = 16;           // Buckets that one thread sorts at a time.
constexpr size_t kOverfull = 8;             // A bucket of more than this many shares is divided.
constexpr int kMaxDivisions = 8;
constexpr int kMinStrideBits = 6;       // At most one of 2^6 entries is sampled.
constexpr size_t kMaxSample = 1 << 13;  // About the maximum number of sampled entries.

// Calls visit(gradient, position, row) for the entries numbered [begin, end), which are counted
// over all lists.
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

// An empty range: extending it by another one yields that one.
constexpr RowRange kEmptyRange = {std::numeric_limits<int64_t>::max(), -1};

void Extend(RowRange* range, const RowRange& other) {
  range->min = std::min(range->min, other.min);
  range->max = std::max(range->max, other.max);
}

RowRange RangeOfAll(const std::vector<RowList>& lists, const RowList& merged_rows) {
  RowRange range = kEmptyRange;
  for (const RowList& list : lists) {
    if (list.size > 0) Extend(&range, {list.min, list.max});
  }
  if (merged_rows.size > 0) Extend(&range, {merged_rows.min, merged_rows.max});
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

RowGroups::RowGroups(const std::vector<RowList>& lists, const RowList& merged_rows,
                     RowEntry* entries, const ParallelFor& parallel_for)
    : entries_(entries) {
  for (const RowList& list : lists) num_entries_ += list.size;
  ChooseBuckets(lists, merged_rows);
  Deal(lists, Count(lists, parallel_for), parallel_for);
  Sort(parallel_for);
}

size_t RowGroups::num_blocks() const { return (num_entries_ + kDealBlock - 1) / kDealBlock; }

// Divides the buckets that contain far more than their share according to a sample, at most
// kMaxDivisions times. The entries of a single row stay together, however many they are: a bucket
// that contains far more than its share only because of such a row is left alone.
void RowGroups::ChooseBuckets(const std::vector<RowList>& lists, const RowList& merged_rows) {
  const size_t num_rows = num_entries_ + merged_rows.size;
  const size_t share = std::max(kEntriesPerBucket, num_rows / kMaxBuckets);
  buckets_ = RowBuckets(RangeOfAll(lists, merged_rows), std::max<size_t>(1, num_rows / share));
  LocateMergedRows(merged_rows);
  if (num_rows <= kOverfull * share) return;
  int stride_bits = kMinStrideBits;
  while (num_entries_ >> stride_bits > kMaxSample) ++stride_bits;
  const std::vector<int64_t> sample = Sample(lists, stride_bits);
  for (int i = 0; i < kMaxDivisions; ++i) {
    const std::vector<Survey> surveys = SurveyBuckets(sample, stride_bits, merged_rows);
    std::vector<RowBuckets::Split> splits;
    std::vector<size_t> sizes;
    for (const Survey& survey : surveys) {
      // If one row makes up most of a bucket, only the other rows can be divided. The vote has
      // cancelled entries in pairs of different rows until `majority` entries were left. At least
      // half of the cancelled entries are of other rows.
      const size_t majority = survey.majority << stride_bits;
      const bool is_mostly_one_row = majority > survey.size / 2;
      const size_t num_divisible = is_mostly_one_row ? (survey.size - majority) / 2 : survey.size;
      if (num_divisible > kOverfull * share && survey.range.min < survey.range.max) {
        splits.push_back({sizes.size(), survey.range, survey.size / share});
      }
      sizes.push_back(survey.size);
    }
    if (splits.empty()) return;
    buckets_.Divide(splits, sizes);
    LocateMergedRows(merged_rows);
  }
}

// Returns the indices of a sample: one of every 2^stride_bits entries over all lists. The sampled
// positions are not periodic, because ids often come in turn from a number of features.
std::vector<int64_t> RowGroups::Sample(const std::vector<RowList>& lists, int stride_bits) const {
  constexpr uint64_t kGoldenRatio = 0x9E3779B97F4A7C15;
  const auto position = [stride_bits](uint64_t k) {
    return (k << stride_bits) + (((k + 1) * kGoldenRatio) >> (64 - stride_bits));
  };
  std::vector<int64_t> sample;
  sample.reserve((num_entries_ >> stride_bits) + 1);
  uint64_t list_begin = 0;
  uint64_t k = 0;
  for (const RowList& list : lists) {
    for (; position(k) < list_begin + list.size; ++k) {
      sample.push_back(list.rows[position(k) - list_begin]);
    }
    list_begin += list.size;
  }
  return sample;
}

std::vector<RowGroups::Survey> RowGroups::SurveyBuckets(const std::vector<int64_t>& sample,
                                                        int stride_bits,
                                                        const RowList& merged_rows) const {
  std::vector<Survey> surveys(num_buckets(), Survey{0, kEmptyRange, 0, 0});
  for (int64_t row : sample) {
    Survey& survey = surveys[buckets_.BucketOf(row)];
    survey.size += size_t{1} << stride_bits;
    Extend(&survey.range, {row, row});
    if (row == survey.frequent_row) {
      ++survey.majority;
    } else if (survey.majority > 0) {
      --survey.majority;
    } else {
      survey.frequent_row = row;
      survey.majority = 1;
    }
  }
  for (size_t b = 0; b < num_buckets(); ++b) {
    const size_t begin = merged_starts_[b];
    const size_t end = merged_starts_[b + 1];
    surveys[b].size += end - begin;
    if (begin < end)
      Extend(&surveys[b].range, {merged_rows.rows[begin], merged_rows.rows[end - 1]});
  }
  return surveys;
}

void RowGroups::LocateMergedRows(const RowList& merged_rows) {
  merged_starts_.assign(num_buckets() + 1, merged_rows.size);
  const int64_t* const end = merged_rows.rows + merged_rows.size;
  const int64_t* start = merged_rows.rows;
  merged_starts_[0] = 0;
  for (size_t b = 1; b < num_buckets() && start < end; ++b) {
    start = std::lower_bound(start, end, first_row(b));
    merged_starts_[b] = static_cast<size_t>(start - merged_rows.rows);
  }
}

RowGroups::Counts RowGroups::Count(const std::vector<RowList>& lists,
                                   const ParallelFor& parallel_for) const {
  Counts counts(num_blocks());
  ParallelForThrowing(parallel_for, num_blocks(), 1, [&](size_t first, size_t last) {
    for (size_t block = first; block < last; ++block) {
      counts[block].assign(num_buckets(), 0);
      size_t* const sizes = counts[block].data();
      buckets_.WithBucketOf([&](auto bucket_of) {
        VisitEntries(lists, block * kDealBlock, std::min(num_entries_, (block + 1) * kDealBlock),
                     [&](uint32_t, uint32_t, int64_t row) { ++sizes[bucket_of(row)]; });
      });
    }
  });
  return counts;
}

// Turns the counts into positions: each block has positions of its own in each bucket, so that
// threads write the entries of all blocks in parallel.
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
  ParallelForThrowing(parallel_for, num_blocks(), 1, [&](size_t first, size_t last) {
    for (size_t b = first; b < last; ++b) {
      size_t* const places = counts[b].data();
      buckets_.WithBucketOf([&](auto bucket_of) {
        VisitEntries(lists, b * kDealBlock, std::min(num_entries_, (b + 1) * kDealBlock),
                     [&](uint32_t gradient, uint32_t position, int64_t row) {
                       entries_[places[bucket_of(row)]++] = {row, gradient, position};
                     });
      });
    }
  });
}

void RowGroups::Sort(const ParallelFor& parallel_for) {
  ParallelForThrowing(parallel_for, num_buckets(), kSortBlock, [&](size_t first, size_t last) {
    BucketSorter sorter;
    for (size_t b = first; b < last; ++b) {
      const bool is_last = b + 1 == num_buckets();
      const int64_t last_row = is_last ? std::numeric_limits<int64_t>::max() : first_row(b + 1) - 1;
      sorter.Sort(begin(b), end(b), {first_row(b), last_row});
    }
  });
}

}  // namespace condacc
