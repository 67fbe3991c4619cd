#include "cc/core/sparse/sparse_accumulator.h"

#include "cc/core/accumulator/accumulator_impl.h"

namespace condacc {

template class Accumulator<SparseSum<HostRows>>;
template class Accumulator<SparseSum<DeviceRows>>;

}  // namespace condacc
