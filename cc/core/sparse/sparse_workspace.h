// The memory and threads that a call into a sparse accumulator works with.
#ifndef CONDACC_CORE_SPARSE_SPARSE_WORKSPACE_H_
#define CONDACC_CORE_SPARSE_SPARSE_WORKSPACE_H_

#include <cstddef>
#include <cstdint>

#include "cc/core/base/buffer.h"
#include "cc/core/base/element_type.h"
#include "cc/core/base/parallel_for.h"
#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"
#include "cc/core/sparse/sparse_gradient.h"

namespace condacc {

// Allocates and copies memory where the gradients lie. Allocate() returns ResourceExhausted if
// memory is refused.
class SparseWorkspace {
 public:
  virtual ~SparseWorkspace() = default;
  virtual Status Allocate(ElementType type, const Shape& shape, Buffer* buffer) = 0;
  virtual Status Copy(const void* from, size_t num_bytes, void* to) = 0;
  // Copies `size` integers and converts them to int64.
  virtual Status Widen(const int32_t* from, size_t size, int64_t* to) = 0;
  // Records that a fold has freed gradients of `num_bytes` bytes. Must return at once, because
  // takes may be waiting for the fold. By default, nothing is recorded: a device's allocator keeps
  // what is freed, and uses it for all ops of the device.
  virtual void NoteFreed(size_t /*num_bytes*/) {}
};

// Works with host memory and with threads of the CPU.
class HostSparseWorkspace : public SparseWorkspace {
 public:
  // Allocates memory that is not output by an op: the sums of merged rows, and the entries that a
  // merge sorts. Such buffers are freed piece by piece (Buffer::DiscardFirst()).
  virtual Status AllocateInner(ElementType type, const Shape& shape, Buffer* buffer) = 0;
  virtual const ParallelFor& parallel_for() const = 0;

  Status Copy(const void* from, size_t num_bytes, void* to) final;
  Status Widen(const int32_t* from, size_t size, int64_t* to) final;
};

// Moves the gradient's indices to `kept`, as int64, in memory that may be kept, and sets their
// bound. For `expected`, see IndexBound(). Returns InvalidArgument if there are 2**num_bits or
// more.
Status KeepIndices(const Shape& expected, int num_bits, SparseWorkspace& workspace,
                   SparseGradient* gradient, KeptGradient* kept);

// Moves the gradient's values to `kept`, in memory that may be kept, and sets gradient->kept to it.
// Values that have to be copied are copied to the buffer that kept.values holds, or to a new one if
// that is empty.
Status KeepValues(ElementType type, SparseWorkspace& workspace, KeptGradient kept,
                  SparseGradient* gradient);

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_SPARSE_WORKSPACE_H_
