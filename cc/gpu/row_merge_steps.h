// Runs the steps of a merge in their order and with the types that they need, on a device or in a
// test.
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

namespace condacc {

// Divides the memory of a merge, `args.memory`, into arrays. They begin at multiples of 256 bytes,
// which the sort requires, wherever the memory begins. If it is null, so are the arrays, and only
// num_bytes is of use.
template <typename Key>
struct MergeMemory {
  DeviceSource* sources;
  MergeCounts* counts;
  Key* unsorted_keys;
  Key* keys;
  uint32_t* unsorted_entries;  // After sorting: sources of the sorted entries.
  uint32_t* entries;
  uint32_t* starts;
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
    keys = Next<Key>(memory, num_entries);
    unsorted_entries = Next<uint32_t>(memory, num_entries);
    entries = Next<uint32_t>(memory, num_entries);
    starts = Next<uint32_t>(memory, num_entries);
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

// Calls run(Key()) with the narrower unsigned type in which all valid indices fit.
template <typename Run>
Status WithKey(const DeviceMergeArgs& args, Run run) {
  return args.num_index_bits <= 32 ? run(uint32_t()) : run(uint64_t());
}

// Fills the arrays that are sorted. An `Executor` has ForEach(num_items, step), which runs or
// queues step(i) for each i below num_items, ForEachUneven(), which does so if the items take
// unequally long, and the types Float16 and BFloat16.
template <typename Key, class Executor>
Status FillMerge(const DeviceMergeArgs& args, const MergeMemory<Key>& memory, Executor& executor) {
  const int num_sources = static_cast<int>(args.sources.size());
  for (int begin = 0; begin < num_sources; begin += StoreSources::kMax) {
    StoreSources store;
    const int size = std::min(num_sources - begin, StoreSources::kMax);
    std::copy_n(args.sources.begin() + begin, size, store.sources);
    store.to = memory.sources + begin;
    const Status status = executor.ForEach(size, store);
    if (!status.ok()) return status;
  }
  const FillEntries<Key> fill{
      {memory.sources, num_sources}, memory.unsorted_keys, memory.unsorted_entries, memory.counts};
  return executor.ForEach(args.num_entries, fill);
}

// Finds the sources of the sorted entries. This needs no number of rows, so a device can do it
// while the host waits for that.
template <typename Key, class Executor>
Status FindMergeSources(const DeviceMergeArgs& args, const MergeMemory<Key>& memory,
                        Executor& executor) {
  const EntryTable table{memory.sources, static_cast<int>(args.sources.size())};
  return executor.ForEach(args.num_entries,
                          FindSources{table, memory.entries, memory.unsorted_entries});
}

template <typename T, typename Out, class Executor>
Status SumRows(const DeviceMergeArgs& args, const RowSegments& segments,
               const DeviceMergeOutput& output, Executor& executor) {
  constexpr int kPack =
      static_cast<int>(kVectorBytes / std::max({sizeof(T), sizeof(SumType<T>), sizeof(Out)}));
  const bool is_complex =
      args.layout.type == ElementType::kComplex64 || args.layout.type == ElementType::kComplex128;
  const auto width = static_cast<int64_t>(args.layout.width) * (is_complex ? 2 : 1);
  Out* const out = static_cast<Out*>(output.values);
  bool has_packs = width % kPack == 0 && IsAligned(out, kPack);
  for (size_t i = 0; i < args.sources.size(); ++i) {
    const void* const values = args.sources[i].values;
    const bool is_merged = i == 0 && args.num_merged > 0;
    has_packs = has_packs && (is_merged ? IsAligned(static_cast<const SumType<T>*>(values), kPack)
                                        : IsAligned(static_cast<const T*>(values), kPack));
  }
  if (has_packs) {
    const int64_t packs = width / kPack;
    const SumRowPack<T, Out, kPack> sum{segments, packs, output.divisor, out};
    return executor.ForEachUneven(output.num_rows * packs, sum);
  }
  const SumRowPack<T, Out, 1> sum{segments, width, output.divisor, out};
  return executor.ForEachUneven(output.num_rows * width, sum);
}

template <typename T, class Executor>
Status SumRowsOf(const DeviceMergeArgs& args, const RowSegments& segments,
                 const DeviceMergeOutput& output, Executor& executor) {
  if constexpr (sizeof(T) == 2) {
    if (output.values_are_sums) return SumRows<T, float>(args, segments, output, executor);
  }
  return SumRows<T, T>(args, segments, output, executor);
}

// Integers are added as unsigned integers, and complex numbers as pairs of real numbers.
template <class Executor>
Status SumAllRows(const DeviceMergeArgs& args, const RowSegments& segments,
                  const DeviceMergeOutput& output, Executor& executor) {
  switch (args.layout.type) {
    case ElementType::kFloat16:
      return SumRowsOf<typename Executor::Float16>(args, segments, output, executor);
    case ElementType::kBFloat16:
      return SumRowsOf<typename Executor::BFloat16>(args, segments, output, executor);
    case ElementType::kFloat32:
    case ElementType::kComplex64:
      return SumRowsOf<float>(args, segments, output, executor);
    case ElementType::kFloat64:
    case ElementType::kComplex128:
      return SumRowsOf<double>(args, segments, output, executor);
    case ElementType::kInt32:
      return SumRowsOf<uint32_t>(args, segments, output, executor);
    case ElementType::kInt64:
      return SumRowsOf<uint64_t>(args, segments, output, executor);
  }
  return Status(StatusCode::kInternal, "Bad element type");
}

// Writes the output of a merge whose entries have been sorted.
template <class Executor>
Status WriteMerge(const DeviceMergeArgs& args, const DeviceMergeOutput& output,
                  Executor& executor) {
  return WithKey(args, [&](auto key) {
    using Key = decltype(key);
    const MergeMemory<Key> memory(args, 0);
    const RowSegments segments{memory.sources,  memory.entries,    memory.unsorted_entries,
                               memory.starts,   output.num_rows,   args.num_entries,
                               args.num_merged, args.merged_counts};
    const WriteRow<Key> write{segments, memory.keys, output.indices, output.counts};
    const Status written = executor.ForEachUneven(output.num_rows, write);
    return written.ok() ? SumAllRows(args, segments, output, executor) : written;
  });
}

}  // namespace condacc

#endif  // CONDACC_GPU_ROW_MERGE_STEPS_H_
