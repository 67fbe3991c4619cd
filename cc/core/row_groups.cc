#include "cc/core/row_groups.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace condacc {
namespace {

constexpr size_t kEntriesPerBucket = 1024;  // so that a bucket is sorted within the L1 cache
constexpr size_t kMaxBuckets = 4096;
constexpr size_t kDealBlock = 1 << 16;  // entries that one thread deals out at a time
constexpr size_t kSortBlock = 16;       // buckets that one thread sorts at a time

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

// Sorts the entries of a bucket by row, stably: digit by digit from the lowest on.
class BucketSorter {
 public:
  // Rows lie in [first_row, first_row + 2^num_bits).
  void Sort(RowEntry* begin, RowEntry* end, int64_t first_row, int num_bits) {
    const size_t size = static_cast<size_t>(end - begin);
    const auto by_row = [](const RowEntry& a, const RowEntry& b) { return a.row < b.row; };
    if (size < 2 || std::is_sorted(begin, end, by_row)) return;
    const int num_passes = (num_bits + kDigitBits - 1) / kDigitBits;
    if (size < kMinRadix || num_passes > kMaxPasses) {
      std::stable_sort(begin, end, by_row);
      return;
    }
    if (size > capacity_) {
      other_.reset(new RowEntry[size]);
      capacity_ = size;
    }
    RowEntry* from = begin;
    RowEntry* to = other_.get();
    for (int pass = 0; pass < num_passes; ++pass) {
      const int shift = pass * kDigitBits;
      const auto digit = [first_row, shift](const RowEntry& e) {
        return (static_cast<uint64_t>(e.row - first_row) >> shift) & (kNumDigits - 1);
      };
      uint32_t places[kNumDigits] = {};
      for (size_t i = 0; i < size; ++i) ++places[digit(from[i])];
      uint32_t place = 0;
      for (uint32_t& p : places) place += std::exchange(p, place);
      for (size_t i = 0; i < size; ++i) to[places[digit(from[i])]++] = from[i];
      std::swap(from, to);
    }
    if (from != begin) std::copy(from, from + size, begin);
  }

 private:
  static constexpr int kDigitBits = 8;
  static constexpr size_t kNumDigits = size_t{1} << kDigitBits;
  static constexpr size_t kMinRadix = 64;  // entries
  static constexpr int kMaxPasses = 4;

  std::unique_ptr<RowEntry[]> other_;
  size_t capacity_ = 0;
};

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
  size_t num_entries = 0;
  for (const RowList& list : lists) num_entries += list.size;
  ChooseBuckets(lists, others, num_entries);
  Deal(lists, num_entries, parallel_for);
  Sort(parallel_for);
}

void RowGroups::ChooseBuckets(const std::vector<RowList>& lists, const RowList& others,
                              size_t num_entries) {
  min_ = std::numeric_limits<int64_t>::max();
  int64_t max = 0;
  const auto cover = [&](const RowList& list) {
    if (list.size == 0) return;
    min_ = std::min(min_, list.min);
    max = std::max(max, list.max);
  };
  for (const RowList& list : lists) cover(list);
  cover(others);
  const size_t num_rows = num_entries + others.size;
  if (num_rows == 0) min_ = max;
  const uint64_t range = static_cast<uint64_t>(max - min_);
  const uint64_t wanted = std::min(kMaxBuckets, std::max<size_t>(1, num_rows / kEntriesPerBucket));
  while ((range >> shift_) >= wanted) ++shift_;
  starts_.assign(static_cast<size_t>(range >> shift_) + 2, 0);
}

// Counts how many entries of each block of entries go to each bucket; from that follows where each
// block may write, and then all blocks write at once.
void RowGroups::Deal(const std::vector<RowList>& lists, size_t total,
                     const ParallelFor& parallel_for) {
  const size_t num_blocks = (total + kDealBlock - 1) / kDealBlock;
  std::vector<std::vector<size_t>> places(num_blocks);
  const auto count = [&](size_t first, size_t last) {
    for (size_t b = first; b < last; ++b) {
      places[b].assign(num_buckets(), 0);
      VisitEntries(lists, b * kDealBlock, std::min(total, (b + 1) * kDealBlock),
                   [&](uint32_t, uint32_t, int64_t row) { ++places[b][BucketOf(row)]; });
    }
  };
  ParallelForThrowing(parallel_for, num_blocks, 1, count);
  size_t place = 0;
  for (size_t bucket = 0; bucket < num_buckets(); ++bucket) {
    starts_[bucket] = place;
    for (std::vector<size_t>& block : places) {
      const size_t size = block[bucket];
      block[bucket] = place;
      place += size;
    }
  }
  starts_.back() = place;
  const auto deal = [&](size_t first, size_t last) {
    for (size_t b = first; b < last; ++b) {
      VisitEntries(lists, b * kDealBlock, std::min(total, (b + 1) * kDealBlock),
                   [&](uint32_t gradient, uint32_t position, int64_t row) {
                     entries_[places[b][BucketOf(row)]++] = {row, gradient, position};
                   });
    }
  };
  ParallelForThrowing(parallel_for, num_blocks, 1, deal);
}

void RowGroups::Sort(const ParallelFor& parallel_for) {
  ParallelForThrowing(parallel_for, num_buckets(), kSortBlock, [&](size_t first, size_t last) {
    BucketSorter sorter;
    for (size_t b = first; b < last; ++b) {
      sorter.Sort(begin(b), end(b), first_row(b), shift_);
    }
  });
}

}  // namespace condacc
