// Checks of sparse gradients. A sparse gradient consists of some rows of a dense tensor and their
// indices.
#ifndef CONDACC_CORE_SPARSE_SPARSE_CHECKS_H_
#define CONDACC_CORE_SPARSE_SPARSE_CHECKS_H_

#include <cstddef>
#include <cstdint>

#include "cc/core/accumulator/gradient.h"
#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"

namespace condacc {

// Checks the shapes of a gradient's parts against each other, against `expected` and against
// `accumulated`. `expected` is the shape that the accumulator was constructed with, and gives the
// first dimensions of the dense tensor. `accumulated` is the shape of the values accumulated so
// far, or null if there are none; all dimensions but the first must be equal. Does not read the
// indices. Errors are InvalidArgument.
Status CheckSparseShapes(const Gradient& gradient, const Shape& expected, const Shape* accumulated);

// Returns the number of rows of the dense tensor, or -1 if neither the constructor's shape nor the
// gradient gives it. All indices must be lower.
int64_t IndexBound(const Gradient& gradient, const Shape& expected);

// Returns InvalidArgument unless the indices are valid, ascending and unique, and the weights of
// the rows from 0 to `total_weight`.
Status CheckSavedRows(const int64_t* indices, const double* weights, size_t size,
                      int64_t index_bound, double total_weight);

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_SPARSE_CHECKS_H_
