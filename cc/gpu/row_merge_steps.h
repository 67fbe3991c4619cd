// Runs the steps of a merge in order and with the types that they need, on a device or in a test.
#ifndef CONDACC_GPU_ROW_MERGE_STEPS_H_
#define CONDACC_GPU_ROW_MERGE_STEPS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cc/core/base/element_type.h"
#include "cc/core/base/status.h"
#include "cc/core/sparse/device_merge.h"
#include "cc/gpu/elements.h"
#include "cc/gpu/row_merge.h"
#include "cc/gpu/row_sum.h"

namespace condacc {

// Divides the memory of a merge, `args.memory`, into arrays. They begin at multiples of 256 bytes,
// as the sort requires, wherever the memory begins. If the memory is null, so are the arrays, and
// only num_bytes is useful.
template <typename Key>
struct MergeMemory {
  DeviceSource* sources;
  MergeCounts* counts;
  Key* unsorted_keys;
  uint32_t* unsorted_entries;
  // Addresses of the sorted entries' values. They reuse the memory of unsorted_keys and
  // unsorted_entries.
  const char** values;
  Key* keys;
  uint32_t* entries;  // The sorted entries, and their contributors after LocateMerge().
  uint32_t* starts;
  uint32_t* long_rows;
  void* scratch;     // Memory for the sort.
  size_t num_bytes;  // The size of all arrays together.

  MergeMemory(const DeviceMergeArgs& args, size_t scratch_bytes) : num_bytes(0) {
    const auto num_entries = static_cast<size_t>(args.num_entries);
    char* memory = static_cast<char*>(args.memory);
    if (memory != nullptr) {
      memory += -reinterpret_cast<uintptr_t>(memory) % kAlignment;
    }
    sources = Next<DeviceSource>(memory, args.sources.size());
    counts = Next<MergeCounts>(memory, 1);
    unsorted_keys = Next<Key>(memory, num_entries);
    unsorted_entries = Next<uint32_t>(memory, num_entries);
    static_assert(sizeof(*values) <= sizeof(Key) + sizeof(uint32_t));
    values = reinterpret_cast<const char**>(unsorted_keys);
    keys = Next<Key>(memory, num_entries);
    entries = Next<uint32_t>(memory, num_entries);
    starts = Next<uint32_t>(memory, num_entries);
    long_rows = Next<uint32_t>(memory, LongRows::MaxNumRows(args.num_entries, 0));
    scratch = Next<char>(memory, scratch_bytes);
    num_bytes += kAlignment;
  }

 private:
  static constexpr size_t kAlignment = 256;

  template <typename T>
  T* Next(char* memory, size_t size) {
    const size_t begin = num_bytes;
    num_bytes += (size * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return memory == nullptr ? nullptr : reinterpret_cast<T*>(memory + begin);
  }
};

// Calls run(Key()) with the narrowest unsigned type that can hold all valid indices.
template <typename Run>
Status WithKey(const DeviceMergeArgs& args, Run run) {
  return args.num_index_bits <= 32 ? run(uint32_t()) : run(uint64_t());
}

// Fills the arrays to be sorted. A `Launcher` has ForEach(num_items, step), which runs or queues
// step(i) for each i below num_items, ForEachUneven(), which is for items that take unequally long,
// Run(SumLongRows), and the types Float16 and BFloat16.
template <typename Key, class Launcher>
Status FillMerge(const DeviceMergeArgs& args, const MergeMemory<Key>& memory, Launcher& launcher) {
  const int num_sources = static_cast<int>(args.sources.size());
  for (int begin = 0; begin < num_sources; begin += StoreSources::kMax) {
    StoreSources store;
    const int size = std::min(num_sources - begin, StoreSources::kMax);
    std::copy_n(args.sources.begin() + begin, size, store.sources);
    store.to = memory.sources + begin;
    const Status status = launcher.ForEach(size, store);
    if (!status.ok()) return status;
  }
  const FillEntries<Key> fill{
      {memory.sources, num_sources}, memory.unsorted_keys, memory.unsorted_entries, memory.counts};
  return launcher.ForEach(args.num_entries, fill);
}

// Finds the values of the sorted entries. This does not need the number of rows, so a device can do
// it while the host waits for that number.
template <typename Key, class Launcher>
Status LocateMerge(const DeviceMergeArgs& args, const MergeMemory<Key>& memory,
                   Launcher& launcher) {
  const LocateEntries locate{{memory.sources, static_cast<int>(args.sources.size())},
                             args.num_merged,
                             static_cast<int64_t>(args.layout.num_bytes()),
                             static_cast<int64_t>(args.layout.num_sum_bytes()),
                             memory.entries,
                             memory.values,
                             memory.counts};
  return launcher.ForEach(args.num_entries, locate);
}

// Sums the rows in packs of kPack elements. They have `width` elements each.
template <typename T, typename Out, int kPack, class Launcher>
Status SumPacks(const RowSegments& segments, int64_t width, const LongRows& long_rows,
                const DeviceMergeOutput& output, Launcher& launcher) {
  using RowSum = SumRowPack<T, Out, kPack>;
  const RowSum sum{segments, width / kPack, output.divisor, static_cast<Out*>(output.values)};
  const Status status = launcher.ForEachUneven(output.num_rows * sum.packs_per_row, sum);
  const int64_t max_long = LongRows::MaxNumRows(segments.num_entries, output.num_rows);
  if (!status.ok() || max_long == 0) return status;
  return launcher.Run(SumLongRows<RowSum>{sum, long_rows, output.counts, max_long});
}

template <typename T, typename Out, class Launcher>
Status SumRows(const DeviceMergeArgs& args, const RowSegments& segments, const LongRows& long_rows,
               const DeviceMergeOutput& output, Launcher& launcher) {
  constexpr int kPack =
      static_cast<int>(kVectorBytes / std::max({sizeof(T), sizeof(SumType<T>), sizeof(Out)}));
  const auto width = static_cast<int64_t>(args.layout.width * NumParts(args.layout.type));
  bool has_packs = width % kPack == 0 && IsAligned(static_cast<Out*>(output.values), kPack);
  for (size_t i = 0; i < args.sources.size(); ++i) {
    const void* const values = args.sources[i].values;
    const bool is_merged = i == 0 && args.num_merged > 0;
    has_packs = has_packs && (is_merged ? IsAligned(static_cast<const SumType<T>*>(values), kPack)
                                        : IsAligned(static_cast<const T*>(values), kPack));
  }
  return has_packs ? SumPacks<T, Out, kPack>(segments, width, long_rows, output, launcher)
                   : SumPacks<T, Out, 1>(segments, width, long_rows, output, launcher);
}

template <typename T, class Launcher>
Status SumRowsOf(const DeviceMergeArgs& args, const RowSegments& segments,
                 const LongRows& long_rows, const DeviceMergeOutput& output, Launcher& launcher) {
  if constexpr (sizeof(T) == 2) {
    if (output.values_are_sums) {
      return SumRows<T, float>(args, segments, long_rows, output, launcher);
    }
  }
  return SumRows<T, T>(args, segments, long_rows, output, launcher);
}

// Integers are added as unsigned integers, and complex numbers as pairs of real numbers.
template <class Launcher>
Status SumAllRows(const DeviceMergeArgs& args, const RowSegments& segments,
                  const LongRows& long_rows, const DeviceMergeOutput& output, Launcher& launcher) {
  switch (args.layout.type) {
    case ElementType::kFloat16:
      return SumRowsOf<typename Launcher::Float16>(args, segments, long_rows, output, launcher);
    case ElementType::kBFloat16:
      return SumRowsOf<typename Launcher::BFloat16>(args, segments, long_rows, output, launcher);
    case ElementType::kFloat32:
    case ElementType::kComplex64:
      return SumRowsOf<float>(args, segments, long_rows, output, launcher);
    case ElementType::kFloat64:
    case ElementType::kComplex128:
      return SumRowsOf<double>(args, segments, long_rows, output, launcher);
    case ElementType::kInt32:
      return SumRowsOf<uint32_t>(args, segments, long_rows, output, launcher);
    case ElementType::kInt64:
      return SumRowsOf<uint64_t>(args, segments, long_rows, output, launcher);
  }
  return Status(StatusCode::kInternal, "Bad element type");
}

// Writes the output of a merge whose entries have been sorted and located. May be called once.
template <class Launcher>
Status WriteMerge(const DeviceMergeArgs& args, const DeviceMergeOutput& output,
                  Launcher& launcher) {
  return WithKey(args, [&](auto key) {
    using Key = decltype(key);
    const MergeMemory<Key> memory(args, 0);
    const RowSegments segments{memory.values,     memory.entries,   memory.starts,
                               output.num_rows,   args.num_entries, args.num_merged,
                               args.merged_counts};
    const LongRows long_rows{memory.long_rows, memory.counts};
    const WriteRow<Key> write{segments, memory.keys, long_rows, output.indices, output.counts};
    const Status written = launcher.ForEachUneven(output.num_rows, write);
    return written.ok() ? SumAllRows(args, segments, long_rows, output, launcher) : written;
  });
}

}  // namespace condacc

#endif  // CONDACC_GPU_ROW_MERGE_STEPS_H_
