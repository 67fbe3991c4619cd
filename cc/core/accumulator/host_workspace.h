// The workspace of gradients in host memory.
#ifndef CONDACC_CORE_ACCUMULATOR_HOST_WORKSPACE_H_
#define CONDACC_CORE_ACCUMULATOR_HOST_WORKSPACE_H_

#include <cstddef>
#include <cstdint>

#include "cc/core/accumulator/workspace.h"
#include "cc/core/base/buffer.h"
#include "cc/core/base/parallel_for.h"
#include "cc/core/base/status.h"

namespace condacc {

// Works with host memory and with threads of the CPU.
class HostWorkspace : public Workspace {
 public:
  // Allocates memory that no op outputs: the sums of merged rows, and the entries that a merge
  // sorts. Returns an empty buffer if it is refused.
  virtual Buffer AllocateInner(size_t num_bytes) = 0;
  virtual const ParallelFor& parallel_for() const = 0;

  void Add(const DenseAddArgs& args) override;
  Status Clear(void* to, size_t num_bytes) final;
  Status Copy(const void* from, size_t num_bytes, void* to) override;
  Status Widen(const int32_t* from, size_t size, int64_t* to) final;
};

}  // namespace condacc

#endif  // CONDACC_CORE_ACCUMULATOR_HOST_WORKSPACE_H_
