// The memory and the stream that accumulators on a GPU work with.
#ifndef CONDACC_KERNELS_ACCUMULATOR_GPU_WORKSPACE_H_
#define CONDACC_KERNELS_ACCUMULATOR_GPU_WORKSPACE_H_

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "cc/core/base/mutex.h"
#include "cc/core/sparse/device_merge.h"
#include "cc/gpu/dense_launch.h"
#include "cc/gpu/device_memory.h"
#include "cc/gpu/sparse_merge.h"
#include "cc/kernels/base/gpu_stream.h"
#include "cc/kernels/base/tf_conversions.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace condacc {

// Gives the core the memory and the stream of an op. Only Allocate() requires that the op has not
// ended, and only Sort() and CopyNow() wait for the stream.
class GpuWorkspace : public DeviceWorkspace {
 public:
  explicit GpuWorkspace(tensorflow::OpKernelContext* ctx) : ctx_(ctx), stream_(ctx) {}

  Status Allocate(ElementType type, const Shape& shape, Buffer* buffer) override {
    return AllocateBuffer(ctx_, type, shape, buffer);
  }
  void Add(const DenseAddArgs& args) override {
    const auto active = stream_.Activate();
    Status status;
    // A fold, which calls this, must not throw. The text of an error may need memory.
    try {
      status = QueueDenseAdd(args, stream_.handle());
    } catch (const std::bad_alloc&) {
      status = Status(StatusCode::kInternal, "Out of memory");
    }
    if (status.ok()) return;
    MutexLock lock(&mu_);
    failure_ = std::move(status);
  }
  Status TakeFailure() noexcept override {
    MutexLock lock(&mu_);
    return std::exchange(failure_, Status());
  }
  Status Clear(void* to, size_t num_bytes) override {
    const auto active = stream_.Activate();
    return QueueZeros(to, num_bytes, stream_.handle());
  }
  Status Copy(const void* from, size_t num_bytes, void* to) override {
    const auto active = stream_.Activate();
    return QueueCopy(from, num_bytes, to, stream_.handle());
  }
  Status CopyNow(const void* from, size_t num_bytes, void* to) override {
    const auto active = stream_.Activate();
    return condacc::CopyNow(from, num_bytes, to, stream_.handle());
  }
  Status Widen(const int32_t* from, size_t size, int64_t* to) override {
    const auto active = stream_.Activate();
    return QueueWiden(from, size, to, stream_.handle());
  }
  Status SizeOfMemory(const DeviceMergeArgs& args, size_t* num_bytes) override {
    const auto active = stream_.Activate();
    return SizeOfMergeMemory(args, num_bytes);
  }
  Status Sort(const DeviceMergeArgs& args, DeviceMergeReport* report) override {
    const auto active = stream_.Activate();
    return SortRows(args, stream_.handle(), report);
  }
  Status Write(const DeviceMergeArgs& args, const DeviceMergeOutput& output) override {
    const auto active = stream_.Activate();
    return QueueWrite(args, output, stream_.handle());
  }

 private:
  tensorflow::OpKernelContext* const ctx_;
  const GpuStream stream_;
  Mutex mu_;
  Status failure_ CONDACC_GUARDED_BY(mu_);
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_ACCUMULATOR_GPU_WORKSPACE_H_
