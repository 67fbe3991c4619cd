// Merges the rows of sparse gradients with each other and with those merged before.
#ifndef CONDACC_CORE_SPARSE_SPARSE_MERGE_H_
#define CONDACC_CORE_SPARSE_SPARSE_MERGE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "cc/core/base/element_type.h"
#include "cc/core/base/parallel_for.h"
#include "cc/core/base/shape.h"
#include "cc/core/sparse/row_groups.h"

namespace condacc {

// What the values of a row look like: `width` elements in a piece.
struct RowLayout {
  ElementType type = ElementType::kFloat32;
  size_t width = 0;

  // Of values of that shape, of which each entry of the first dimension is a row.
  static RowLayout Of(ElementType type, const Shape& values) {
    RowLayout layout{type, 1};
    for (int i = 1; i < values.rank(); ++i) layout.width *= static_cast<size_t>(values.dim(i));
    return layout;
  }

  size_t num_bytes() const { return width * SizeOf(type); }
  // Sums of float16 and bfloat16 are kept in float32.
  ElementType sum_type() const { return SumsInFloat32(type) ? ElementType::kFloat32 : type; }
  size_t num_sum_bytes() const { return width * SizeOf(sum_type()); }
};

// Row numbers in ascending order, for each its sum so far and the number of gradients it was in.
struct MergedRows {
  std::vector<int64_t> rows;
  std::vector<void*> sums;  // of the layout's sum type
  std::vector<int64_t> counts;

  size_t size() const { return rows.size(); }
};

// A gradient that is to be merged: `values` holds a row for each entry of `list`.
struct RowSource {
  RowList list;
  const void* values = nullptr;
};

// A place among rows in ascending order: `position` of them are lower than `row`.
struct RowMark {
  int64_t row;
  size_t position;
};

// The union of merged rows and of new gradients, in order of arrival. Additions happen in that
// order for each row; repeats of a row within a gradient count once. Everything that needs memory
// throws std::bad_alloc and leaves `merged` as it was. Serves one call of MergeInto() or WriteTo().
class SparseMerge {
 public:
  // `entries`: memory to work in, an entry for each row of the sources.
  SparseMerge(const RowLayout& layout, const MergedRows& merged,
              const std::vector<RowSource>& sources, RowEntry* entries,
              const ParallelFor& parallel_for);

  size_t num_rows() const { return union_starts_.back(); }
  size_t num_new_rows() const { return new_starts_.back(); }
  size_t num_entries() const { return groups_.num_entries(); }

  // Places among the new rows, ascending, evenly spread, and at most `max_marks` of them.
  std::vector<RowMark> MarkNewRows(size_t max_marks) const;

  // Adds the sources to the sums in place; rows that are new get theirs in `new_sums`, of
  // num_new_rows() rows. Replaces `merged`, which must be the one this merge was made of.
  void MergeInto(MergedRows* merged, void* new_sums, const ParallelFor& parallel_for);

  // Is told a row while the union is written: the sums of lower ones will not be read again, nor
  // will the first `num_entries` of the entries.
  using WrittenBelow = std::function<void(int64_t row, size_t num_entries)>;

  // Writes all rows and their sums, each divided by the number of gradients it was in or, if that
  // is not 0, by `divisor`. With `written_below` it goes slice by slice, and calls it in between on
  // this thread. Allocates nothing and cannot fail.
  void WriteTo(int64_t* rows, void* values, int64_t divisor, const ParallelFor& parallel_for,
               const WrittenBelow& written_below = nullptr);

 private:
  struct UnionRow;
  class Cursor;
  struct Output;

  template <bool kAll, typename Visit>
  void Walk(size_t bucket, Visit visit) const;
  const char* ValuesOf(const RowEntry& entry) const {
    return static_cast<const char*>(sources_[entry.gradient].values) +
           entry.position * layout_.num_bytes();
  }
  void Add(const UnionRow& row, void* out, bool out_is_sum, int64_t divisor) const;
  void WriteBucket(size_t bucket, const Output& output) const;

  const RowLayout layout_;
  const MergedRows& merged_;
  const std::vector<RowSource>& sources_;
  const RowGroups groups_;
  std::vector<size_t> union_starts_;  // where each bucket begins among all rows
  std::vector<size_t> new_starts_;    // among those that are not merged yet
};

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_SPARSE_MERGE_H_
