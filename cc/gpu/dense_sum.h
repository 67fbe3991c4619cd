#ifndef CONDACC_CC_GPU_DENSE_SUM_H_
#define CONDACC_CC_GPU_DENSE_SUM_H_

#include <cstdint>

namespace condacc {

// Element types of the dense sum on a GPU.
enum class GpuElement { kFloat, kDouble, kHalf, kBfloat16 };

// The most inputs that one pass reads.
inline constexpr int kMaxGpuDenseSumInputs = 8;

// out[i] = (((first[i] + inputs[0][i]) + inputs[1][i]) + ...) / count, added in this order.
//
// All buffers are device memory of `size` elements and at least aligned to their elements.
// float and double are added in their own precision. kHalf and kBfloat16 are added in float and
// rounded once, on the way out; a running sum of them is kept in float between passes: see
// `first_is_float` and `out_is_float`, which say so and change nothing for other elements.
struct GpuDenseSumArgs {
  GpuElement element = GpuElement::kFloat;
  int64_t size = 0;
  const void* first = nullptr;
  bool first_is_float = false;
  const void* inputs[kMaxGpuDenseSumInputs] = {};
  int num_inputs = 0;
  int64_t count = 1;    // The divisor of the sum: 1 for the sum itself, positive.
  void* out = nullptr;  // May be the same buffer as `first` or any of `inputs`.
  bool out_is_float = false;
};

// Queues the sum on `stream` (a cudaStream_t; null for the default one) and returns at once.
//
// Returns a cudaError_t: 0 when queued, cudaErrorInvalidValue for arguments out of range, else what
// the launch failed with. A kernel's own failure is reported by the stream.
int LaunchGpuDenseSum(const GpuDenseSumArgs& args, void* stream);

}  // namespace condacc

#endif  // CONDACC_CC_GPU_DENSE_SUM_H_
