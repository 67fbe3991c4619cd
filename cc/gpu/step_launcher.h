// Runs the steps of a merge on a stream. For .cu.cc files.
#ifndef CONDACC_GPU_STEP_LAUNCHER_H_
#define CONDACC_GPU_STEP_LAUNCHER_H_

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "cc/core/base/status.h"
#include "cc/gpu/cuda_status.h"
#include "cc/gpu/grid.h"
#include "cc/gpu/long_rows.h"
#include "cc/gpu/narrow_elements.h"

namespace condacc {

struct StepLauncher {
  using Float16 = __half;
  using BFloat16 = __nv_bfloat16;

  cudaStream_t stream;

  template <typename Step>
  Status ForEach(int64_t num_items, const Step& step) {
    return CudaStatus(QueueForEach(num_items, step, stream), "to merge rows");
  }
  // For items that take unequally long.
  template <typename Step>
  Status ForEachUneven(int64_t num_items, const Step& step) {
    return CudaStatus(QueueForEach(num_items, step, stream, Division::kSingle), "to merge rows");
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
    return CudaStatus(error, "to merge rows");
  }
};

}  // namespace condacc

#endif  // CONDACC_GPU_STEP_LAUNCHER_H_
