// The steps of a merge of rows, up to the sums (see row_sum.h). A step is a function object, and
// each call of it does one item of work. Kernels run the steps, and so do tests on the CPU.
#ifndef CONDACC_GPU_ROW_MERGE_H_
#define CONDACC_GPU_ROW_MERGE_H_

#include <cstdint>

#include "cc/core/sparse/device_merge.h"
#include "cc/gpu/elements.h"
#include "cc/gpu/host_device.h"

namespace condacc {

// The value of MergeCounts::first_bad_entry if all indices are valid. Higher than any entry.
inline constexpr uint64_t kNoBadEntry = ~uint64_t{0};

// The numbers that the device determines. The host waits for the first two of them.
struct MergeCounts {
  uint64_t first_bad_entry;
  int64_t num_rows;
  uint32_t num_long_rows;
};

// Copies sources to the table on the device. They are parameters of the kernel, so nothing has to
// be copied from host memory.
struct StoreSources {
  static constexpr int kMax = 64;
  DeviceSource sources[kMax];
  DeviceSource* to;

  CONDACC_HOST_DEVICE void operator()(int64_t i) const { to[i] = sources[i]; }
};

// The entries of all sources, numbered consecutively across sources.
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

// Fills the arrays to be sorted: the numbers of the entries, with their indices as keys. Records
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

// Returns whether a row begins at a position of the sorted keys, where the key differs from the one
// before.
template <typename Key>
struct IsRowStart {
  const Key* keys;

  CONDACC_HOST_DEVICE bool operator()(uint32_t place) const {
    return place == 0 || keys[place] != keys[place - 1];
  }
};

// Writes the address of each sorted entry's values, and replaces the entry's number by that of its
// contributor: the number of the merged row, or num_merged plus the number of the source. Two
// entries of a row belong to the same gradient if their contributors are equal. Also empties the
// list of long rows.
struct LocateEntries {
  EntryTable table;
  int64_t num_merged;
  int64_t slice_bytes;   // The size of a slice of a gradient.
  int64_t merged_bytes;  // The size of a merged row.
  uint32_t* entries;     // Numbers of entries, which are replaced by contributors.
  const char** values;
  MergeCounts* counts;

  CONDACC_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t entry = entries[i];
    const bool is_merged = entry < num_merged;
    const int number = table.SourceOf(entry);
    const DeviceSource& source = table.sources[number];
    values[i] = static_cast<const char*>(source.values) +
                (entry - source.first_entry) * (is_merged ? merged_bytes : slice_bytes);
    entries[i] = static_cast<uint32_t>(is_merged ? entry : num_merged + number);
    if (i == 0) counts->num_long_rows = 0;
  }
};

// Rows with more entries are long, and are summed by all threads of a block together.
inline constexpr int64_t kLongRow = 256;
CONDACC_HOST_DEVICE constexpr bool IsLongRow(int64_t first, int64_t end) {
  return end - first > kLongRow;
}

// The sorted entries, and the positions among them at which rows begin. Here `row` is the number of
// a row in the result, and not its index in the dense tensor.
struct RowSegments {
  const char* const* values;
  const uint32_t* contributors;
  const uint32_t* starts;
  int64_t num_rows;
  int64_t num_entries;
  int64_t num_merged;
  const int64_t* merged_counts;

  CONDACC_HOST_DEVICE int64_t begin(int64_t row) const { return starts[row]; }
  CONDACC_HOST_DEVICE int64_t end(int64_t row) const {
    return row + 1 < num_rows ? starts[row + 1] : num_entries;
  }

  // Returns whether a row's first entry is a merged row. No other entry can be one, because merged
  // rows are the first source.
  CONDACC_HOST_DEVICE bool IsMerged(int64_t first) const {
    return contributors[first] < num_merged;
  }
  // Returns the number of gradients in a row's first entry.
  CONDACC_HOST_DEVICE int64_t FirstCount(int64_t first) const {
    return IsMerged(first) ? merged_counts[contributors[first]] : 1;
  }
  // Returns the number of gradients that contain a row. The entries of one gradient are adjacent,
  // and count once. The row has the entries [first, end).
  CONDACC_HOST_DEVICE int64_t Count(int64_t first, int64_t end) const {
    int64_t count = FirstCount(first);
    int64_t i = first + 1;
    CONDACC_NO_UNROLL
    for (; i + kCountedAtOnce <= end; i += kCountedAtOnce) count += NumNew(i, kCountedAtOnce);
    if (i < end) count += NumNew(i, static_cast<int>(end - i));
    return count;
  }

 private:
  // The number of entries that are loaded before the first of them is counted.
  static constexpr int kCountedAtOnce = 4;

  // Returns how many of `size` entries (at most kCountedAtOnce) belong to another gradient than the
  // entry before.
  CONDACC_HOST_DEVICE int NumNew(int64_t begin, int size) const {
    uint32_t loaded[kCountedAtOnce + 1] = {contributors[begin - 1]};
    CONDACC_UNROLL
    for (int k = 0; k < kCountedAtOnce; ++k) {
      loaded[k + 1] = k < size ? contributors[begin + k] : loaded[k];
    }
    int result = 0;
    CONDACC_UNROLL
    for (int k = 0; k < kCountedAtOnce; ++k) result += loaded[k + 1] != loaded[k] ? 1 : 0;
    return result;
  }
};

// The numbers of the long rows, in any order.
struct LongRows {
  uint32_t* rows;
  MergeCounts* counts;

  // Threads of a device may call this concurrently.
  CONDACC_HOST_DEVICE void Add(int64_t row) const {
    rows[NextPlace()] = static_cast<uint32_t>(row);
  }

  // Returns an upper bound of the number of long rows among `num_rows` rows.
  static int64_t MaxNumRows(int64_t num_entries, int64_t num_rows) {
    return (num_entries - num_rows) / kLongRow;
  }

 private:
  CONDACC_HOST_DEVICE uint32_t NextPlace() const {
#if defined(__CUDA_ARCH__)
    return atomicAdd(&counts->num_long_rows, 1u);
#else
    return counts->num_long_rows++;
#endif
  }
};

// Writes a row's index. Puts a long row on the list, and writes the count of any other row if
// `counts` is not null.
template <typename Key>
struct WriteRow {
  RowSegments segments;
  const Key* keys;
  LongRows long_rows;
  int64_t* indices;
  int64_t* counts;

  CONDACC_HOST_DEVICE void operator()(int64_t row) const {
    const int64_t first = segments.begin(row);
    const int64_t end = segments.end(row);
    indices[row] = static_cast<int64_t>(keys[first]);
    if (IsLongRow(first, end)) {
      long_rows.Add(row);
    } else if (counts != nullptr) {
      counts[row] = segments.Count(first, end);
    }
  }
};

}  // namespace condacc

#endif  // CONDACC_GPU_ROW_MERGE_H_
