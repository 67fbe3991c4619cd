#include "cc/core/accumulator/host_workspace.h"

#include <algorithm>
#include <cstring>

#include "cc/core/math/dense_math.h"

namespace condacc {

void HostWorkspace::Add(const DenseAddArgs& args) { AddDense(args, parallel_for()); }

Status HostWorkspace::Clear(void* to, size_t num_bytes) {
  if (num_bytes > 0) std::memset(to, 0, num_bytes);
  return Status();
}

Status HostWorkspace::Copy(const void* from, size_t num_bytes, void* to) {
  constexpr size_t kMinParallel = size_t{1} << 20;  // Bytes.
  constexpr size_t kChunk = size_t{256} << 10;
  const auto copy = [from, to](size_t begin, size_t end) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                end - begin);
  };
  if (num_bytes >= kMinParallel) {
    // The first touch of fresh memory takes most of the time, and several threads share it.
    parallel_for()(num_bytes, kChunk, copy);
  } else if (num_bytes > 0) {  // If it is 0, the pointers may be null.
    copy(0, num_bytes);
  }
  return Status();
}

Status HostWorkspace::Widen(const int32_t* from, size_t size, int64_t* to) {
  std::copy_n(from, size, to);
  return Status();
}

}  // namespace condacc
