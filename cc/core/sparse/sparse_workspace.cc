#include "cc/core/sparse/sparse_workspace.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace condacc {

Status HostSparseWorkspace::Copy(const void* from, size_t num_bytes, void* to) {
  constexpr size_t kMinParallel = size_t{1} << 20;  // Bytes.
  constexpr size_t kChunk = size_t{256} << 10;
  const auto copy = [from, to](size_t begin, size_t end) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                end - begin);
  };
  if (num_bytes >= kMinParallel) {
    // The first touch of fresh memory is what takes long, and several threads share it.
    parallel_for()(num_bytes, kChunk, copy);
  } else if (num_bytes > 0) {  // If it is 0, the pointers may be null.
    copy(0, num_bytes);
  }
  return Status();
}

Status HostSparseWorkspace::Widen(const int32_t* from, size_t size, int64_t* to) {
  std::copy_n(from, size, to);
  return Status();
}

Status KeepIndices(SparseWorkspace& workspace, SparseGradient* gradient, Buffer* indices) {
  if (gradient->owns_indices && !gradient->indices_are_int32) {
    *indices = std::move(gradient->indices);
    return Status();
  }
  const Shape& shape = gradient->shapes.indices;
  const Status status = workspace.Allocate(ElementType::kInt64, shape, indices);
  if (!status.ok()) return status;
  const auto size = static_cast<size_t>(shape.dim(0));
  const void* const from = gradient->indices.data();
  auto* const to = static_cast<int64_t*>(indices->data());
  return gradient->indices_are_int32 ? workspace.Widen(static_cast<const int32_t*>(from), size, to)
                                     : workspace.Copy(from, size * sizeof(int64_t), to);
}

Status KeepValues(SparseWorkspace& workspace, ElementType type, SparseGradient* gradient,
                  Buffer* values) {
  if (gradient->owns_values) {
    *values = std::move(gradient->values);
    return Status();
  }
  const Shape& shape = gradient->shapes.values;
  if (!*values) {
    const Status status = workspace.Allocate(type, shape, values);
    if (!status.ok()) return status;
  }
  const auto num_elements = static_cast<size_t>(shape.num_elements());
  return workspace.Copy(gradient->values.data(), num_elements * SizeOf(type), values->data());
}

}  // namespace condacc
