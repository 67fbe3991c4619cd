// Accesses to memory, each of which is checked.
#ifndef CONDACC_TESTS_GPU_EMULATED_RUNTIME_ACCESS_H_
#define CONDACC_TESTS_GPU_EMULATED_RUNTIME_ACCESS_H_

#include <cstdint>
#include <cstring>

#include "tests/gpu/emulated/runtime/device_memory.h"
#include "tests/gpu/emulated/runtime/thread.h"

namespace condacc {
namespace emulated {

enum Space { kGeneric, kGlobal, kShared, kParameters };

// Addresses in shared memory begin at 0; a generic one is where the memory really is.
inline uint64_t SharedAddress(const Thread* c, uint64_t address) {
  return reinterpret_cast<uint64_t>(c->shared) + static_cast<uint32_t>(address);
}

inline bool IsWithin(uint64_t address, uint64_t num_bytes, const void* begin, uint64_t size) {
  const uint64_t offset = address - reinterpret_cast<uint64_t>(begin);
  return offset <= size && num_bytes <= size - offset;
}

// Fails unless a generic address is in the memory of the thread, if it is not the device's.
void CheckOwnMemory(const Thread* c, uint64_t address, uint64_t num_bytes);

// Returns the address of an access of kBytes, unless the check fails. It is called in thousands of
// places, which takes a compiler long if it is inlined.
template <int kBytes, Access kAccess, Space kSpace>
__attribute__((noinline)) uint64_t Checked(const Thread* c, uint64_t address) {
  // Parameters and shared memory are aligned to their offsets here, too.
  if (address % kBytes != 0) Fail(c, "misaligned access");
  if (kSpace == kShared) {
    if (!IsWithin(address, kBytes, c->shared, c->kernel->shared_bytes)) {
      Fail(c, "access beyond shared memory");
    }
  } else if (kSpace == kParameters) {
    if (!IsWithin(address, kBytes, c->parameters, c->num_parameter_bytes)) {
      Fail(c, "access beyond the parameters");
    }
  } else if (kSpace == kGlobal || kSpace == kGeneric) {
    if (!DeviceMemory::Get().Check<kBytes, kAccess>(c, address)) {
      CheckOwnMemory(c, address, kBytes);
    }
  }
  return address;
}

template <typename T>
inline T Load(uint64_t address) {
  T value;
  std::memcpy(&value, reinterpret_cast<const void*>(address), sizeof(T));
  return value;
}

template <typename T>
inline void Store(uint64_t address, T value) {
  std::memcpy(reinterpret_cast<void*>(address), &value, sizeof(T));
}

}  // namespace emulated
}  // namespace condacc

#endif  // CONDACC_TESTS_GPU_EMULATED_RUNTIME_ACCESS_H_
