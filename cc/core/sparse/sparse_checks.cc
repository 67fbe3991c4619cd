#include "cc/core/sparse/sparse_checks.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

namespace condacc {
namespace {

Status Invalid(const std::string& message) { return Status(StatusCode::kInvalidArgument, message); }

// Returns the error "Shape mismatch: expected WHAT to be A, got B" for the first dimension of
// `got`, from dimension `first` on, that differs from the expected one.
Status CheckDims(const Shape& expected, const Shape& got, int first, const std::string& what) {
  for (int i = first; i < expected.rank(); ++i) {
    if (expected.dim(i) == Shape::kUnknownDim || expected.dim(i) == got.dim(i)) continue;
    return Invalid("Shape mismatch: expected " + what + " " + std::to_string(i) + " to be " +
                   std::to_string(expected.dim(i)) + ", got " + std::to_string(got.dim(i)));
  }
  return Status();
}

// Returns whether the dimensions of a row multiply to more than 2**40, where 0 counts as 1. The
// number of elements of many such rows could not be represented.
bool IsTooWide(const Shape& values) {
  constexpr int64_t kMaxWidth = int64_t{1} << 40;
  int64_t width = 1;
  for (int i = 1; i < values.rank(); ++i) {
    const int64_t dim = std::max<int64_t>(values.dim(i), 1);
    if (dim > kMaxWidth / width) return true;
    width *= dim;
  }
  return false;
}

Status RankMismatch(const std::string& what, int expected, int got) {
  return Invalid("Shape mismatch: expected " + what + " " + std::to_string(expected) + ", got " +
                 std::to_string(got));
}

// Checks the gradient's dense shape against the constructor's. The values are not compared with it:
// only its first dimension is used later, as the bound of the indices.
Status CheckDense(const Shape& dense, const Shape& expected) {
  if (expected.rank() > dense.rank()) {
    return RankMismatch("shape rank at least", expected.rank(), dense.rank());
  }
  return CheckDims(expected, dense, 0, "shape dim");
}

}  // namespace

Status CheckSparseShapes(const Gradient& gradient, const Shape& expected,
                         const Shape* accumulated) {
  const Shape& values = gradient.shape;
  if (gradient.indices_shape.rank() != 1) {
    return Invalid("Input indices should be vector but received shape: " +
                   gradient.indices_shape.ToString());
  }
  if (values.rank() < 1) return Invalid("Values cannot be 0-dimensional.");
  if (gradient.indices_shape.dim(0) != values.dim(0)) {
    return Invalid("Expected " + std::to_string(gradient.indices_shape.dim(0)) +
                   " non-empty input values, got " + std::to_string(values.dim(0)));
  }
  if (IsTooWide(values)) {
    return Invalid("Shape mismatch: expected rows of at most 2**40 elements, got values of shape " +
                   values.ToString());
  }
  if (gradient.dense_shape.has_value()) {
    const Status dense = CheckDense(*gradient.dense_shape, expected);
    if (!dense.ok()) return dense;
  }
  if (accumulated != nullptr) {
    if (accumulated->rank() != values.rank()) {
      return RankMismatch("values rank", accumulated->rank(), values.rank());
    }
    return CheckDims(*accumulated, values, 1, "values dim");
  }
  if (values.rank() < expected.rank()) {
    return RankMismatch("values rank at least", expected.rank(), values.rank());
  }
  return CheckDims(expected, values, 1, "values dim");
}

int64_t IndexBound(const Gradient& gradient, const Shape& expected) {
  if (expected.rank() >= 1 && expected.dim(0) != Shape::kUnknownDim) return expected.dim(0);
  const std::optional<Shape>& dense = gradient.dense_shape;
  return dense.has_value() && dense->rank() >= 1 ? std::max<int64_t>(dense->dim(0), -1) : -1;
}

Status CheckSavedRows(const int64_t* indices, const double* weights, size_t size,
                      int64_t index_bound, double total_weight) {
  IndexSpan span{indices, size};
  Status status = CheckIndices(index_bound, &span);
  if (!status.ok()) return status;
  if (!span.is_ascending) {
    return Status(StatusCode::kInvalidArgument, "The saved rows are not in ascending order");
  }
  const auto fits = [&](double weight) { return weight >= 0 && weight <= total_weight; };
  if (std::all_of(weights, weights + size, fits)) return status;
  return Status(StatusCode::kInvalidArgument,
                "Expected weights of saved rows from 0 to that of all gradients, " +
                    std::to_string(total_weight));
}

}  // namespace condacc
