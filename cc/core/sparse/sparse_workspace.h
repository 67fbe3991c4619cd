// What a call into a sparse accumulator may work with.
#ifndef CONDACC_CORE_SPARSE_SPARSE_WORKSPACE_H_
#define CONDACC_CORE_SPARSE_SPARSE_WORKSPACE_H_

#include <cstddef>
#include <cstdint>

#include "cc/core/base/block.h"
#include "cc/core/base/element_type.h"
#include "cc/core/base/parallel_for.h"
#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"
#include "cc/core/sparse/sparse_parts.h"

namespace condacc {

// Memory where the gradients lie, and what moves it about.
class SparseWorkspace {
 public:
  virtual ~SparseWorkspace() = default;
  virtual Status Allocate(ElementType type, const Shape& shape, Block* block) = 0;
  virtual Status Copy(const void* from, size_t num_bytes, void* to) = 0;
  virtual Status Widen(const int32_t* from, size_t size, int64_t* to) = 0;
  // Records that a fold has freed gradients of so many bytes. Must return at once: takes may be
  // waiting for the fold. By default nothing is recorded: a device's allocator keeps what is freed,
  // and uses it for all its ops.
  virtual void NoteFreed(size_t /*num_bytes*/) {}
};

// Memory that the CPU reads, and threads.
class HostSparseWorkspace : public SparseWorkspace {
 public:
  // For what nobody else will see: sums that are merged before the take, and what merging works
  // with. It is these blocks that are discarded piece by piece.
  virtual Status AllocateInner(ElementType type, const Shape& shape, Block* block) = 0;
  virtual const ParallelFor& parallel_for() const = 0;

  Status Copy(const void* from, size_t num_bytes, void* to) final;
  Status Widen(const int32_t* from, size_t size, int64_t* to) final;
};

// Moves the gradient's indices to `indices`, as int64, in memory that may be kept.
Status KeepIndices(SparseWorkspace& workspace, SparseGradient* gradient, Block* indices);

// Moves the gradient's values to `values`, in memory that may be kept. If they have to be copied
// and `values` is not empty, it is where they are copied to.
Status KeepValues(SparseWorkspace& workspace, ElementType type, SparseGradient* gradient,
                  Block* values);

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_SPARSE_WORKSPACE_H_
