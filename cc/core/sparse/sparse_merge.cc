#include "cc/core/sparse/sparse_merge.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "cc/core/dense/dense_math.h"

namespace condacc {
namespace {

constexpr size_t kWalkBlock = 8;         // Buckets that one thread walks at a time.
constexpr int kPrefetchAhead = 8;        // Rows or entries.
constexpr size_t kOutSlices = 10;        // Slices of a result. Memory is freed after each.
constexpr size_t kPrefetchBytes = 1024;  // Of a row. The processor prefetches the rest.

void Prefetch(const void* begin, size_t num_bytes) {
  constexpr size_t kLine = 64;
  const size_t wanted = std::min(num_bytes, kPrefetchBytes);
  for (size_t i = 0; i < wanted; i += kLine)
    __builtin_prefetch(static_cast<const char*>(begin) + i);
}

std::vector<RowList> ListsOf(const std::vector<RowSource>& sources) {
  std::vector<RowList> lists;
  lists.reserve(sources.size());
  for (const RowSource& source : sources) lists.push_back(source.list);
  return lists;
}

RowList ListOf(const MergedRows& merged) {
  if (merged.size() == 0) return RowList();
  return {merged.rows.data(), merged.size(), merged.rows.front(), merged.rows.back()};
}

// Replaces each size by the sum of the sizes before it. The last element must be 0, and becomes the
// sum of all.
void SizesToStarts(std::vector<size_t>* sizes) {
  size_t start = 0;
  for (size_t& size : *sizes) start += std::exchange(size, start);
}

}  // namespace

// A row of the union: its sum, if it was merged before, and its new entries. The sum may be null
// even if the row was merged before, since rows may have no elements.
struct SparseMerge::UnionRow {
  int64_t row;
  void* sum;
  int64_t count;  // Number of gradients in the sum; 0 for a new row.
  RowEntry* begin;
  RowEntry* end;
  const RowEntry* bucket_end;  // Another thread may use the entries beyond.

  bool is_new() const { return count == 0; }

  // Returns how many gradients contain the row, including the new ones.
  int64_t num_gradients() const {
    int64_t total = count + (begin == end ? 0 : 1);
    for (const RowEntry* e = begin; e + 1 < end; ++e) total += e[0].gradient != e[1].gradient;
    return total;
  }
};

// Goes through the rows of a bucket in ascending order.
class SparseMerge::Cursor {
 public:
  Cursor(const SparseMerge& merge, size_t bucket)
      : merged_(merge.merged_),
        m_(merge.groups_.num_merged_before(bucket)),
        merged_end_(merge.groups_.num_merged_before(bucket + 1)),
        entry_(merge.groups_.begin(bucket)),
        end_(merge.groups_.end(bucket)) {}

  bool Next(UnionRow* row) {
    if (entry_ == end_ && m_ == merged_end_) return false;
    const bool is_merged = m_ < merged_end_ && (entry_ == end_ || merged_.rows[m_] <= entry_->row);
    row->row = is_merged ? merged_.rows[m_] : entry_->row;
    row->sum = is_merged ? merged_.sums[m_] : nullptr;
    row->count = is_merged ? merged_.counts[m_] : 0;
    row->begin = entry_;
    while (entry_ < end_ && entry_->row == row->row) ++entry_;
    row->end = entry_;
    row->bucket_end = end_;
    m_ += is_merged ? 1 : 0;
    return true;
  }

 private:
  const MergedRows& merged_;
  size_t m_;
  const size_t merged_end_;
  RowEntry* entry_;
  RowEntry* const end_;
};

// Adds the new entries of a row to its sum, if there is one, and writes the result to `out`, which
// is of the sum type if `out_is_sum`. Overwrites the entries. Allocates nothing, because sums that
// are changed in place could not be restored if an allocation failed.
void SparseMerge::Add(const UnionRow& row, void* out, bool out_is_sum, int64_t divisor) const {
  // The addresses of the operands are stored in the memory of the entries. Each entry is read
  // before an address overwrites it.
  static_assert(sizeof(const void*) <= sizeof(RowEntry) &&
                alignof(const void*) <= alignof(RowEntry));
  char* const place = reinterpret_cast<char*>(row.begin);
  size_t num_operands = 0;
  for (const RowEntry* e = row.begin; e < row.end; ++e) {
    const void* const values = ValuesOf(*e);
    new (place + num_operands++ * sizeof(values)) const void*(values);
  }
  const void* const* const operands = std::launder(reinterpret_cast<const void* const*>(place));
  // Rows of different gradients lie far apart, so those that follow are prefetched meanwhile.
  if (row.bucket_end - row.end > kPrefetchAhead) {
    Prefetch(ValuesOf(row.end[kPrefetchAhead]), layout_.num_bytes());
  }
  const bool is_new = row.is_new();
  const bool narrow = SumsInFloat32(layout_.type);
  DenseSumArgs args;
  args.type = layout_.type;
  args.num_elements = layout_.width;
  args.first = is_new ? operands[0] : row.sum;
  args.first_is_float32 = narrow && !is_new;
  args.inputs = operands + (is_new ? 1 : 0);
  args.num_inputs = num_operands - (is_new ? 1 : 0);
  args.out = out;
  args.out_is_float32 = narrow && out_is_sum;
  args.divisor = divisor;
  SumDense(args);
}

SparseMerge::SparseMerge(const RowLayout& layout, const MergedRows& merged,
                         const std::vector<RowSource>& sources, RowEntry* entries,
                         const ParallelFor& parallel_for)
    : layout_(layout),
      merged_(merged),
      sources_(sources),
      groups_(ListsOf(sources), ListOf(merged), entries, parallel_for) {
  const size_t num_buckets = groups_.num_buckets();
  union_starts_.assign(num_buckets + 1, 0);
  new_starts_.assign(num_buckets + 1, 0);
  ParallelForThrowing(parallel_for, num_buckets, kWalkBlock, [this](size_t first, size_t last) {
    for (size_t b = first; b < last; ++b) {
      Cursor cursor(*this, b);
      for (UnionRow row; cursor.Next(&row);) {
        ++union_starts_[b];
        new_starts_[b] += row.is_new() ? 1 : 0;
      }
    }
  });
  SizesToStarts(&union_starts_);
  SizesToStarts(&new_starts_);
}

// Calls visit(UnionRow) for each row of a bucket, in ascending order. Prefetches the sums of the
// merged rows that follow: all of them if `kAll`, else only those that have new entries.
template <bool kAll, typename Visit>
void SparseMerge::Walk(size_t bucket, Visit visit) const {
  const bool has_merged = groups_.num_merged_before(bucket) < groups_.num_merged_before(bucket + 1);
  const RowEntry* const first = groups_.begin(bucket);
  for (const RowEntry* e = first; e < groups_.end(bucket) && e < first + kPrefetchAhead; ++e) {
    Prefetch(ValuesOf(*e), layout_.num_bytes());
  }
  Cursor scout(*this, bucket);
  Cursor cursor(*this, bucket);
  UnionRow row;
  const auto fetch_next = [&] {
    if (scout.Next(&row) && !row.is_new() && (kAll || row.begin < row.end)) {
      Prefetch(row.sum, layout_.num_sum_bytes());
    }
  };
  for (int i = 0; has_merged && i < kPrefetchAhead; ++i) fetch_next();
  while (true) {
    if (has_merged) fetch_next();
    if (!cursor.Next(&row)) return;
    visit(row);
  }
}

void SparseMerge::MergeInto(MergedRows* merged, void* new_sums, const ParallelFor& parallel_for) {
  MergedRows result;
  result.rows.resize(num_rows());
  result.sums.resize(num_rows());
  result.counts.resize(num_rows());
  ParallelForThrowing(
      parallel_for, groups_.num_buckets(), kWalkBlock, [&](size_t first, size_t last) {
        for (size_t b = first; b < last; ++b) {
          size_t place = union_starts_[b];
          char* next_new = static_cast<char*>(new_sums) + new_starts_[b] * layout_.num_sum_bytes();
          Walk</*kAll=*/false>(b, [&](const UnionRow& row) {
            const bool is_new = row.is_new();
            void* const sum = is_new ? next_new : row.sum;
            next_new += is_new ? layout_.num_sum_bytes() : 0;
            result.rows[place] = row.row;
            result.sums[place] = sum;
            result.counts[place] = row.num_gradients();
            if (row.begin < row.end) Add(row, sum, /*out_is_sum=*/true, /*divisor=*/1);
            ++place;
          });
        }
      });
  *merged = std::move(result);
}

// The arguments of WriteTo().
struct SparseMerge::Output {
  int64_t* rows;
  char* values;
  int64_t divisor;
};

void SparseMerge::WriteBucket(size_t bucket, const Output& output) const {
  size_t place = union_starts_[bucket];
  Walk</*kAll=*/true>(bucket, [&](const UnionRow& row) {
    output.rows[place] = row.row;
    Add(row, output.values + place * layout_.num_bytes(), /*out_is_sum=*/false,
        output.divisor > 0 ? output.divisor : row.num_gradients());
    ++place;
  });
}

void SparseMerge::WriteTo(int64_t* rows, void* values, int64_t divisor,
                          const ParallelFor& parallel_for, const WrittenBelow& written_below) {
  const struct {
    const SparseMerge* merge;
    Output output;
  } pass = {this, {rows, static_cast<char*>(values), divisor}};
  const size_t num_buckets = groups_.num_buckets();
  const size_t slice_rows = written_below == nullptr ? num_rows() : num_rows() / kOutSlices;
  for (size_t begin = 0, end = 0; begin < num_buckets; begin = end) {
    while (end < num_buckets &&
           (end == begin || union_starts_[end + 1] <= union_starts_[begin] + slice_rows))
      ++end;
    // The function captures so little that std::function does not allocate.
    const auto write = [&pass, begin](size_t first, size_t last) {
      for (size_t b = first; b < last; ++b) pass.merge->WriteBucket(begin + b, pass.output);
    };
    if (end - begin <= kWalkBlock) {
      write(0, end - begin);
    } else {
      parallel_for(end - begin, kWalkBlock, write);
    }
    if (end < num_buckets) written_below(groups_.first_row(end), groups_.num_entries_before(end));
  }
}

std::vector<RowMark> SparseMerge::MarkNewRows(size_t max_marks) const {
  std::vector<RowMark> marks;
  marks.reserve(std::min(max_marks, num_new_rows()));
  const size_t step = num_new_rows() / max_marks + 1;
  for (size_t b = 0, next = step; b < groups_.num_buckets(); ++b) {
    if (new_starts_[b] < next) continue;
    marks.push_back({groups_.first_row(b), new_starts_[b]});
    next = new_starts_[b] + step;
  }
  return marks;
}

}  // namespace condacc
