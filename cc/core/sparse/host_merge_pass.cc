#include "cc/core/sparse/host_merge_pass.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <new>
#include <utility>
#include <vector>

#include "cc/core/accumulator/round_sum.h"
#include "cc/core/base/cpu_features.h"
#include "cc/core/math/dense_math.h"

namespace condacc {
namespace {

constexpr size_t kWalkChunk = 2;         // Buckets of one unit of parallel work.
constexpr size_t kMaxOperands = 16;      // Gradients' slices in one sum of a row.
constexpr size_t kPrefetchBytes = 1024;  // Bytes of a row. The processor prefetches the rest.
// If the gradients and all rows of the result have this many bytes together, they do not fit in the
// caches. Results and new sums are then written past the caches, however small they are, because
// their lines would push gradients out.
constexpr size_t kMaxCached = size_t{24} << 20;

// Prefetches the beginning of a row. The second-level cache, which has room for more misses than
// the first, is the place for rows that come from memory. GCC drops calls of a function that only
// prefetches, unless it is inlined.
CONDACC_ALWAYS_INLINE void Prefetch(const void* begin, size_t num_bytes, bool is_in_cache) {
  constexpr size_t kLine = 64;
  const char* const row = static_cast<const char*>(begin);
  const size_t wanted = std::min(num_bytes, kPrefetchBytes);
  for (size_t i = 0; i < wanted; i += kLine) {
    is_in_cache ? __builtin_prefetch(row + i, /*rw=*/0, 3) : __builtin_prefetch(row + i, 0, 2);
  }
}

std::vector<IndexSpan> IndicesOf(const std::vector<HostSource>& sources) {
  std::vector<IndexSpan> gradients;
  gradients.reserve(sources.size());
  for (const HostSource& source : sources) gradients.push_back(source.indices);
  return gradients;
}

}  // namespace

// A row that was merged before, or has new entries, or both. The sum may be null even if the row
// was merged before, since rows may have no elements.
struct HostMergePass::UnionRow {
  int64_t index;
  void* sum;
  bool is_new;
  double weight;  // Total weight of the gradients in the sum; 0 for a new row.
  SliceEntry* begin;
  SliceEntry* end;
};

// Iterates over the rows of a bucket in ascending order: the union of those merged before and those
// that have new entries.
class HostMergePass::UnionRowCursor {
 public:
  UnionRowCursor(const MergedRows& merged, const SortedEntries& entries, size_t bucket)
      : merged_(merged),
        m_(entries.num_merged_before(bucket)),
        merged_end_(entries.num_merged_before(bucket + 1)),
        entry_(entries.begin(bucket)),
        end_(entries.end(bucket)) {}

  // Outputs the next row. Returns false if there is none.
  bool Next(UnionRow* row) {
    if (entry_ == end_ && m_ == merged_end_) return false;
    const bool is_merged =
        m_ < merged_end_ && (entry_ == end_ || merged_.indices[m_] <= entry_->index);
    row->index = is_merged ? merged_.indices[m_] : entry_->index;
    row->sum = is_merged ? merged_.sums[m_] : nullptr;
    row->is_new = !is_merged;
    row->weight = is_merged ? merged_.weights[m_] : 0;
    row->begin = entry_;
    while (entry_ < end_ && entry_->index == row->index) ++entry_;
    row->end = entry_;
    m_ += is_merged ? 1 : 0;
    return true;
  }

 private:
  const MergedRows& merged_;
  size_t m_;  // Number of the next merged row.
  const size_t merged_end_;
  SliceEntry* entry_;
  SliceEntry* const end_;
};

// Sums of rows whose operands are on their way into the cache. Each is added some pushes later, and
// the last ones at the end. Slices of different gradients are far apart in memory, where the
// processor does not prefetch them by itself.
class HostMergePass::RowQueue {
 public:
  RowQueue(const SliceLayout& layout, bool out_is_float32)
      : add_(DenseAdderOf(layout.type)), num_reals_(layout.width * NumParts(layout.type)) {
    for (DenseAddArgs& row : rows_) row.out_is_float32 = out_is_float32;
  }
  ~RowQueue() {
    for (size_t i = num_pushed_ - std::min(num_pushed_, kLength); i < num_pushed_; ++i) {
      add_(rows_[i % kLength], 0, num_reals_);
    }
    FlushBypassedStores();
  }
  RowQueue(const RowQueue&) = delete;
  RowQueue& operator=(const RowQueue&) = delete;

  bool out_is_float32() const { return rows_[0].out_is_float32; }

  // Returns where the next row is to be written.
  DenseAddArgs* Push() {
    DenseAddArgs* const place = &rows_[num_pushed_ % kLength];
    if (num_pushed_ >= kLength) add_(*place, 0, num_reals_);
    ++num_pushed_;
    return place;
  }

 private:
  static constexpr size_t kLength = 12;

  const DenseAdder add_;
  const size_t num_reals_;  // Real numbers of a row: a complex number is two.
  DenseAddArgs rows_[kLength];
  size_t num_pushed_ = 0;
};

// Queues the addition of a row's new entries to its sum, if it has one, with `out` as the result.
// Prefetches the operands. Their addresses overwrite the row's entries, so WeightOf() must be
// called before: the walk must not allocate, because a failure halfway would leave some sums grown.
void HostMergePass::Push(const UnionRow& row, void* out, double divisor, RowQueue* queue) {
  // Each entry is read before an address overwrites it.
  static_assert(sizeof(const void*) <= sizeof(SliceEntry) &&
                alignof(const void*) <= alignof(SliceEntry));
  char* const place = reinterpret_cast<char*>(row.begin);
  const auto num_operands = static_cast<size_t>(row.end - row.begin);
  const bool sums_in_float32 = SumsInFloat32(layout_.type);
  // The operands of a frequent row would push each other out of the cache before they are added. If
  // `out` can hold a sum, such a row is added in groups of them.
  const size_t group_size =
      queue->out_is_float32() == sums_in_float32 ? kMaxOperands : std::max<size_t>(num_operands, 1);
  if (!row.is_new) Prefetch(row.sum, layout_.num_sum_bytes(), is_cached_);
  const void* sum = row.sum;
  size_t begin = 0;
  do {
    const size_t end = std::min(num_operands, begin + group_size);
    DenseAddArgs* const args = queue->Push();
    for (size_t i = begin; i < end; ++i) {
      const void* const values = ValuesOf(row.begin[i]);
      Prefetch(values, layout_.num_bytes(), is_cached_);
      new (place + i * sizeof(values)) const void*(values);
    }
    const void* const* const operands =
        num_operands == 0 ? nullptr : std::launder(reinterpret_cast<const void* const*>(place));
    // A new row has no sum, so its first entry takes that place.
    const bool starts_with_entry = row.is_new && begin == 0;
    args->out = out;
    args->first = starts_with_entry ? operands[0] : sum;
    args->first_is_float32 = sums_in_float32 && !starts_with_entry;
    args->inputs = operands + begin + starts_with_entry;
    args->num_inputs = end - begin - starts_with_entry;
    const bool is_last = end == num_operands;
    args->divisor = is_last ? divisor : 1;
    // The sums of groups are about to be read again, and those that grow in place have been read.
    args->bypasses_cache = !is_cached_ && is_last && out != args->first;
    sum = out;
    begin = end;
  } while (begin < num_operands);
}

HostMergePass::HostMergePass(const SliceLayout& layout, std::vector<HostSource> sources,
                             MergedRows* merged, HostWorkspace& workspace)
    : layout_(layout),
      sources_(std::move(sources)),
      merged_(*merged),
      entries_(IndicesOf(sources_), merged->index_span(), workspace),
      has_weights_(std::any_of(sources_.begin(), sources_.end(),
                               [](const HostSource& source) { return source.weight != 1; })),
      is_cached_(num_entries() * layout_.num_bytes() + num_rows() * layout_.num_sum_bytes() <
                 kMaxCached) {}

double HostMergePass::WeightOf(const UnionRow& row) const {
  // Weights are added one after another, so that the total does not depend on the passes in which
  // the gradients are merged.
  double total = row.weight;
  for (const SliceEntry* e = row.begin; e < row.end; ++e) {
    // The entries of one gradient are adjacent, and count once.
    if (e != row.begin && e[0].gradient == e[-1].gradient) continue;
    total += has_weights_ ? sources_[e->gradient].weight : 1;
  }
  return total;
}

template <class Visit>
void HostMergePass::VisitRows(size_t first, size_t last, Visit visit) {
  size_t place = num_rows_before(first);
  for (size_t b = first; b < last; ++b) {
    UnionRowCursor cursor(merged_, entries_, b);
    for (UnionRow row; cursor.Next(&row); ++place) visit(row, place);
  }
}

void HostMergePass::MergeInto(HostWorkspace& workspace) {
  MergedRows all_rows(num_rows(), workspace);
  all_rows.sum_memory.reserve(merged_.sum_memory.size() + 1);
  const size_t num_sum_bytes = layout_.num_sum_bytes();
  BucketMemory new_sums(entries_.buckets(), entries_.new_starts(), num_sum_bytes, workspace);
  const auto merge = [&](size_t first, size_t last) {
    RowQueue queue(layout_, /*out_is_float32=*/SumsInFloat32(layout_.type));
    char* next_new = new_sums.Of(first);
    VisitRows(first, last, [&](const UnionRow& row, size_t place) {
      void* const sum = row.is_new ? next_new : row.sum;
      next_new += row.is_new ? num_sum_bytes : 0;
      all_rows.indices[place] = row.index;
      all_rows.sums[place] = sum;
      all_rows.weights[place] = WeightOf(row);
      if (row.begin < row.end) Push(row, sum, /*divisor=*/1, &queue);
    });
  };
  workspace.parallel_for()(entries_.num_buckets(), kWalkChunk, merge);
  std::move(merged_.sum_memory.begin(), merged_.sum_memory.end(),
            std::back_inserter(all_rows.sum_memory));
  if (num_new_rows() > 0) all_rows.sum_memory.push_back(std::move(new_sums));
  merged_ = std::move(all_rows);
}

void HostMergePass::CopyTo(const SumMemory& memory, const ParallelFor& parallel_for) {
  const auto copy = [&](size_t first, size_t last) {
    RowQueue queue(layout_, /*out_is_float32=*/SumsInFloat32(layout_.type));
    VisitRows(first, last, [&](const UnionRow& row, size_t place) {
      memory.indices[place] = row.index;
      memory.weights[place] = WeightOf(row);
      char* const sum = static_cast<char*>(memory.values) + place * layout_.num_sum_bytes();
      Push(row, sum, /*divisor=*/1, &queue);
    });
  };
  parallel_for(entries_.num_buckets(), kWalkChunk, copy);
}

void HostMergePass::WriteTo(int64_t* indices, void* values, double divisor,
                            const ParallelFor& parallel_for, size_t num_portions,
                            PortionWritten portion_written) {
  const size_t num_buckets = entries_.num_buckets();
  for (size_t begin = 0, end = 0, portion = 1; begin < num_buckets; begin = end, ++portion) {
    const size_t last_row = num_rows() * portion / num_portions;
    while (end < num_buckets && (end == begin || num_rows_before(end + 1) <= last_row)) ++end;
    const auto write = [&](size_t first, size_t last) {
      RowQueue queue(layout_, /*out_is_float32=*/false);
      VisitRows(begin + first, begin + last, [&](const UnionRow& row, size_t place) {
        indices[place] = row.index;
        const double divisor_of_row =
            divisor == kOfEachRow ? DivisorOf(Reduction::kMean, WeightOf(row)) : divisor;
        char* const out = static_cast<char*>(values) + place * layout_.num_bytes();
        Push(row, out, divisor_of_row, &queue);
      });
    };
    parallel_for(end - begin, kWalkChunk, write);
    if (end == num_buckets) return;
    const int64_t next_index = entries_.buckets().first_index(end);
    entries_.FreeBelow(next_index);
    for (const BucketMemory& sums : merged_.sum_memory) sums.FreeBelow(next_index);
    portion_written(num_rows_before(end));
  }
}

}  // namespace condacc
