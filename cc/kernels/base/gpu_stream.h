// The stream of a GPU op. Only inline and virtual functions of TensorFlow are used here, so the
// library needs no symbols that a TensorFlow without GPU support lacks.
#ifndef CONDACC_KERNELS_BASE_GPU_STREAM_H_
#define CONDACC_KERNELS_BASE_GPU_STREAM_H_

#include <memory>

#include "cc/core/base/status.h"
#include "cc/gpu/cuda_stream.h"
#include "cc/gpu/device_check.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "xla/stream_executor/activate_context.h"
#include "xla/stream_executor/stream.h"
#include "xla/stream_executor/stream_executor.h"

namespace condacc {

// The stream on which TensorFlow queues all computations of a GPU device. Work that is queued on it
// runs after the work that produces the op's inputs, and before the work that uses its outputs or
// reuses its memory. The stream lives as long as the device.
class GpuStream {
 public:
  explicit GpuStream(tensorflow::OpKernelContext* ctx)
      : stream_(ctx->op_device_context()->stream()) {}

  cudaStream_t handle() const {
    return static_cast<cudaStream_t>(stream_->platform_specific_handle().stream);
  }

  // Makes the stream's device the current one of this thread while the result lives. This is
  // necessary because any thread may complete a take, for instance one that cancels the take before
  // it.
  std::unique_ptr<stream_executor::ActivateContext> Activate() const {
    return stream_->parent()->Activate();
  }

 private:
  stream_executor::Stream* const stream_;
};

// Returns FailedPrecondition, with the remedy, if the op's GPU cannot run the kernels of cc/gpu.
inline Status CheckGpu(tensorflow::OpKernelContext* ctx) {
  const GpuStream stream(ctx);
  const auto active = stream.Activate();
  return CheckDevice();
}

}  // namespace condacc

#endif  // CONDACC_KERNELS_BASE_GPU_STREAM_H_
