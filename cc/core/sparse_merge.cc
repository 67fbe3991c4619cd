#include "cc/core/sparse_merge.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cc/core/dense_math.h"

namespace condacc {
namespace {

constexpr size_t kWalkBlock = 8;         // buckets that one thread walks at a time
constexpr size_t kPrefetchAhead = 8;     // entries
constexpr size_t kPrefetchBytes = 1024;  // of a row; the processor itself goes on from there

void Prefetch(const char* begin, size_t num_bytes) {
  constexpr size_t kLine = 64;
  const size_t wanted = std::min(num_bytes, kPrefetchBytes);
  for (size_t i = 0; i < wanted; i += kLine) __builtin_prefetch(begin + i);
}

std::vector<RowList> ListsOf(const std::vector<RowSource>& sources) {
  std::vector<RowList> lists;
  lists.reserve(sources.size());
  for (const RowSource& source : sources) lists.push_back(source.list);
  return lists;
}

// Sizes, with a place after the last, become the places where each begins.
void SizesToStarts(std::vector<size_t>* sizes) {
  size_t start = 0;
  for (size_t& size : *sizes) start += std::exchange(size, start);
}

}  // namespace

// A row of the union: merged before (or not: null), and the new entries of it.
struct SparseMerge::UnionRow {
  int64_t row;
  const size_t* merged;
  const RowEntry* begin;
  const RowEntry* end;

  int64_t num_gradients() const {
    int64_t count = begin == end ? 0 : 1;
    for (const RowEntry* e = begin; e + 1 < end; ++e) count += e[0].gradient != e[1].gradient;
    return count;
  }
};

// Adds up the new entries of a row and what was merged of it before. `out_is_sum`: `out` is of the
// type that sums have. Allocates nothing, so that it can be done in place.
void SparseMerge::Add(const UnionRow& row, void* out, bool out_is_sum, int64_t divisor) const {
  const void** const operands = operands_.get() + (row.begin - groups_.begin(0));
  size_t num_operands = 0;
  for (const RowEntry* e = row.begin; e < row.end; ++e) {
    operands[num_operands++] =
        static_cast<const char*>(sources_[e->gradient].values) + e->position * layout_.num_bytes();
  }
  // Rows of several gradients lie far apart: those to come are fetched meanwhile.
  const RowEntry* const ahead = row.end + kPrefetchAhead;
  if (ahead < last_entry_) Prefetch(ValuesOf(*ahead), layout_.num_bytes());
  const bool is_new = row.merged == nullptr;
  const bool narrow = SumsInFloat32(layout_.type);
  DenseSumArgs args;
  args.type = layout_.type;
  args.num_elements = layout_.width;
  args.first = is_new ? operands[0] : merged_.sums[*row.merged];
  args.first_is_float32 = narrow && !is_new;
  args.inputs = operands + (is_new ? 1 : 0);
  args.num_inputs = num_operands - (is_new ? 1 : 0);
  args.out = out;
  args.out_is_float32 = narrow && out_is_sum;
  args.divisor = divisor;
  SumDense(args);
}

SparseMerge::SparseMerge(const RowLayout& layout, const MergedRows& merged,
                         const std::vector<RowSource>& sources, const ParallelFor& parallel_for)
    : layout_(layout),
      merged_(merged),
      sources_(sources),
      groups_(ListsOf(sources), parallel_for),
      last_entry_(groups_.begin(0) + groups_.num_entries()),
      operands_(new const void*[groups_.num_entries()]) {
  const size_t num_buckets = groups_.num_buckets();
  merged_starts_.assign(num_buckets + 1, merged.size());
  merged_starts_[0] = 0;
  for (size_t b = 1; b < num_buckets; ++b) {
    merged_starts_[b] = static_cast<size_t>(
        std::lower_bound(merged.rows.begin(), merged.rows.end(), groups_.first_row(b)) -
        merged.rows.begin());
  }
  union_starts_.assign(num_buckets + 1, 0);
  new_starts_.assign(num_buckets + 1, 0);
  ParallelForThrowing(parallel_for, num_buckets, kWalkBlock, [this](size_t first, size_t last) {
    for (size_t b = first; b < last; ++b) {
      Walk(b, [this, b](const UnionRow& row) {
        ++union_starts_[b];
        new_starts_[b] += row.merged == nullptr ? 1 : 0;
      });
    }
  });
  SizesToStarts(&union_starts_);
  SizesToStarts(&new_starts_);
}

// Calls visit(UnionRow) for each row of a bucket, in ascending order.
template <typename Visit>
void SparseMerge::Walk(size_t bucket, Visit visit) const {
  const RowEntry* entry = groups_.begin(bucket);
  const RowEntry* const end = groups_.end(bucket);
  size_t m = merged_starts_[bucket];
  const size_t merged_end = merged_starts_[bucket + 1];
  while (entry < end || m < merged_end) {
    const bool is_merged = m < merged_end && (entry == end || merged_.rows[m] <= entry->row);
    const int64_t row = is_merged ? merged_.rows[m] : entry->row;
    const RowEntry* const begin = entry;
    while (entry < end && entry->row == row) ++entry;
    visit(UnionRow{row, is_merged ? &m : nullptr, begin, entry});
    m += is_merged ? 1 : 0;
  }
}

void SparseMerge::Into(MergedRows* merged, void* new_sums, const ParallelFor& parallel_for) const {
  MergedRows result;
  result.rows.resize(num_rows());
  result.sums.resize(num_rows());
  result.counts.resize(num_rows());
  ParallelForThrowing(
      parallel_for, groups_.num_buckets(), kWalkBlock, [&](size_t first, size_t last) {
        for (size_t b = first; b < last; ++b) {
          size_t place = union_starts_[b];
          char* next_new = static_cast<char*>(new_sums) + new_starts_[b] * layout_.num_sum_bytes();
          Walk(b, [&](const UnionRow& row) {
            const bool is_new = row.merged == nullptr;
            void* const sum = is_new ? next_new : merged_.sums[*row.merged];
            next_new += is_new ? layout_.num_sum_bytes() : 0;
            if (row.begin < row.end) Add(row, sum, /*out_is_sum=*/true, /*divisor=*/1);
            result.rows[place] = row.row;
            result.sums[place] = sum;
            result.counts[place] = (is_new ? 0 : merged_.counts[*row.merged]) + row.num_gradients();
            ++place;
          });
        }
      });
  *merged = std::move(result);
}

void SparseMerge::Out(int64_t* rows, void* values, int64_t divisor,
                      const ParallelFor& parallel_for) const {
  ParallelForThrowing(
      parallel_for, groups_.num_buckets(), kWalkBlock, [&](size_t first, size_t last) {
        for (size_t b = first; b < last; ++b) {
          size_t place = union_starts_[b];
          Walk(b, [&](const UnionRow& row) {
            const int64_t merged_count = row.merged == nullptr ? 0 : merged_.counts[*row.merged];
            rows[place] = row.row;
            Add(row, static_cast<char*>(values) + place * layout_.num_bytes(),
                /*out_is_sum=*/false, divisor > 0 ? divisor : merged_count + row.num_gradients());
            ++place;
          });
        }
      });
}

}  // namespace condacc
