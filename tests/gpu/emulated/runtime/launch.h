// A launch of a kernel.
#ifndef CONDACC_TESTS_GPU_EMULATED_RUNTIME_LAUNCH_H_
#define CONDACC_TESTS_GPU_EMULATED_RUNTIME_LAUNCH_H_

#include <cstdint>
#include <vector>

#include "tests/gpu/emulated/runtime/thread.h"

namespace condacc {
namespace emulated {

inline constexpr uint32_t kMaxSharedBytes = 48 << 10;

struct Extent {
  uint32_t x;
  uint32_t y;
  uint32_t z;
  uint64_t size() const { return uint64_t{1} * x * y * z; }
};

struct Launch {
  const Kernel* kernel;
  Extent grid;
  Extent block;
  std::vector<uint8_t> parameters;

  // Returns whether the device would accept the launch.
  bool IsValid(size_t dynamic_shared_bytes) const;

  // Runs all blocks, one after the other.
  void Run() const;
};

}  // namespace emulated
}  // namespace condacc

#endif  // CONDACC_TESTS_GPU_EMULATED_RUNTIME_LAUNCH_H_
