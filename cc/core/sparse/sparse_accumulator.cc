#include "cc/core/sparse/sparse_accumulator.h"

#include "cc/core/accumulator/accumulator_impl.h"
#include "cc/core/accumulator/accumulator_rounds.h"
#include "cc/core/accumulator/accumulator_serving.h"

namespace condacc {

template class Accumulator<SparseSum<HostMerger>>;
template class Accumulator<SparseSum<DeviceMerger>>;

}  // namespace condacc
