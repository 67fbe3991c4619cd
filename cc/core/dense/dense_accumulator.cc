#include "cc/core/dense/dense_accumulator.h"

#include "cc/core/accumulator/accumulator_impl.h"
#include "cc/core/accumulator/accumulator_rounds.h"
#include "cc/core/accumulator/accumulator_serving.h"

namespace condacc {

template class Accumulator<DenseSum>;

}  // namespace condacc
