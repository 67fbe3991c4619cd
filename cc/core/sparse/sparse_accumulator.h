// The accumulators of sparse gradients in host memory and in device memory.
#ifndef CONDACC_CORE_SPARSE_SPARSE_ACCUMULATOR_H_
#define CONDACC_CORE_SPARSE_SPARSE_ACCUMULATOR_H_

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/sparse/sparse_sum.h"

namespace condacc {

extern template class Accumulator<SparseSum<HostMerger>>;
extern template class Accumulator<SparseSum<DeviceMerger>>;

using SparseAccumulator = Accumulator<SparseSum<HostMerger>>;
using DeviceSparseAccumulator = Accumulator<SparseSum<DeviceMerger>>;

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_SPARSE_ACCUMULATOR_H_
