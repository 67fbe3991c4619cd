#include "tests/gpu/emulated/runtime/device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "tests/gpu/emulated/runtime/reports.h"

namespace condacc {
namespace emulated {
namespace {

constexpr size_t kGuardBytes = 8192;

void* Map(size_t num_bytes) {
  void* const data = mmap(nullptr, num_bytes + kGuardBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return data == MAP_FAILED ? nullptr : data;
}

[[noreturn]] void End(const char* what) {
  std::fprintf(stderr, "emulated GPU: %s\n", what);
  std::abort();
}

}  // namespace

void DeviceMemory::FreeMemory::operator()(void* data) const { std::free(data); }

DeviceMemory& DeviceMemory::Get() {
  static auto* const memory = new DeviceMemory;
  return *memory;
}

void* DeviceMemory::Allocate(size_t num_bytes) {
  void* const data = Map(num_bytes);
  if (data == nullptr) return nullptr;
  Allocation made{reinterpret_cast<uint64_t>(data), num_bytes, nullptr, nullptr, false, 0};
  made.is_written.reset(static_cast<uint8_t*>(std::calloc(num_bytes, 1)));
  made.writers.reset(static_cast<Writer*>(std::calloc(num_bytes, sizeof(Writer))));
  if (made.is_written == nullptr || made.writers == nullptr) End("out of memory");
  allocations_.emplace(made.begin, std::move(made));
  last_found_ = nullptr;
  return data;
}

void DeviceMemory::Free(void* data) {
  const auto found = allocations_.find(reinterpret_cast<uint64_t>(data));
  if (found == allocations_.end()) End("memory is freed that was not allocated, or twice");
  munmap(data, found->second.size + kGuardBytes);
  allocations_.erase(found);
  last_found_ = nullptr;
}

bool DeviceMemory::Contains(const void* data) const {
  const auto address = reinterpret_cast<uint64_t>(data);
  const auto next = allocations_.upper_bound(address);
  if (next == allocations_.begin()) return false;
  const Allocation& found = std::prev(next)->second;
  return address - found.begin < found.size;
}

DeviceMemory::Allocation* DeviceMemory::Find(uint64_t address) {
  Allocation* found = last_found_;
  if (found == nullptr || address - found->begin >= found->size) {
    const auto next = allocations_.upper_bound(address);
    if (next == allocations_.begin()) return nullptr;
    found = &std::prev(next)->second;
    if (address - found->begin >= found->size) return nullptr;
    last_found_ = found;
  }
  return found;
}

DeviceMemory::Allocation* DeviceMemory::FindRange(const void* data, size_t num_bytes,
                                                  const char* what) {
  const auto address = reinterpret_cast<uint64_t>(data);
  Allocation* const found = Find(address);
  if (found != nullptr && num_bytes > found->size - (address - found->begin)) End(what);
  return found;
}

void DeviceMemory::MarkWritten(Allocation* allocation, uint64_t offset, size_t num_bytes) {
  allocation->is_whole = allocation->is_whole || num_bytes == allocation->size;
  if (!allocation->is_whole) std::memset(allocation->is_written.get() + offset, 1, num_bytes);
}

void DeviceMemory::Copy(void* to, const void* from, size_t num_bytes) {
  if (tracks_) {
    Allocation* const source = FindRange(from, num_bytes, "a copy reads beyond an allocation");
    Allocation* const target = FindRange(to, num_bytes, "a copy writes beyond an allocation");
    const uint64_t offset =
        source == nullptr ? 0 : reinterpret_cast<uint64_t>(from) - source->begin;
    if (source != nullptr && !source->is_whole) {
      const uint8_t* const written = source->is_written.get() + offset;
      if (std::find(written, written + num_bytes, 0) != written + num_bytes) {
        Report("copy of memory that was never written");
      }
    }
    if (target != nullptr) {
      MarkWritten(target, reinterpret_cast<uint64_t>(to) - target->begin, num_bytes);
    }
  }
  std::memcpy(to, from, num_bytes);
}

void DeviceMemory::Fill(void* to, int value, size_t num_bytes) {
  if (tracks_) {
    Allocation* const target = FindRange(to, num_bytes, "memory is filled beyond an allocation");
    if (target == nullptr) End("memory is filled that is not the device's");
    MarkWritten(target, reinterpret_cast<uint64_t>(to) - target->begin, num_bytes);
  }
  std::memset(to, value, num_bytes);
}

void DeviceMemory::NoteAccess(Allocation* allocation, uint64_t offset, int num_bytes, Access access,
                              const Thread* c) {
  uint8_t* const written = allocation->is_written.get() + offset;
  if (access != kWrite && !allocation->is_whole &&
      std::find(written, written + num_bytes, 0) != written + num_bytes) {
    Report("read of memory that was never written, in " + c->kernel->name);
  }
  if (access != kRead) {
    if (!allocation->is_whole) std::memset(written, 1, num_bytes);
    allocation->last_launch = launch_;
  }
  if (c->kernel->synchronizes || access == kAtomic) return;
  Writer* const writers = allocation->writers.get() + offset;
  for (int i = 0; i < num_bytes; ++i) {
    if (writers[i].launch == launch_ && writers[i].thread != c->number) {
      Report(std::string(access == kRead ? "read" : "write") +
             " of what another thread writes, in " + c->kernel->name);
      break;
    }
  }
  if (access == kWrite) std::fill_n(writers, num_bytes, Writer{launch_, c->number});
}

}  // namespace emulated
}  // namespace condacc
