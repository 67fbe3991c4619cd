#include "cc/core/dense/dense_accumulator.h"

#include "cc/core/accumulator/accumulator_impl.h"

namespace condacc {

template class Accumulator<DenseSum>;

}  // namespace condacc
