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

// The layout of a row's values: `width` elements without gaps.
struct RowLayout {
  ElementType type = ElementType::kFloat32;
  size_t width = 0;

  // Returns the layout of values of shape [n, d1, ...], which are n rows of d1 * ... elements.
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

// The rows merged so far: their indices, ascending and unique, and for each its sum and the number
// of gradients that contain it.
struct MergedRows {
  std::vector<int64_t> rows;
  std::vector<void*> sums;  // Each of RowLayout::width elements of RowLayout::sum_type().
  std::vector<int64_t> counts;

  size_t size() const { return rows.size(); }
};

// A gradient that is to be merged. `values` is of shape [list.size, width].
struct RowSource {
  RowList list;
  const void* values = nullptr;
};

// A position among rows in ascending order: `position` of them have an index below `row`.
struct RowMark {
  int64_t row;
  size_t position;
};

// Merges new gradients with the rows merged before. The values of each row are added in order of
// arrival. If a row is repeated within a gradient, the gradient counts once. Methods that need
// memory may throw std::bad_alloc, and then `merged` is as it was. An object serves one call of
// MergeInto() or WriteTo().
class SparseMerge {
 public:
  // `entries` is memory to work in, with room for an entry for each row of the sources. The
  // references to `merged` and `sources` are kept.
  SparseMerge(const RowLayout& layout, const MergedRows& merged,
              const std::vector<RowSource>& sources, RowEntry* entries,
              const ParallelFor& parallel_for);

  size_t num_rows() const { return union_starts_.back(); }
  size_t num_new_rows() const { return new_starts_.back(); }
  size_t num_entries() const { return groups_.num_entries(); }

  // Returns at most `max_marks` positions among the new rows, ascending and evenly spread.
  std::vector<RowMark> MarkNewRows(size_t max_marks) const;

  // Adds the sources to the sums in place. The sums of new rows are written to `new_sums`:
  // [num_new_rows(), width] of the sum type. Replaces `merged`, which must be the object that was
  // given to the constructor.
  void MergeInto(MergedRows* merged, void* new_sums, const ParallelFor& parallel_for);

  // Is called between the slices of a result: the sums of rows below `row` and the first
  // `num_entries` entries will not be read again.
  using WrittenBelow = std::function<void(int64_t row, size_t num_entries)>;

  // Writes all indices to `rows` [num_rows()], and their sums to `values` [num_rows(), width]. Each
  // sum is divided by `divisor` or, if that is 0, by the number of gradients that contain the row.
  // If `written_below` is set, the result is written in slices, between which the calling thread
  // calls it. Allocates nothing and cannot fail.
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
  std::vector<size_t> union_starts_;  // Where each bucket begins among all rows.
  std::vector<size_t> new_starts_;    // Where each bucket begins among the new rows.
};

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_SPARSE_MERGE_H_
