// The memory and the threads that dense accumulators on a CPU work with.
#ifndef CONDACC_KERNELS_ACCUMULATOR_CPU_DENSE_WORKSPACE_H_
#define CONDACC_KERNELS_ACCUMULATOR_CPU_DENSE_WORKSPACE_H_

#include <cstddef>
#include <cstring>

#include "cc/core/base/parallel_for.h"
#include "cc/core/dense/dense_gradient.h"
#include "cc/core/dense/dense_math.h"
#include "cc/kernels/base/tf_conversions.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace condacc {

// Lends the core the memory and the threads of an op. Only Allocate() requires that the op has not
// ended.
class CpuDenseWorkspace : public DenseWorkspace {
 public:
  explicit CpuDenseWorkspace(tensorflow::OpKernelContext* ctx)
      : ctx_(ctx), threads_(DeviceThreads(ctx)) {}

  Status Allocate(ElementType type, const Shape& shape, Buffer* buffer) override {
    return AllocateBuffer(ctx_, type, shape, buffer);
  }
  void Add(const DenseAddArgs& args) override { AddDense(args, threads_); }
  // Fills memory with zeros.
  Status Clear(void* to, size_t num_bytes) {
    if (num_bytes > 0) std::memset(to, 0, num_bytes);
    return Status();
  }

 private:
  tensorflow::OpKernelContext* const ctx_;
  const ParallelFor threads_;
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_ACCUMULATOR_CPU_DENSE_WORKSPACE_H_
