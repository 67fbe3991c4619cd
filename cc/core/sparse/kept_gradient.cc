#include "cc/core/sparse/kept_gradient.h"

#include <string>
#include <utility>

#include "cc/core/sparse/sparse_checks.h"

namespace condacc {

Status KeepIndices(const Shape& expected, int num_bits, Workspace& workspace, Gradient* gradient) {
  const Shape& shape = gradient->indices_shape;
  const auto size = static_cast<size_t>(shape.dim(0));
  if (size >> num_bits > 0) {
    return Status(StatusCode::kInvalidArgument,
                  "Expected fewer than 2**" + std::to_string(num_bits) +
                      " rows in a gradient, got " + std::to_string(size));
  }
  if (!gradient->owns_indices || gradient->indices_are_int32) {
    Buffer kept;
    Status status = workspace.Allocate(ElementType::kInt64, shape, &kept);
    if (!status.ok()) return status;
    const void* const from = gradient->indices.data();
    auto* const to = static_cast<int64_t*>(kept.data());
    status = gradient->indices_are_int32
                 ? workspace.Widen(static_cast<const int32_t*>(from), size, to)
                 : workspace.Copy(from, size * sizeof(int64_t), to);
    if (!status.ok()) return status;
    gradient->indices = std::move(kept);
  }
  gradient->index_bound = IndexBound(*gradient, expected);
  gradient->index_span.data = static_cast<const int64_t*>(gradient->indices.data());
  gradient->index_span.size = size;
  return Status();
}

Status KeepValues(ElementType type, Workspace& workspace, Buffer memory, Gradient* gradient) {
  if (!gradient->owned) {
    Status status;
    if (!memory) status = workspace.Allocate(type, gradient->shape, &memory);
    const size_t num_bytes = static_cast<size_t>(gradient->shape.num_elements()) * SizeOf(type);
    if (status.ok()) status = workspace.Copy(gradient->values.data(), num_bytes, memory.data());
    if (!status.ok()) return status;
    gradient->values = std::move(memory);
  }
  gradient->is_kept = true;
  return Status();
}

}  // namespace condacc
