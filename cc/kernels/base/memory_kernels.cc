// The kernel of the op that outputs how much memory gradients and sums take.
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "cc/kernels/base/host_memory.h"
#include "cc/kernels/base/kernel.h"
#include "cc/kernels/base/resource_op.h"
#include "cc/memory/held_bytes.h"
#include "cc/memory/page_pool.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace condacc {
namespace {

// Outputs: held, peak, pooled.
absl::Status OutputHeldBytes(const NoAttributes&, tensorflow::OpKernelContext* ctx) {
  int64_t* outputs[3];
  for (int i = 0; i < 3; ++i) TF_RETURN_IF_ERROR(AllocateScalar(ctx, i, &outputs[i]));
  HeldBytes& held = HeldBytes::Global();
  *outputs[0] = static_cast<int64_t>(held.now());
  *outputs[1] = static_cast<int64_t>(held.TakePeak());
  *outputs[2] = static_cast<int64_t>(PagePool::Global().num_bytes());
  return absl::OkStatus();
}

[[maybe_unused]] const bool kHasHeldBytes = RegisterKernel<FunctionOp<OutputHeldBytes>>(
    "Condacc>HeldBytes", tensorflow::DEVICE_DEFAULT, {"held", "peak", "pooled"});

}  // namespace
}  // namespace condacc
