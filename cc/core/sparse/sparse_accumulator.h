// The accumulators of sparse gradients in host memory and in device memory.
#ifndef CONDACC_CORE_SPARSE_SPARSE_ACCUMULATOR_H_
#define CONDACC_CORE_SPARSE_SPARSE_ACCUMULATOR_H_

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/sparse/sparse_sum.h"

namespace condacc {

extern template class Accumulator<SparseSum<HostRows>>;
extern template class Accumulator<SparseSum<DeviceRows>>;

using SparseAccumulator = Accumulator<SparseSum<HostRows>>;
using DeviceSparseAccumulator = Accumulator<SparseSum<DeviceRows>>;

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_SPARSE_ACCUMULATOR_H_
