// The memory of the emulated device, with a record of the writers of each byte.
#ifndef CONDACC_TESTS_GPU_EMULATED_RUNTIME_DEVICE_MEMORY_H_
#define CONDACC_TESTS_GPU_EMULATED_RUNTIME_DEVICE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "tests/gpu/emulated/runtime/thread.h"

namespace condacc {
namespace emulated {

enum Access { kRead, kWrite, kAtomic };

// Allocations of cudaMalloc(), each in pages of its own. It is used by one thread at a time: see
// StreamQueue. If the memory belongs to somebody else, as to TensorFlow, only alignment is checked.
class DeviceMemory {
 public:
  static DeviceMemory& Get();

  // Stops all checks: memory that is allocated elsewhere cannot be checked.
  void StopTracking() { tracks_ = false; }

  void* Allocate(size_t num_bytes);
  void Free(void* data);
  bool Contains(const void* data) const;
  size_t num_allocations() const { return allocations_.size(); }

  // Copies between two places of which each may be the host's. Ends the process if the copy reaches
  // beyond an allocation.
  void Copy(void* to, const void* from, size_t num_bytes);
  void Fill(void* to, int value, size_t num_bytes);

  // Begins a launch. The writes of its threads are not ordered.
  void BeginLaunch() { ++launch_; }

  // Returns whether the address is in an allocation. Fails if the access reaches beyond it. Reports
  // reads of memory that was never written and, in kernels that do not synchronize, accesses to
  // bytes that another thread of the launch has written.
  template <int kBytes, Access kAccess>
  bool Check(const Thread* c, uint64_t address);

 private:
  // The thread that wrote a byte last, and the launch in which it did.
  struct Writer {
    uint32_t launch;
    uint32_t thread;
  };
  struct FreeMemory {
    void operator()(void* data) const;
  };
  struct Allocation {
    uint64_t begin;
    uint64_t size;
    std::unique_ptr<uint8_t, FreeMemory> is_written;
    std::unique_ptr<Writer, FreeMemory> writers;
    bool is_whole;         // All of it was written.
    uint32_t last_launch;  // The last launch that wrote to it.
  };

  Allocation* Find(uint64_t address);
  // Returns null if there is no such allocation. Ends the process if `num_bytes` reach beyond the
  // allocation.
  Allocation* FindRange(const void* data, size_t num_bytes, const char* what);
  static void MarkWritten(Allocation* allocation, uint64_t offset, size_t num_bytes);
  void NoteAccess(Allocation* allocation, uint64_t offset, int num_bytes, Access access,
                  const Thread* c);

  bool tracks_ = true;
  std::map<uint64_t, Allocation> allocations_;
  Allocation* last_found_ = nullptr;
  uint32_t launch_ = 0;
};

template <int kBytes, Access kAccess>
bool DeviceMemory::Check(const Thread* c, uint64_t address) {
  if (!tracks_) return true;
  Allocation* const found = Find(address);
  if (found == nullptr) return false;
  const uint64_t offset = address - found->begin;
  if (kBytes > found->size - offset) Fail(c, "access beyond an allocation");
  // Most reads are from memory that is written as a whole and that the launch does not write.
  const bool is_plain = kAccess == kRead && found->is_whole && found->last_launch != launch_;
  if (!is_plain) NoteAccess(found, offset, kBytes, kAccess, c);
  return true;
}

}  // namespace emulated
}  // namespace condacc

#endif  // CONDACC_TESTS_GPU_EMULATED_RUNTIME_DEVICE_MEMORY_H_
