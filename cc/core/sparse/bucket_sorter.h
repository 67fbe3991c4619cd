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
// are sorted by the highest digit only, and then each run of entries that agree in it by itself.
// Most runs are short, and sorted by insertion. Keeps its memory for the next bucket. Not
// thread-safe.
class BucketSorter {
 public:
  // All indices must be within `bound`. May throw std::bad_alloc, and then the entries are
  // unchanged.
  void Sort(SliceEntry* begin, SliceEntry* end, IndexRange bound) {
    const size_t size = static_cast<size_t>(end - begin);
    if (size < 2 || std::is_sorted(begin, end, IsLower)) return;
    if (size < kMinRadix) return SortFew(begin, end);
    if (size > other_.size()) other_.assign(size, SliceEntry{});
    if (NumBits(bound) > kMaxBoundBits) {
      const auto [lowest, highest] = std::minmax_element(begin, end, IsLower);
      bound = {lowest->index, highest->index};
    }
    const int64_t base = bound.min;
    const int num_bits = NumBits(bound);
    const int max_digit_bits = size < kFew ? kDigitBitsOfFew : kMaxDigitBits;
    const int first_bit = num_bits > kMaxRadixBits ? num_bits - max_digit_bits : 0;
    const int num_passes = DivideUp(num_bits - first_bit, max_digit_bits);
    const int digit_bits = DivideUp(num_bits - first_bit, num_passes);
    SliceEntry* from = begin;
    SliceEntry* to = other_.data();
    for (int shift = first_bit; shift < num_bits; shift += digit_bits) {
      SortByDigit(from, to, size, base, shift, digit_bits);
      std::swap(from, to);
    }
    if (from != begin) std::copy(from, from + size, begin);
    if (first_bit > 0) SortRuns(begin, end, bound, first_bit);
  }

 private:
  static constexpr int kMaxDigitBits = 11;
  // Each value of a digit has a counter, so few entries are sorted by smaller digits.
  static constexpr size_t kFew = 512;
  static constexpr int kDigitBitsOfFew = 8;
  static constexpr size_t kMinRadix = 64;  // Entries.
  static constexpr int kMaxRadixBits = 32;
  // If offsets within `bound` need more bits, the exact range of the entries is determined.
  static constexpr int kMaxBoundBits = 2 * kMaxDigitBits;

  static bool IsLower(const SliceEntry& a, const SliceEntry& b) { return a.index < b.index; }

  static int DivideUp(int number, int divisor) { return (number + divisor - 1) / divisor; }

  // Returns the number of bits that offsets within the range need.
  static int NumBits(IndexRange range) {
    const uint64_t width = static_cast<uint64_t>(range.max - range.min);
    return width == 0 ? 0 : 64 - __builtin_clzll(width);
  }

  static void SortByDigit(const SliceEntry* from, SliceEntry* to, size_t size, int64_t base,
                          int shift, int digit_bits) {
    const size_t num_digits = size_t{1} << digit_bits;
    const auto digit = [base, shift, num_digits](const SliceEntry& e) {
      return (static_cast<uint64_t>(e.index - base) >> shift) & (num_digits - 1);
    };
    uint32_t places[size_t{1} << kMaxDigitBits];
    std::fill_n(places, num_digits, 0);
    for (size_t i = 0; i < size; ++i) ++places[digit(from[i])];
    uint32_t place = 0;
    for (size_t d = 0; d < num_digits; ++d) place += std::exchange(places[d], place);
    for (size_t i = 0; i < size; ++i) to[places[digit(from[i])]++] = from[i];
  }

  // Sorts by insertion.
  static void SortFew(SliceEntry* begin, SliceEntry* end) {
    for (SliceEntry* next = begin + 1; next < end; ++next) {
      const SliceEntry entry = *next;
      SliceEntry* place = next;
      for (; place > begin && entry.index < place[-1].index; --place) *place = place[-1];
      *place = entry;
    }
  }

  // Sorts each run of entries that agree in all bits but the lowest `num_low_bits`.
  void SortRuns(SliceEntry* begin, SliceEntry* end, IndexRange bound, int num_low_bits) {
    const auto top = [bound, num_low_bits](const SliceEntry& e) {
      return static_cast<uint64_t>(e.index - bound.min) >> num_low_bits;
    };
    for (SliceEntry* run = begin; run < end;) {
      SliceEntry* next = run + 1;
      bool is_sorted = true;
      for (; next < end && top(*next) == top(*run); ++next) {
        is_sorted &= !IsLower(next[0], next[-1]);
      }
      // Sort() finds the run's own range, because `bound` needs more than kMaxBoundBits.
      if (!is_sorted) Sort(run, next, bound);
      run = next;
    }
  }

  std::vector<SliceEntry> other_;
};

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_BUCKET_SORTER_H_
