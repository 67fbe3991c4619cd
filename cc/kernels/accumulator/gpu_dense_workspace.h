// The memory and the stream that dense accumulators on a GPU work with.
#ifndef CONDACC_KERNELS_ACCUMULATOR_GPU_DENSE_WORKSPACE_H_
#define CONDACC_KERNELS_ACCUMULATOR_GPU_DENSE_WORKSPACE_H_

#include <cstddef>
#include <utility>

#include "cc/core/base/mutex.h"
#include "cc/core/dense/dense_gradient.h"
#include "cc/gpu/dense_launch.h"
#include "cc/gpu/device_memory.h"
#include "cc/kernels/base/gpu_stream.h"
#include "cc/kernels/base/tf_conversions.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace condacc {

// Lends the core the memory and the stream of an op. Only Allocate() requires that the op has not
// ended. Sums are queued, and nothing waits for them.
class GpuDenseWorkspace : public DenseWorkspace {
 public:
  explicit GpuDenseWorkspace(tensorflow::OpKernelContext* ctx) : ctx_(ctx), stream_(ctx) {}

  Status Allocate(ElementType type, const Shape& shape, Buffer* buffer) override {
    return AllocateBuffer(ctx_, type, shape, buffer);
  }
  void Add(const DenseAddArgs& args) override {
    const auto active = stream_.Activate();
    Status status = QueueDenseAdd(args, stream_.handle());
    if (status.ok()) return;
    MutexLock lock(&mu_);
    failure_ = std::move(status);
  }
  Status failure() const override {
    MutexLock lock(&mu_);
    return failure_;
  }
  // Queues the filling of memory with zeros.
  Status Clear(void* to, size_t num_bytes) {
    const auto active = stream_.Activate();
    return QueueZeros(to, num_bytes, stream_.handle());
  }

 private:
  tensorflow::OpKernelContext* const ctx_;
  const GpuStream stream_;
  mutable Mutex mu_;
  Status failure_ CONDACC_GUARDED_BY(mu_);
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_ACCUMULATOR_GPU_DENSE_WORKSPACE_H_
