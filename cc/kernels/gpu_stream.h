// The stream of a GPU op. What of TensorFlow is used here is inline or virtual, so that the library
// asks nothing of a TensorFlow without GPUs.
#ifndef CONDACC_KERNELS_GPU_STREAM_H_
#define CONDACC_KERNELS_GPU_STREAM_H_

#include <memory>

#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "xla/stream_executor/activate_context.h"
#include "xla/stream_executor/stream.h"
#include "xla/stream_executor/stream_executor.h"

namespace condacc {

// TensorFlow has one stream for all computations on one of its GPU devices: what is queued on it
// comes after what the op's inputs are made by, and before whatever uses its outputs or gets its
// memory next. It lives as long as the device.
class GpuStream {
 public:
  explicit GpuStream(tensorflow::OpKernelContext* ctx)
      : stream_(ctx->op_device_context()->stream()) {}

  // A cudaStream_t.
  void* handle() const { return stream_->platform_specific_handle().stream; }

  // While it lives, this thread works with the stream's device. A take may be completed by any
  // thread, for instance by one that cancels the take before it.
  std::unique_ptr<stream_executor::ActivateContext> Activate() const {
    return stream_->parent()->Activate();
  }

 private:
  stream_executor::Stream* const stream_;
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_GPU_STREAM_H_
