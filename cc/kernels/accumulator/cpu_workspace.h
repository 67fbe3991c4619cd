// The memory and threads that accumulators on a CPU work with.
#ifndef CONDACC_KERNELS_ACCUMULATOR_CPU_WORKSPACE_H_
#define CONDACC_KERNELS_ACCUMULATOR_CPU_WORKSPACE_H_

#include <cstddef>

#include "cc/core/base/parallel_for.h"
#include "cc/core/dense/host_workspace.h"
#include "cc/kernels/base/settings.h"
#include "cc/kernels/base/tf_conversions.h"
#include "cc/memory/heap_trim.h"
#include "cc/memory/page_pool.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace condacc {

// Gives the core the memory and threads of an op. Only the methods that allocate require that the
// op has not ended.
class CpuWorkspace : public HostWorkspace {
 public:
  explicit CpuWorkspace(tensorflow::OpKernelContext* ctx)
      : ctx_(ctx), threads_(DeviceThreads(ctx)) {}
  // The freed bytes are reported here and not in NoteFreed(), because starting the thread that
  // trims takes time, and takes may be waiting for the fold.
  ~CpuWorkspace() override {
    // What the pool keeps counts as held too, and must not make folds start earlier.
    PagePool::Global().TrimTo(HostHoldBudget().num_left());
    if (freed_bytes_ > 0) NoteFreedHeap(freed_bytes_);
  }
  CpuWorkspace(const CpuWorkspace&) = delete;
  CpuWorkspace& operator=(const CpuWorkspace&) = delete;

  Status Allocate(ElementType type, const Shape& shape, Buffer* buffer) override {
    return AllocateHostBuffer(ctx_, type, shape, buffer);
  }
  Status AllocateInner(ElementType type, const Shape& shape, Buffer* buffer) override {
    return AllocateInnerBuffer(ctx_, type, shape, buffer);
  }
  void NoteFreed(size_t num_bytes) override { freed_bytes_ += num_bytes; }
  const ParallelFor& parallel_for() const override { return threads_; }

 private:
  tensorflow::OpKernelContext* const ctx_;
  const ParallelFor threads_;
  size_t freed_bytes_ = 0;  // Bytes that folds have freed.
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_ACCUMULATOR_CPU_WORKSPACE_H_
