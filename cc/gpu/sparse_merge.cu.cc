// A merge sorts the slices of all gradients by row, and sums each row in order of arrival:
//
// 1. SortRows() fills a list of entries, one for each slice, with their indices as keys. It notes
//    the first bad index.
// 2. CUB sorts the entries by key, stably, so the entries of a row stay in order of arrival.
// 3. CUB selects the positions at which the key changes: the rows begin there.
// 4. While the host waits for the number of rows, each sorted entry is replaced by the address of
//    its values and by the gradient or merged row to which it belongs.
// 5. QueueWrite(), with memory for that many rows, writes the index and the count of each row, and
//    lists the long rows. One thread sums each pack of a row (row_sum.h).
// 6. A block sums each chunk of a long row (long_rows.h).
#include "cc/gpu/sparse_merge.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <thrust/iterator/counting_iterator.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_select.cuh>
#include <new>

#include "cc/gpu/kernel_launch.h"
#include "cc/gpu/long_rows.h"
#include "cc/gpu/pinned.h"
#include "cc/gpu/row_merge.h"
#include "cc/gpu/row_merge_steps.h"

namespace condacc {
namespace {

constexpr char kToSort[] = "to sort rows";
constexpr char kToMerge[] = "to merge rows";

// Runs the steps of a merge on a stream.
struct StepLauncher {
  using Float16 = __half;
  using BFloat16 = __nv_bfloat16;

  cudaStream_t stream;

  template <typename Step>
  Status ForEach(int64_t num_items, const Step& step) {
    return QueueForEach(num_items, step, stream, kToMerge);
  }
  // For items that take unequally long.
  template <typename Step>
  Status ForEachUneven(int64_t num_items, const Step& step) {
    return QueueForEach(num_items, step, stream, kToMerge, Division::kSingle);
  }
  // Only the device knows how many long rows there are, so some blocks may have no work.
  template <class RowSum>
  Status Run(const SumLongRows<RowSum>& step) {
    int64_t num_blocks = 0;
    cudaError_t error = NumResidentBlocks(SumLongRowsInBlocks<RowSum>, &num_blocks);
    if (error == cudaSuccess) {
      num_blocks = std::min(num_blocks, step.max_num_rows * step.num_chunks());
      SumLongRowsInBlocks<<<static_cast<unsigned>(num_blocks), kThreads, 0, stream>>>(step);
      error = cudaGetLastError();
    }
    return CudaStatus(error, kToMerge);
  }
};

// Returns the number of entries. There are fewer than 2^31, and CUB is faster with a 32-bit count.
uint32_t NumEntries(const DeviceMergeArgs& args) { return static_cast<uint32_t>(args.num_entries); }

// Sorts the entries by their keys, stably. If `scratch` is null, only outputs the size that it must
// have.
template <typename Key>
cudaError_t SortEntries(const DeviceMergeArgs& args, const MergeMemory<Key>& memory, void* scratch,
                        size_t* scratch_bytes, cudaStream_t stream) {
  const int num_bits = std::min<int>(args.num_index_bits, 8 * sizeof(Key));
  return cub::DeviceRadixSort::SortPairs(scratch, *scratch_bytes, memory.unsorted_keys, memory.keys,
                                         memory.unsorted_entries, memory.entries, NumEntries(args),
                                         0, num_bits, stream);
}

// Finds the positions at which rows begin, and their number. If `scratch` is null, only outputs the
// size that it must have.
template <typename Key>
cudaError_t FindStarts(const DeviceMergeArgs& args, const MergeMemory<Key>& memory, void* scratch,
                       size_t* scratch_bytes, cudaStream_t stream) {
  int64_t* const num_rows = memory.counts == nullptr ? nullptr : &memory.counts->num_rows;
  return cub::DeviceSelect::If(scratch, *scratch_bytes, thrust::counting_iterator<uint32_t>(0),
                               memory.starts, num_rows, NumEntries(args),
                               IsRowStart<Key>{memory.keys}, stream);
}

template <typename Key>
cudaError_t SizeOfScratch(const DeviceMergeArgs& args, size_t* num_bytes) {
  DeviceMergeArgs nowhere = args;
  nowhere.memory = nullptr;
  const MergeMemory<Key> memory(nowhere, 0);
  size_t of_sort = 0;
  size_t of_starts = 0;
  cudaError_t error = SortEntries(args, memory, nullptr, &of_sort, nullptr);
  if (error == cudaSuccess) error = FindStarts(args, memory, nullptr, &of_starts, nullptr);
  *num_bytes = std::max(of_sort, of_starts);
  return error;
}

// Reads the results of sorting. Calls queue_more() before waiting for them, so that the device has
// work until the host notices that they have arrived.
template <typename QueueMore>
Status ReadCounts(const MergeCounts* from, cudaStream_t stream, const QueueMore& queue_more,
                  DeviceMergeReport* report) {
  const Pinned<MergeCounts> counts;
  cudaEvent_t copied = nullptr;
  cudaError_t error = counts.error();
  if (error == cudaSuccess) error = cudaEventCreateWithFlags(&copied, cudaEventDisableTiming);
  if (error != cudaSuccess) return CudaStatus(error, kToSort);
  error = cudaMemcpyAsync(counts.get(), from, sizeof(MergeCounts), cudaMemcpyDeviceToHost, stream);
  if (error == cudaSuccess) error = cudaEventRecord(copied, stream);
  const Status queued = [&] {
    try {
      return queue_more();
    } catch (const std::bad_alloc&) {
      return Status(StatusCode::kResourceExhausted, "Out of memory");
    }
  }();
  // Even after an error, the pinned memory must not be returned to the pool before the copy has
  // ended.
  const cudaError_t ended =
      error == cudaSuccess ? cudaEventSynchronize(copied) : cudaStreamSynchronize(stream);
  cudaEventDestroy(copied);
  if (error == cudaSuccess) error = ended;
  if (error != cudaSuccess) return CudaStatus(error, kToSort);
  report->num_rows = counts.get()->num_rows;
  if (counts.get()->first_bad_entry != kNoBadEntry) {
    report->bad_entry = static_cast<int64_t>(counts.get()->first_bad_entry);
  }
  return queued;
}

template <typename Key>
Status Sort(const DeviceMergeArgs& args, cudaStream_t stream, DeviceMergeReport* report) {
  size_t scratch_bytes = 0;
  cudaError_t error = SizeOfScratch<Key>(args, &scratch_bytes);
  if (error != cudaSuccess) return CudaStatus(error, kToSort);
  const MergeMemory<Key> memory(args, scratch_bytes);
  error = cudaMemsetAsync(memory.counts, 0xff, sizeof(MergeCounts), stream);
  if (error != cudaSuccess) return CudaStatus(error, kToSort);
  StepLauncher launcher{stream};
  const Status filled = FillMerge(args, memory, launcher);
  if (!filled.ok()) return filled;
  error = SortEntries(args, memory, memory.scratch, &scratch_bytes, stream);
  if (error == cudaSuccess)
    error = FindStarts(args, memory, memory.scratch, &scratch_bytes, stream);
  if (error != cudaSuccess) return CudaStatus(error, kToSort);
  const auto locate = [&] { return LocateMerge(args, memory, launcher); };
  return ReadCounts(memory.counts, stream, locate, report);
}

}  // namespace

Status SizeOfMergeMemory(const DeviceMergeArgs& args, size_t* num_bytes) {
  return WithKey(args, [&](auto key) {
    size_t scratch_bytes = 0;
    const cudaError_t error = SizeOfScratch<decltype(key)>(args, &scratch_bytes);
    *num_bytes = MergeMemory<decltype(key)>(args, scratch_bytes).num_bytes;
    return CudaStatus(error, kToSort);
  });
}

Status SortRows(const DeviceMergeArgs& args, cudaStream_t stream, DeviceMergeReport* report) {
  return WithKey(args, [&](auto key) { return Sort<decltype(key)>(args, stream, report); });
}

Status QueueWrite(const DeviceMergeArgs& args, const DeviceMergeOutput& output,
                  cudaStream_t stream) {
  StepLauncher launcher{stream};
  return WriteMerge(args, output, launcher);
}

}  // namespace condacc
