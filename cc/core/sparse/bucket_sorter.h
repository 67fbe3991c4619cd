// Sorts the entries of a bucket.
#ifndef CONDACC_CORE_SPARSE_BUCKET_SORTER_H_
#define CONDACC_CORE_SPARSE_BUCKET_SORTER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cc/core/sparse/index_buckets.h"
#include "cc/core/sparse/slices.h"

namespace condacc {

// Sorts entries by index with a stable radix sort. If the indices span more than 32 bits, entries
// are radix-sorted by the highest 16 bits; runs that agree in these are then sorted by comparison.
// Keeps its memory for the next bucket. Not thread-safe.
class BucketSorter {
 public:
  // All indices must be within `bound`. May throw std::bad_alloc, and then the entries are
  // unchanged.
  void Sort(SliceEntry* begin, SliceEntry* end, IndexRange bound) {
    const size_t size = static_cast<size_t>(end - begin);
    if (size < 2 || std::is_sorted(begin, end, IsLower)) return;
    if (size < kMinRadix) {
      std::stable_sort(begin, end, IsLower);
      return;
    }
    if (size > other_.size()) other_.assign(size, SliceEntry{});
    if (NumBits(bound) > kMaxBoundBits) {
      const auto [lowest, highest] = std::minmax_element(begin, end, IsLower);
      bound = {lowest->index, highest->index};
    }
    const int64_t base = bound.min;
    const int num_bits = NumBits(bound);
    const int first_bit = num_bits > kMaxRadixBits ? num_bits - kTopBits : 0;
    SliceEntry* from = begin;
    SliceEntry* to = other_.data();
    for (int shift = first_bit; shift < num_bits; shift += kDigitBits) {
      SortByDigit(from, to, size, base, shift);
      std::swap(from, to);
    }
    if (from != begin) std::copy(from, from + size, begin);
    if (first_bit > 0) SortRuns(begin, end, base, first_bit);
  }

 private:
  static constexpr int kDigitBits = 8;
  static constexpr size_t kNumDigits = size_t{1} << kDigitBits;
  static constexpr size_t kMinRadix = 64;  // Entries.
  static constexpr int kMaxRadixBits = 32;
  static constexpr int kTopBits = 2 * kDigitBits;
  // If offsets within `bound` need more bits, the exact range of the entries is determined.
  static constexpr int kMaxBoundBits = 3 * kDigitBits;

  static bool IsLower(const SliceEntry& a, const SliceEntry& b) { return a.index < b.index; }

  // Returns the number of bits that offsets within the range need.
  static int NumBits(IndexRange range) {
    const uint64_t width = static_cast<uint64_t>(range.max - range.min);
    return width == 0 ? 0 : 64 - __builtin_clzll(width);
  }

  static void SortByDigit(const SliceEntry* from, SliceEntry* to, size_t size, int64_t base,
                          int shift) {
    const auto digit = [base, shift](const SliceEntry& e) {
      return (static_cast<uint64_t>(e.index - base) >> shift) & (kNumDigits - 1);
    };
    uint32_t places[kNumDigits] = {};
    for (size_t i = 0; i < size; ++i) ++places[digit(from[i])];
    uint32_t place = 0;
    for (uint32_t& p : places) place += std::exchange(p, place);
    for (size_t i = 0; i < size; ++i) to[places[digit(from[i])]++] = from[i];
  }

  // Sorts each run of entries that agree in all bits but the lowest `num_low_bits`.
  static void SortRuns(SliceEntry* begin, SliceEntry* end, int64_t base, int num_low_bits) {
    const auto top = [base, num_low_bits](const SliceEntry& e) {
      return static_cast<uint64_t>(e.index - base) >> num_low_bits;
    };
    for (SliceEntry* run = begin; run < end;) {
      SliceEntry* next = run + 1;
      while (next < end && top(*next) == top(*run)) ++next;
      if (next - run > 1) std::stable_sort(run, next, IsLower);
      run = next;
    }
  }

  std::vector<SliceEntry> other_;
};

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_BUCKET_SORTER_H_
