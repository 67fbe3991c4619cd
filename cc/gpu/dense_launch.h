// Sums of dense gradients in device memory.
#ifndef CONDACC_GPU_DENSE_LAUNCH_H_
#define CONDACC_GPU_DENSE_LAUNCH_H_

#include <cstddef>

#include "cc/core/base/status.h"
#include "cc/core/math/dense_math.h"
#include "cc/gpu/cuda_stream.h"

namespace condacc {

// The maximum number of inputs of a sum. Their addresses are parameters of the kernel, which are
// limited to 4 KiB.
inline constexpr size_t kMaxDenseInputs = 256;

// Queues AddDense(args) on `stream` (null for the default one) and returns. The buffers are in
// device memory and at least aligned to their elements. `args.inputs` itself is in host memory, and
// is not read after the return.
//
// Returns Internal if the driver refuses the work, and ResourceExhausted for more than
// kMaxDenseInputs inputs. `args.out` may then have any content. Later failures are reported by
// the stream.
Status QueueDenseAdd(const DenseAddArgs& args, cudaStream_t stream);

}  // namespace condacc

#endif  // CONDACC_GPU_DENSE_LAUNCH_H_
