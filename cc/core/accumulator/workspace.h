// The memory and threads that a call into an accumulator works with.
#ifndef CONDACC_CORE_ACCUMULATOR_WORKSPACE_H_
#define CONDACC_CORE_ACCUMULATOR_WORKSPACE_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "cc/core/base/buffer.h"
#include "cc/core/base/element_type.h"
#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"
#include "cc/core/math/dense_math.h"

namespace condacc {

// Works with the memory of the device that holds the gradients: HostWorkspace or DeviceWorkspace. A
// device may queue the work and return before it is done.
class Workspace {
 public:
  virtual ~Workspace() = default;
  // Allocates a buffer for a tensor. Returns ResourceExhausted if memory is refused.
  virtual Status Allocate(ElementType type, const Shape& shape, Buffer* buffer) = 0;
  // Does what AddDense() does.
  virtual void Add(const DenseAddArgs& args) = 0;
  // Returns the error of an Add() that has failed since the last call, if there was one. The output
  // of that Add() is not valid.
  virtual Status TakeFailure() noexcept { return Status(); }
  // Fills memory with zeros.
  virtual Status Clear(void* to, size_t num_bytes) = 0;
  virtual Status Copy(const void* from, size_t num_bytes, void* to) = 0;
  // Copies from or to memory of the host, and waits until the copy is made.
  virtual Status CopyNow(const void* from, size_t num_bytes, void* to) {
    return Copy(from, num_bytes, to);
  }
  // Copies `size` integers and converts them to int64.
  virtual Status Widen(const int32_t* from, size_t size, int64_t* to) = 0;
  // Records that a fold has freed gradients of `num_bytes` bytes. Must return at once, because
  // takes may be waiting for the fold. Does nothing by default, because a device's allocator keeps
  // freed memory and reuses it for all ops of the device.
  virtual void NoteFreed(size_t /*num_bytes*/) {}
};

using WorkspaceUser = std::function<void(Workspace& workspace)>;
// Starts a thread that calls `work` with a workspace of its own. Returns false if no thread can be
// started. May throw std::bad_alloc.
using ThreadStarter = std::function<bool(const WorkspaceUser& work)>;

}  // namespace condacc

#endif  // CONDACC_CORE_ACCUMULATOR_WORKSPACE_H_
