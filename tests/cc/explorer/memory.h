// Memory and workspaces of the explorer.
#ifndef CONDACC_TESTS_EXPLORER_MEMORY_H_
#define CONDACC_TESTS_EXPLORER_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "cc/core/accumulator/host_workspace.h"
#include "cc/core/base/buffer.h"
#include "cc/core/base/parallel_for.h"
#include "cc/core/base/status.h"
#include "cc/core/sparse/device_merge.h"

namespace condacc::explorer {

// Returns memory that is overwritten when it is freed or discarded.
Buffer NewBuffer(size_t num_bytes);
// Returns a buffer that refers to memory of the caller.
Buffer BorrowedBuffer(void* data, size_t num_bytes);
// Returns the number of buffers that exist, and sets the count to 0.
int64_t TakeNumBuffers();

// What workspaces do wrong.
struct WorkspaceFaults {
  int refused_percent = 0;  // Of the allocations.
  int slow_percent = 0;     // Of the sums, which end only when all other fibers wait.
  int failed_percent = 0;   // Of the sorts and merges of a device, which fails.
};
void SetWorkspaceFaults(const WorkspaceFaults& faults);

// Detects that a workspace is used after its end, or under a lock.
class UseChecker {
 public:
  ~UseChecker() { is_alive_ = false; }
  void Check() const;

 private:
  volatile bool is_alive_ = true;
};

// Each allocation, and each part of a sum, is a scheduling point. Tensors have at most kMaxElements
// elements in memory, so that large ones cost nothing.
class ExplorerWorkspace : public HostWorkspace {
 public:
  ExplorerWorkspace();
  Buffer AllocateInner(size_t num_bytes) override;
  const ParallelFor& parallel_for() const override;

 protected:
  UseChecker use_;

 private:
  ParallelFor parallel_for_;
};

class ExplorerDenseWorkspace final : public ExplorerWorkspace {
 public:
  static constexpr int64_t kMaxElements = 3;
  static constexpr int64_t kLargeSize = 1 << 16;  // Elements of large gradients.

  Status Allocate(ElementType type, const Shape& shape, Buffer* buffer) override;
  Status Copy(const void* from, size_t num_bytes, void* to) override;
  void Add(const DenseAddArgs& args) override;
};

class ExplorerSparseWorkspace final : public ExplorerWorkspace {
 public:
  Status Allocate(ElementType type, const Shape& shape, Buffer* buffer) override;
};

// The host in place of a device. Merges values of 8 bytes.
class ExplorerDeviceWorkspace final : public DeviceWorkspace {
 public:
  Status Allocate(ElementType type, const Shape& shape, Buffer* buffer) override;
  void Add(const DenseAddArgs& args) override;
  Status Clear(void* to, size_t num_bytes) override;
  Status Copy(const void* from, size_t num_bytes, void* to) override;
  Status CopyNow(const void* from, size_t num_bytes, void* to) override;
  Status Widen(const int32_t* from, size_t size, int64_t* to) override;
  Status SizeOfMemory(const DeviceMergeArgs& args, size_t* num_bytes) override;
  Status Sort(const DeviceMergeArgs& args, DeviceMergeReport* report) override;
  Status Write(const DeviceMergeArgs& args, const DeviceMergeOutput& output) override;

 private:
  // Returns Internal at times.
  Status Begin(const char* what) const;

  UseChecker use_;
};

}  // namespace condacc::explorer

#endif  // CONDACC_TESTS_EXPLORER_MEMORY_H_
