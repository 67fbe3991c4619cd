// Sums of float16 and bfloat16 gradients, which are added in float32.
#ifndef CONDACC_CORE_MATH_NARROW_MATH_H_
#define CONDACC_CORE_MATH_NARROW_MATH_H_

#include "cc/core/math/dense_math.h"

namespace condacc {

// See DenseAdderOf().
DenseAdder Float16Adder();
DenseAdder BFloat16Adder();

}  // namespace condacc

#endif  // CONDACC_CORE_MATH_NARROW_MATH_H_
