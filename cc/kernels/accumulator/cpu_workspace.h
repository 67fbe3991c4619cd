// The memory and threads that accumulators on a CPU work with.
#ifndef CONDACC_KERNELS_ACCUMULATOR_CPU_WORKSPACE_H_
#define CONDACC_KERNELS_ACCUMULATOR_CPU_WORKSPACE_H_

#include <cstddef>
#include <optional>

#include "cc/core/accumulator/host_workspace.h"
#include "cc/core/accumulator/workspace.h"
#include "cc/core/base/parallel_for.h"
#include "cc/core/base/thread_team.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/lib/core/threadpool.h"

namespace condacc {

// Gives the core the memory and threads of a device.
class CpuWorkspace : public HostWorkspace {
 public:
  explicit CpuWorkspace(tensorflow::OpKernelContext* ctx);
  // Does not require that the device exists. `pool` are its threads.
  CpuWorkspace(tensorflow::Allocator* allocator, tensorflow::thread::ThreadPool* pool);
  ~CpuWorkspace() override;
  CpuWorkspace(const CpuWorkspace&) = delete;
  CpuWorkspace& operator=(const CpuWorkspace&) = delete;

  // Large buffers have huge pages, which are used again.
  Status Allocate(ElementType type, const Shape& shape, Buffer* buffer) override;
  Buffer AllocateInner(size_t num_bytes) override;
  void NoteFreed(size_t num_bytes) override { freed_bytes_ += num_bytes; }
  const ParallelFor& parallel_for() const override { return parallel_for_; }

 private:
  // Allocates a tensor with the allocator. Returns an empty buffer if memory is refused.
  Buffer NewTensor(ElementType type, const tensorflow::TensorShape& shape) const;

  tensorflow::Allocator* const allocator_;
  std::optional<ThreadTeam> team_;  // Empty before the first loop.
  const ParallelFor parallel_for_;
  size_t freed_bytes_ = 0;  // Bytes that folds have freed.
};

// Returns what starts threads that work for the kernel's device. It and they may outlive the
// device. Null if the device's pool of threads ends with it.
ThreadStarter CpuThreadStarter(tensorflow::OpKernelConstruction* ctx);

}  // namespace condacc

#endif  // CONDACC_KERNELS_ACCUMULATOR_CPU_WORKSPACE_H_
