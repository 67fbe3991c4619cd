#include "tests/gpu/emulated/runtime/launch.h"

#include <cstddef>
#include <cstring>

#include "tests/gpu/emulated/runtime/access.h"
#include "tests/gpu/emulated/runtime/block.h"
#include "tests/gpu/emulated/runtime/device_memory.h"

// These symbols of the linker tell the addresses of the program's own variables, among them those
// of kernels.
extern "C" char __data_start, _end;

namespace condacc {
namespace emulated {
namespace {

alignas(128) uint8_t shared_memory[kMaxSharedBytes];

void SetPlace(uint64_t number, const Extent& extent, uint32_t* place) {
  place[0] = static_cast<uint32_t>(number % extent.x);
  place[1] = static_cast<uint32_t>(number / extent.x % extent.y);
  place[2] = static_cast<uint32_t>(number / extent.x / extent.y);
}

void SetExtent(const Extent& extent, uint32_t* sizes) {
  sizes[0] = extent.x;
  sizes[1] = extent.y;
  sizes[2] = extent.z;
}

}  // namespace

bool Launch::IsValid(size_t dynamic_shared_bytes) const {
  return block.size() > 0 && block.size() <= kMaxThreads && grid.size() > 0 &&
         grid.x <= 0x7fffffff && grid.y <= 0xffff && grid.z <= 0xffff &&
         dynamic_shared_bytes + kernel->shared_bytes <= kMaxSharedBytes;
}

void Launch::Run() const {
  DeviceMemory::Get().BeginLaunch();
  static Block fibres;
  std::vector<Thread> threads(block.size());
  // A block of a kernel that synchronizes may wait for those before it, as CUB's do.
  for (uint64_t number = 0; number < grid.size(); ++number) {
    std::memset(shared_memory, 0xcd, kernel->shared_bytes);
    for (uint32_t i = 0; i < block.size(); ++i) {
      Thread& thread = threads[i];
      SetPlace(i, block, thread.tid);
      SetPlace(number, grid, thread.ctaid);
      SetExtent(block, thread.ntid);
      SetExtent(grid, thread.nctaid);
      thread.lane = i % kWarpSize;
      thread.warp = i / kWarpSize;
      thread.shared = shared_memory;
      thread.parameters = parameters.data();
      thread.num_parameter_bytes = static_cast<uint32_t>(parameters.size());
      thread.kernel = kernel;
      thread.number = static_cast<uint32_t>(number * block.size()) + i;
      thread.block = &fibres;
      if (!kernel->synchronizes) kernel->run(&thread);
    }
    if (kernel->synchronizes) fibres.Run(&threads);
  }
}

void CheckOwnMemory(const Thread* c, uint64_t address, uint64_t num_bytes) {
  constexpr uint64_t kMaxLocalBytes = 256 << 10;
  const auto variables_size = static_cast<uint64_t>(&_end - &__data_start);
  if (IsWithin(address, num_bytes, c->shared, c->kernel->shared_bytes) ||
      IsWithin(address, num_bytes, c->parameters, c->num_parameter_bytes) ||
      IsWithin(address, num_bytes, &__data_start, variables_size) ||
      IsWithin(address, num_bytes, __builtin_frame_address(0), kMaxLocalBytes)) {
    return;
  }
  Fail(c, "access to what is not device memory");
}

}  // namespace emulated
}  // namespace condacc
