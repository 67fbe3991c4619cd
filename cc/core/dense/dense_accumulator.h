// The accumulator of dense gradients.
#ifndef CONDACC_CORE_DENSE_DENSE_ACCUMULATOR_H_
#define CONDACC_CORE_DENSE_DENSE_ACCUMULATOR_H_

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/dense/dense_sum.h"

namespace condacc {

extern template class Accumulator<DenseSum>;

using DenseAccumulator = Accumulator<DenseSum>;

}  // namespace condacc

#endif  // CONDACC_CORE_DENSE_DENSE_ACCUMULATOR_H_
