// The memory and the stream that accumulators on a GPU work with.
#ifndef CONDACC_KERNELS_ACCUMULATOR_GPU_WORKSPACE_H_
#define CONDACC_KERNELS_ACCUMULATOR_GPU_WORKSPACE_H_

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "cc/core/base/mutex.h"
#include "cc/core/sparse/device_merge.h"
#include "cc/gpu/dense_launch.h"
#include "cc/gpu/device_memory.h"
#include "cc/gpu/sparse_merge.h"
#include "cc/kernels/base/gpu_stream.h"
#include "cc/kernels/base/tf_conversions.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace condacc {

// Gives the core the memory and the stream of an op. Only Allocate() requires that the op has not
// ended, and only Sort() and CopyNow() wait for the stream.
class GpuWorkspace : public DeviceWorkspace {
 public:
  explicit GpuWorkspace(tensorflow::OpKernelContext* ctx) : ctx_(ctx), stream_(ctx) {}

  Status Allocate(ElementType type, const Shape& shape, Buffer* buffer) override {
    tensorflow::TensorShape tf_shape;
    tensorflow::Tensor tensor;
    absl::Status status = ConvertShape(shape, &tf_shape);
    if (status.ok()) status = ctx_->allocate_temp(DataTypeOf(type), tf_shape, &tensor);
    if (!status.ok()) {
      return Status(StatusCode::kResourceExhausted, std::string(status.message()));
    }
    *buffer = BufferOf(tensor);
    return Status();
  }
  void Add(const DenseAddArgs& args) override {
    Status status = OnDevice([&](cudaStream_t stream) { return QueueDenseAdd(args, stream); });
    if (status.ok()) return;
    MutexLock lock(&mu_);
    failure_ = std::move(status);
  }
  Status TakeFailure() noexcept override {
    MutexLock lock(&mu_);
    return std::exchange(failure_, Status());
  }
  Status Clear(void* to, size_t num_bytes) override {
    return OnDevice([&](cudaStream_t stream) { return QueueZeros(to, num_bytes, stream); });
  }
  Status Copy(const void* from, size_t num_bytes, void* to) override {
    return OnDevice([&](cudaStream_t stream) { return QueueCopy(from, num_bytes, to, stream); });
  }
  Status CopyNow(const void* from, size_t num_bytes, void* to) override {
    return OnDevice(
        [&](cudaStream_t stream) { return condacc::CopyNow(from, num_bytes, to, stream); });
  }
  Status Widen(const int32_t* from, size_t size, int64_t* to) override {
    return OnDevice([&](cudaStream_t stream) { return QueueWiden(from, size, to, stream); });
  }
  Status SizeOfMemory(const DeviceMergeArgs& args, size_t* num_bytes) override {
    return OnDevice([&](cudaStream_t) { return SizeOfMergeMemory(args, num_bytes); });
  }
  Status Sort(const DeviceMergeArgs& args, DeviceMergeReport* report) override {
    return OnDevice([&](cudaStream_t stream) { return SortRows(args, stream, report); });
  }
  Status Write(const DeviceMergeArgs& args, const DeviceMergeOutput& output) override {
    return OnDevice([&](cudaStream_t stream) { return QueueWrite(args, output, stream); });
  }

 private:
  // Calls `queue` with the stream, whose device is the current one of this thread meanwhile. Making
  // it that, and the text of an error, may need memory, but folds and the ends of rounds, which
  // call this, must not throw.
  template <class Queue>
  Status OnDevice(Queue queue) const noexcept {
    try {
      const auto active = stream_.Activate();
      return queue(stream_.handle());
    } catch (const std::bad_alloc&) {
      return Status(StatusCode::kResourceExhausted, "Out of memory");
    }
  }

  tensorflow::OpKernelContext* const ctx_;
  const GpuStream stream_;
  Mutex mu_;
  Status failure_ CONDACC_GUARDED_BY(mu_);
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_ACCUMULATOR_GPU_WORKSPACE_H_
