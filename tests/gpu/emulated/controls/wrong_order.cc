// Plants a bug into dense sums: gradients are added in the reverse order. The program is linked
// with --wrap, so that its calls come here.
#include <algorithm>
#include <vector>

#include "cc/core/base/status.h"
#include "cc/core/math/dense_math.h"
#include "cc/gpu/cuda_stream.h"

condacc::Status QueueAsAsked(const condacc::DenseAddArgs& args, cudaStream_t stream) __asm__(
    "__real__ZN7condacc13QueueDenseAddERKNS_12DenseAddArgsEP11CUstream_st");
condacc::Status QueueInReverse(const condacc::DenseAddArgs& args, cudaStream_t stream) __asm__(
    "__wrap__ZN7condacc13QueueDenseAddERKNS_12DenseAddArgsEP11CUstream_st");

condacc::Status QueueInReverse(const condacc::DenseAddArgs& args, cudaStream_t stream) {
  std::vector<const void*> inputs(args.inputs, args.inputs + args.num_inputs);
  std::reverse(inputs.begin(), inputs.end());
  condacc::DenseAddArgs reversed = args;
  reversed.inputs = inputs.data();
  return QueueAsAsked(reversed, stream);
}
