#include "cc/core/sparse/sparse_workspace.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "cc/core/sparse/sparse_checks.h"

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

Status KeepIndices(const Shape& expected, int num_bits, SparseWorkspace& workspace,
                   SparseGradient* gradient, KeptGradient* kept) {
  const Shape& shape = gradient->shapes.indices;
  const auto size = static_cast<size_t>(shape.dim(0));
  if (size >> num_bits > 0) {
    return Status(StatusCode::kInvalidArgument,
                  "Expected fewer than 2**" + std::to_string(num_bits) +
                      " rows in a gradient, got " + std::to_string(size));
  }
  if (gradient->owns_indices && !gradient->indices_are_int32) {
    kept->indices = std::move(gradient->indices);
  } else {
    Status status = workspace.Allocate(ElementType::kInt64, shape, &kept->indices);
    if (!status.ok()) return status;
    const void* const from = gradient->indices.data();
    auto* const to = static_cast<int64_t*>(kept->indices.data());
    status = gradient->indices_are_int32
                 ? workspace.Widen(static_cast<const int32_t*>(from), size, to)
                 : workspace.Copy(from, size * sizeof(int64_t), to);
    if (!status.ok()) return status;
  }
  kept->index_bound = IndexBound(gradient->shapes, expected);
  kept->index_span.data = static_cast<const int64_t*>(kept->indices.data());
  kept->index_span.size = size;
  return Status();
}

Status KeepValues(ElementType type, SparseWorkspace& workspace, KeptGradient kept,
                  SparseGradient* gradient) {
  const Shape& shape = gradient->shapes.values;
  if (gradient->owns_values) {
    kept.values = std::move(gradient->values);
  } else {
    Status status;
    if (!kept.values) status = workspace.Allocate(type, shape, &kept.values);
    const size_t num_bytes = static_cast<size_t>(shape.num_elements()) * SizeOf(type);
    if (status.ok())
      status = workspace.Copy(gradient->values.data(), num_bytes, kept.values.data());
    if (!status.ok()) return status;
  }
  kept.values_shape = shape;
  gradient->kept = std::move(kept);
  return Status();
}

}  // namespace condacc
