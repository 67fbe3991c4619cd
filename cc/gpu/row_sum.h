// The step of a merge that sums rows.
#ifndef CONDACC_GPU_ROW_SUM_H_
#define CONDACC_GPU_ROW_SUM_H_

#include <cstdint>

#include "cc/gpu/elements.h"
#include "cc/gpu/host_device.h"
#include "cc/gpu/row_merge.h"

namespace condacc {

// Sums one pack of one row. Consecutive items are consecutive packs of the output. Skips long rows.
template <typename T, typename Out, int kWidth>
struct SumRowPack {
  using Element = T;
  using Sum = SumType<T>;
  static constexpr int kPack = kWidth;
  // The number of entries whose loads are issued before the first of them is added.
  static constexpr int kRowsAtOnce = 4;
  // Blocks of a multiprocessor, which leave 40 registers for each thread. With 32, the compiler
  // would issue some of these loads only after additions.
  static constexpr int kMinBlocks = 6;

  RowSegments segments;
  int64_t packs_per_row;
  double divisor;  // 0 means the row's count.
  Out* out;

  CONDACC_HOST_DEVICE void operator()(int64_t item) const {
    const int64_t row = Quotient(item, packs_per_row);
    const int64_t first = segments.begin(row);
    const int64_t end = segments.end(row);
    if (!IsLongRow(first, end)) SumPack(item, item - row * packs_per_row, first, end);
  }

  // Sums pack `column` of a row of any length, with the entries [first, end).
  CONDACC_HOST_DEVICE void SumPack(int64_t item, int64_t column, int64_t first, int64_t end) const {
    Sum sums[kPack];
    Start(first, column, sums);
    int64_t i = first + 1;
    CONDACC_NO_UNROLL
    for (; i + kRowsAtOnce <= end; i += kRowsAtOnce) AddSome(i, kRowsAtOnce, column, sums);
    if (i < end) AddSome(i, static_cast<int>(end - i), column, sums);
    const double by = divisor == 0 ? static_cast<double>(segments.Count(first, end)) : divisor;
    Pack<Out, kPack> result;
    for (int j = 0; j < kPack; ++j) result.values[j] = Finished(sums[j], by);
    StorePack(result, out, item);
  }

  // Returns the sum divided and rounded to nearest even, as it is written.
  CONDACC_HOST_DEVICE static Out Finished(Sum sum, double by) {
    return static_cast<Out>(Divided(sum, static_cast<Sum>(by)));
  }

 private:
  // Divides in 32 bits if possible. 64-bit divisions are many times slower on a GPU.
  CONDACC_HOST_DEVICE static int64_t Quotient(int64_t item, int64_t by) {
    if (((item | by) >> 32) == 0) return static_cast<uint32_t>(item) / static_cast<uint32_t>(by);
    return item / by;
  }

  CONDACC_HOST_DEVICE void Start(int64_t first, int64_t column, Sum* sums) const {
    const char* const values = segments.values[first];
    if (segments.IsMerged(first)) {
      const auto merged = LoadConstantPack<Sum, kPack>(values, column);
      for (int j = 0; j < kPack; ++j) sums[j] = merged.values[j];
    } else {
      const auto slice = LoadConstantPack<T, kPack>(values, column);
      for (int j = 0; j < kPack; ++j) sums[j] = static_cast<Sum>(slice.values[j]);
    }
  }

  // Adds the packs of `size` entries (at most kRowsAtOnce). The function is inlined, and if the
  // size is a constant, so are the branches.
  CONDACC_HOST_DEVICE void AddSome(int64_t begin, int size, int64_t column, Sum* sums) const {
    const char* values[kRowsAtOnce] = {};
    Pack<T, kPack> loaded[kRowsAtOnce] = {};
    CONDACC_UNROLL
    for (int k = 0; k < kRowsAtOnce; ++k) {
      if (k < size) values[k] = segments.values[begin + k];
    }
    CONDACC_UNROLL
    for (int k = 0; k < kRowsAtOnce; ++k) {
      if (k < size) loaded[k] = LoadConstantPack<T, kPack>(values[k], column);
    }
    CONDACC_UNROLL
    for (int k = 0; k < kRowsAtOnce; ++k) {
      if (k >= size) continue;
      for (int j = 0; j < kPack; ++j) sums[j] += static_cast<Sum>(loaded[k].values[j]);
    }
  }
};

// The number of packs in a chunk of a long row. A block sums one chunk at a time.
inline constexpr int kPacksOfChunk = 4;

// Sums all long rows, and counts their gradients if `counts` is not null.
template <class RowSum>
struct SumLongRows {
  RowSum sum;
  LongRows long_rows;
  int64_t* counts;
  int64_t max_num_rows;  // An upper bound of the number of long rows.

  // Returns how many chunks a row has. Rows without elements have one, for their count.
  CONDACC_HOST_DEVICE int64_t num_chunks() const {
    const int64_t packs = sum.packs_per_row;
    return packs == 0 ? 1 : (packs + kPacksOfChunk - 1) / kPacksOfChunk;
  }
};

}  // namespace condacc

#endif  // CONDACC_GPU_ROW_SUM_H_
