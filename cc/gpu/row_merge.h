// The steps of a merge of rows. A step is a function object, and each call of it does one item of
// work. Kernels run the steps, and so do tests on the CPU.
#ifndef CONDACC_GPU_ROW_MERGE_H_
#define CONDACC_GPU_ROW_MERGE_H_

#include <cstdint>

#include "cc/core/sparse/device_merge.h"
#include "cc/gpu/elements.h"
#include "cc/gpu/host_device.h"

namespace condacc {

// The value of MergeCounts::first_bad_entry if all indices are valid. Higher than any entry.
inline constexpr uint64_t kNoBadEntry = ~uint64_t{0};

// The results of sorting, which the host waits for.
struct MergeCounts {
  uint64_t first_bad_entry;
  int64_t num_rows;
};

// Copies sources to the device's table of them. They are parameters of the kernel, so that nothing
// has to be copied from the host's memory.
struct StoreSources {
  static constexpr int kMax = 64;
  DeviceSource sources[kMax];
  DeviceSource* to;

  CONDACC_HOST_DEVICE void operator()(int64_t i) const { to[i] = sources[i]; }
};

// The entries of all sources, which are numbered from source to source.
struct EntryTable {
  const DeviceSource* sources;
  int num_sources;

  // Returns the number of the source that contains the entry: the last one that begins at or before
  // it.
  CONDACC_HOST_DEVICE int SourceOf(int64_t entry) const {
    int low = 0;
    int high = num_sources;
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      if (sources[middle].first_entry <= entry) {
        low = middle;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

// Sets `*least` to `value` if that is lower. Atomic on a device.
CONDACC_HOST_DEVICE inline void LowerTo(uint64_t* least, uint64_t value) {
#if defined(__CUDA_ARCH__)
  atomicMin(reinterpret_cast<unsigned long long*>(least), static_cast<unsigned long long>(value));
#else
  if (value < *least) *least = value;
#endif
}

// Fills the arrays that are sorted: the numbers of the entries, with their indices as keys. Records
// the first entry whose index is not valid.
template <typename Key>
struct FillEntries {
  EntryTable table;
  Key* keys;
  uint32_t* entries;
  MergeCounts* counts;

  CONDACC_HOST_DEVICE void operator()(int64_t entry) const {
    const DeviceSource& source = table.sources[table.SourceOf(entry)];
    const int64_t index = source.indices[entry - source.first_entry];
    keys[entry] = static_cast<Key>(index);
    entries[entry] = static_cast<uint32_t>(entry);
    const bool is_bad = index < 0 || (source.index_bound >= 0 && index >= source.index_bound);
    if (is_bad) LowerTo(&counts->first_bad_entry, static_cast<uint64_t>(entry));
  }
};

// Returns whether the key at a position of the sorted keys differs from that before it, so that a
// row begins.
template <typename Key>
struct IsRowStart {
  const Key* keys;

  CONDACC_HOST_DEVICE bool operator()(uint32_t place) const {
    return place == 0 || keys[place] != keys[place - 1];
  }
};

// Finds the source of each sorted entry, once for all packs of its row.
struct FindSources {
  EntryTable table;
  const uint32_t* entries;
  uint32_t* sources;

  CONDACC_HOST_DEVICE void operator()(int64_t i) const {
    sources[i] = static_cast<uint32_t>(table.SourceOf(entries[i]));
  }
};

// Counts the gradients that contain a row. Entries of the row that are of one gradient are
// neighbours, and count once.
struct GradientCounter {
  int64_t count = 0;
  int last_source = -1;

  CONDACC_HOST_DEVICE void Add(int source) {
    if (source != last_source) ++count;
    last_source = source;
  }
};

// The sorted entries, the numbers of their sources, and the positions among them at which rows
// begin. Here `row` is the number of a row in the result, and not its index in the dense tensor.
struct RowSegments {
  const DeviceSource* table;
  const uint32_t* entries;
  const uint32_t* sources;
  const uint32_t* starts;
  int64_t num_rows;
  int64_t num_entries;
  int64_t num_merged;
  const int64_t* merged_counts;

  CONDACC_HOST_DEVICE int64_t begin(int64_t row) const { return starts[row]; }
  CONDACC_HOST_DEVICE int64_t end(int64_t row) const {
    return row + 1 < num_rows ? starts[row + 1] : num_entries;
  }

  // Returns a counter that has counted the row's first entry. That entry is a merged row if there
  // is one, because merged rows are the first source, and then counts as the gradients merged in
  // it.
  CONDACC_HOST_DEVICE GradientCounter Counter(int64_t row) const {
    const int64_t i = begin(row);
    const int64_t entry = entries[i];
    return {entry < num_merged ? merged_counts[entry] : 1, static_cast<int>(sources[i])};
  }
  CONDACC_HOST_DEVICE int64_t CountOf(int64_t row) const {
    GradientCounter counter = Counter(row);
    for (int64_t i = begin(row) + 1; i < end(row); ++i) counter.Add(static_cast<int>(sources[i]));
    return counter.count;
  }
};

// Writes a row's index and, if `counts` is not null, its count.
template <typename Key>
struct WriteRow {
  RowSegments segments;
  const Key* keys;
  int64_t* indices;
  int64_t* counts;

  CONDACC_HOST_DEVICE void operator()(int64_t row) const {
    indices[row] = static_cast<int64_t>(keys[segments.begin(row)]);
    if (counts != nullptr) counts[row] = segments.CountOf(row);
  }
};

// Sums one pack of one row. Consecutive items are consecutive packs of the output.
template <typename T, typename Out, int kPack>
struct SumRowPack {
  using Sum = SumType<T>;
  // The number of entries whose loads are issued before the first of them is added.
  static constexpr int kRowsAtOnce = 4;

  RowSegments segments;
  int64_t packs_per_row;
  int64_t divisor;  // 0 means the row's count.
  Out* out;

  CONDACC_HOST_DEVICE void operator()(int64_t item) const {
    const int64_t row = Quotient(item, packs_per_row);
    const int64_t column = item - row * packs_per_row;
    const int64_t end = segments.end(row);
    int64_t i = segments.begin(row);
    Sum sums[kPack];
    GradientCounter counter = segments.Counter(row);
    Start(i++, column, sums);
    for (; i < end; i += kRowsAtOnce) AddSome(i, end, column, sums, &counter);
    const int64_t by = divisor == 0 ? counter.count : divisor;
    Pack<Out, kPack> result;
    for (int j = 0; j < kPack; ++j) {
      result.values[j] = Rounded<Out>(Divided(sums[j], static_cast<Sum>(by)));
    }
    StorePack(result, out, item);
  }

 private:
  // Divides in 32 bits if possible. 64-bit divisions are many times slower on a GPU.
  CONDACC_HOST_DEVICE static int64_t Quotient(int64_t item, int64_t by) {
    if (((item | by) >> 32) == 0) return static_cast<uint32_t>(item) / static_cast<uint32_t>(by);
    return item / by;
  }

  // Loads a pack of the sorted entry number `i`.
  template <typename Element>
  CONDACC_HOST_DEVICE Pack<Element, kPack> Load(int64_t i, int64_t column) const {
    const DeviceSource& source = segments.table[segments.sources[i]];
    const int64_t entry = segments.entries[i];
    return LoadPack<Element, kPack>(static_cast<const Element*>(source.values),
                                    (entry - source.first_entry) * packs_per_row + column);
  }

  CONDACC_HOST_DEVICE void Start(int64_t i, int64_t column, Sum* sums) const {
    if (segments.entries[i] < segments.num_merged) {
      const Pack<Sum, kPack> merged = Load<Sum>(i, column);
      for (int j = 0; j < kPack; ++j) sums[j] = merged.values[j];
    } else {
      const Pack<T, kPack> first = Load<T>(i, column);
      for (int j = 0; j < kPack; ++j) sums[j] = static_cast<Sum>(first.values[j]);
    }
  }

  CONDACC_HOST_DEVICE void AddSome(int64_t begin, int64_t end, int64_t column, Sum* sums,
                                   GradientCounter* counter) const {
    Pack<T, kPack> loaded[kRowsAtOnce] = {};
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int k = 0; k < kRowsAtOnce; ++k) {
      if (begin + k >= end) continue;
      loaded[k] = Load<T>(begin + k, column);
      counter->Add(static_cast<int>(segments.sources[begin + k]));
    }
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int k = 0; k < kRowsAtOnce; ++k) {
      if (begin + k >= end) continue;
      for (int j = 0; j < kPack; ++j) sums[j] += static_cast<Sum>(loaded[k].values[j]);
    }
  }
};

// Converts indices from int32 to int64.
struct WidenIndex {
  const int32_t* from;
  int64_t* to;

  CONDACC_HOST_DEVICE void operator()(int64_t i) const { to[i] = from[i]; }
};

}  // namespace condacc

#endif  // CONDACC_GPU_ROW_MERGE_H_
