#include "cc/core/sparse/host_merge_pass.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "cc/core/accumulator/round_sum.h"
#include "cc/core/dense/dense_math.h"
#include "cc/core/sparse/row_format.h"

namespace condacc {
namespace {

constexpr size_t kWalkChunk = 8;         // Buckets of one unit of parallel work.
constexpr int kPrefetchAhead = 8;        // Rows or entries.
constexpr size_t kNumParts = 10;         // Parts of a result. Memory is freed after each.
constexpr size_t kPrefetchBytes = 1024;  // Bytes of a row. The processor prefetches the rest.

void Prefetch(const void* begin, size_t num_bytes) {
  constexpr size_t kLine = 64;
  const size_t wanted = std::min(num_bytes, kPrefetchBytes);
  for (size_t i = 0; i < wanted; i += kLine)
    __builtin_prefetch(static_cast<const char*>(begin) + i);
}

std::vector<IndexSpan> IndicesOf(const std::vector<HostSource>& sources) {
  std::vector<IndexSpan> gradients;
  gradients.reserve(sources.size());
  for (const HostSource& source : sources) gradients.push_back(source.indices);
  return gradients;
}

// Replaces each size by the sum of the sizes before it. The last element must be 0, and becomes the
// sum of all.
void SizesToStarts(std::vector<size_t>* sizes) {
  size_t start = 0;
  for (size_t& size : *sizes) start += std::exchange(size, start);
}

}  // namespace

// Adds the new entries of a row to its sum, if there is one, and writes the result to `out`, which
// is of the sum type if `out_is_sum`. Overwrites the entries. Allocates nothing, because sums that
// are changed in place could not be restored if an allocation failed.
void HostMergePass::Add(const UnionRow& row, void* out, bool out_is_sum, double divisor) const {
  // The addresses of the operands are stored in the memory of the entries. Each entry is read
  // before an address overwrites it.
  static_assert(sizeof(const void*) <= sizeof(SliceEntry) &&
                alignof(const void*) <= alignof(SliceEntry));
  char* const place = reinterpret_cast<char*>(row.begin);
  size_t num_operands = 0;
  for (const SliceEntry* e = row.begin; e < row.end; ++e) {
    const void* const values = ValuesOf(*e);
    new (place + num_operands++ * sizeof(values)) const void*(values);
  }
  const void* const* const operands = std::launder(reinterpret_cast<const void* const*>(place));
  // Slices of different gradients are far apart in memory, so the next ones are prefetched
  // meanwhile.
  if (row.bucket_end - row.end > kPrefetchAhead) {
    Prefetch(ValuesOf(row.end[kPrefetchAhead]), layout_.num_bytes());
  }
  const bool is_new = row.is_new;
  const bool narrow = SumsInFloat32(layout_.type);
  DenseAddArgs args;
  args.type = layout_.type;
  args.num_elements = layout_.width;
  args.first = is_new ? operands[0] : row.sum;
  args.first_is_float32 = narrow && !is_new;
  args.inputs = operands + (is_new ? 1 : 0);
  args.num_inputs = num_operands - (is_new ? 1 : 0);
  args.out = out;
  args.out_is_float32 = narrow && out_is_sum;
  args.divisor = divisor;
  AddDense(args);
}

HostMergePass::HostMergePass(const SliceLayout& layout, const MergedRows& merged,
                             const std::vector<HostSource>& sources, SliceEntry* entries,
                             const ParallelFor& parallel_for)
    : layout_(layout),
      merged_(merged),
      sources_(sources),
      entries_(IndicesOf(sources), merged.index_span(), entries, parallel_for),
      has_weights_(std::any_of(sources.begin(), sources.end(),
                               [](const HostSource& source) { return source.weight != 1; })) {
  const size_t num_buckets = entries_.num_buckets();
  union_starts_.assign(num_buckets + 1, 0);
  new_starts_.assign(num_buckets + 1, 0);
  ParallelForThrowing(parallel_for, num_buckets, kWalkChunk, [this](size_t first, size_t last) {
    for (size_t b = first; b < last; ++b) {
      UnionRowCursor cursor(merged_, entries_, b);
      for (UnionRow row; cursor.Next(&row);) {
        ++union_starts_[b];
        new_starts_[b] += row.is_new ? 1 : 0;
      }
    }
  });
  SizesToStarts(&union_starts_);
  SizesToStarts(&new_starts_);
}

double HostMergePass::WeightOf(const UnionRow& row) const {
  if (!has_weights_) return row.weight + static_cast<double>(row.num_new_gradients());
  double total = row.weight;
  for (const SliceEntry* e = row.begin; e < row.end; ++e) {
    // The entries of one gradient are adjacent, and count once.
    if (e == row.begin || e[0].gradient != e[-1].gradient) total += sources_[e->gradient].weight;
  }
  return total;
}

// Calls visit(row) with the UnionRow of each row of a bucket, in ascending order. Prefetches the
// sums of the merged rows that follow: all of them if `kAll`, else only those that have new
// entries.
template <bool kAll, typename Visit>
void HostMergePass::Walk(size_t bucket, Visit visit) const {
  const bool has_merged =
      entries_.num_merged_before(bucket) < entries_.num_merged_before(bucket + 1);
  const SliceEntry* const first = entries_.begin(bucket);
  for (const SliceEntry* e = first; e < entries_.end(bucket) && e < first + kPrefetchAhead; ++e) {
    Prefetch(ValuesOf(*e), layout_.num_bytes());
  }
  UnionRowCursor scout(merged_, entries_, bucket);
  UnionRowCursor cursor(merged_, entries_, bucket);
  UnionRow row;
  const auto fetch_next = [&] {
    if (scout.Next(&row) && !row.is_new && (kAll || row.begin < row.end)) {
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

void HostMergePass::MergeInto(MergedRows* merged, void* new_sums, const ParallelFor& parallel_for) {
  MergedRows result;
  result.indices.resize(num_rows());
  result.sums.resize(num_rows());
  result.weights.resize(num_rows());
  ParallelForThrowing(
      parallel_for, entries_.num_buckets(), kWalkChunk, [&](size_t first, size_t last) {
        for (size_t b = first; b < last; ++b) {
          size_t place = union_starts_[b];
          char* next_new = static_cast<char*>(new_sums) + new_starts_[b] * layout_.num_sum_bytes();
          Walk</*kAll=*/false>(b, [&](const UnionRow& row) {
            const bool is_new = row.is_new;
            void* const sum = is_new ? next_new : row.sum;
            next_new += is_new ? layout_.num_sum_bytes() : 0;
            result.indices[place] = row.index;
            result.sums[place] = sum;
            result.weights[place] = WeightOf(row);
            if (row.begin < row.end) Add(row, sum, /*out_is_sum=*/true, /*divisor=*/1);
            ++place;
          });
        }
      });
  *merged = std::move(result);
}

// The arguments of WriteTo().
struct HostMergePass::Output {
  int64_t* indices;
  char* values;
  double divisor;
};

void HostMergePass::WriteBucket(size_t bucket, const Output& output) const {
  size_t place = union_starts_[bucket];
  Walk</*kAll=*/true>(bucket, [&](const UnionRow& row) {
    output.indices[place] = row.index;
    Add(row, output.values + place * layout_.num_bytes(), /*out_is_sum=*/false,
        output.divisor != kOfEachRow ? output.divisor : DivisorOf(Reduction::kMean, WeightOf(row)));
    ++place;
  });
}

void HostMergePass::WriteTo(int64_t* indices, void* values, double divisor,
                            const ParallelFor& parallel_for, const WrittenBelow& written_below) {
  const struct {
    const HostMergePass* merge;
    Output output;
  } pass = {this, {indices, static_cast<char*>(values), divisor}};
  const size_t num_buckets = entries_.num_buckets();
  const size_t part_rows = written_below == nullptr ? num_rows() : num_rows() / kNumParts;
  for (size_t begin = 0, end = 0; begin < num_buckets; begin = end) {
    while (end < num_buckets &&
           (end == begin || union_starts_[end + 1] <= union_starts_[begin] + part_rows))
      ++end;
    // The function captures so little that std::function does not allocate.
    const auto write = [&pass, begin](size_t first, size_t last) {
      for (size_t b = first; b < last; ++b) pass.merge->WriteBucket(begin + b, pass.output);
    };
    if (end - begin <= kWalkChunk) {
      write(0, end - begin);
    } else {
      parallel_for(end - begin, kWalkChunk, write);
    }
    if (end < num_buckets)
      written_below(entries_.first_index(end), entries_.num_entries_before(end));
  }
}

std::vector<SumChunk::Mark> HostMergePass::MarkNewRows(size_t max_marks) const {
  std::vector<SumChunk::Mark> marks;
  marks.reserve(std::min(max_marks, num_new_rows()));
  const size_t step = num_new_rows() / max_marks + 1;
  for (size_t b = 0, next = step; b < entries_.num_buckets(); ++b) {
    if (new_starts_[b] < next) continue;
    marks.push_back({entries_.first_index(b), new_starts_[b]});
    next = new_starts_[b] + step;
  }
  return marks;
}

}  // namespace condacc
