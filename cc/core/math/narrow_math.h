// Sums of float16 and bfloat16 gradients, which are added in float32.
#ifndef CONDACC_CORE_MATH_NARROW_MATH_H_
#define CONDACC_CORE_MATH_NARROW_MATH_H_

#include <cstddef>

#include "cc/core/math/dense_math.h"

namespace condacc {

// Add the elements [begin, end) as described at DenseAddArgs.
void AddFloat16(const DenseAddArgs& args, size_t begin, size_t end);
void AddBFloat16(const DenseAddArgs& args, size_t begin, size_t end);

}  // namespace condacc

#endif  // CONDACC_CORE_MATH_NARROW_MATH_H_
