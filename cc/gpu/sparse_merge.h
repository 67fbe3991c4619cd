// Merges of sparse gradients in device memory.
#ifndef CONDACC_GPU_SPARSE_MERGE_H_
#define CONDACC_GPU_SPARSE_MERGE_H_

#include <cstddef>
#include <cstdint>

#include "cc/core/base/status.h"
#include "cc/core/sparse/device_merge.h"

namespace condacc {

// These functions do the work of DeviceSparseWorkspace on `stream`, a cudaStream_t. They return
// Internal if the device refuses it. What fails later is reported by the stream, and by SortRows(),
// which waits for it.
Status QueueWiden(const int32_t* from, size_t size, int64_t* to, void* stream);
Status SizeOfMergeMemory(const DeviceMergeArgs& args, size_t* num_bytes);
Status SortRows(const DeviceMergeArgs& args, void* stream, DeviceMergeReport* report);
Status QueueWrite(const DeviceMergeArgs& args, const DeviceMergeOutput& output, void* stream);

}  // namespace condacc

#endif  // CONDACC_GPU_SPARSE_MERGE_H_
