// Merges of sparse gradients in device memory.
#ifndef CONDACC_GPU_SPARSE_MERGE_H_
#define CONDACC_GPU_SPARSE_MERGE_H_

#include <cstddef>

#include "cc/core/base/status.h"
#include "cc/core/sparse/device_merge.h"
#include "cc/gpu/cuda_stream.h"

namespace condacc {

// These functions do the work of DeviceWorkspace on `stream`. They return Internal if the device
// refuses it. Later failures are reported by the stream, and by SortRows(), which waits for it.
Status SizeOfMergeMemory(const DeviceMergeArgs& args, size_t* num_bytes);
Status SortRows(const DeviceMergeArgs& args, cudaStream_t stream, DeviceMergeReport* report);
Status QueueWrite(const DeviceMergeArgs& args, const DeviceMergeOutput& output,
                  cudaStream_t stream);

}  // namespace condacc

#endif  // CONDACC_GPU_SPARSE_MERGE_H_
