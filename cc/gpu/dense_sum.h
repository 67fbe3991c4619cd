// Sums of dense gradients in device memory.
#ifndef CONDACC_GPU_DENSE_SUM_H_
#define CONDACC_GPU_DENSE_SUM_H_

#include "cc/core/base/status.h"
#include "cc/core/dense/dense_math.h"

namespace condacc {

// Queues SumDense(args) on `stream` (a cudaStream_t; null for the default one) and returns. The
// buffers are device memory, at least aligned to their elements. `args.inputs` itself is in host
// memory, and is not read any more after the return.
//
// Returns Internal if the driver refuses the work, and ResourceExhausted for more than
// kMaxDenseInputs inputs. `args.out` may then have any content. The stream reports what fails
// later.
Status QueueDenseSum(const DenseSumArgs& args, void* stream);

}  // namespace condacc

#endif  // CONDACC_GPU_DENSE_SUM_H_
