// Sums of dense gradients in device memory.
#ifndef CONDACC_GPU_DENSE_SUM_H_
#define CONDACC_GPU_DENSE_SUM_H_

#include "cc/core/base/status.h"
#include "cc/core/dense/dense_math.h"

namespace condacc {

// Queues SumDense(args) on `stream` (a cudaStream_t; null for the default one) and returns. The
// buffers are device memory, at least aligned to their elements; `args.inputs` itself is in host
// memory and is not looked at any more on return.
//
// Internal if the device, or rather its driver, refuses; ResourceExhausted for more inputs than
// kMaxDenseInputs. `args.out` may then hold anything. What fails later is told by the stream.
Status QueueDenseSum(const DenseSumArgs& args, void* stream);

}  // namespace condacc

#endif  // CONDACC_GPU_DENSE_SUM_H_
