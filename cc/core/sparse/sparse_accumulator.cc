#include "cc/core/sparse/sparse_accumulator.h"

#include "cc/core/accumulator/accumulator_impl.h"
#include "cc/core/accumulator/accumulator_rounds.h"
#include "cc/core/accumulator/accumulator_serving.h"

namespace condacc {

template class Accumulator<SparseSum<HostRows>>;
template class Accumulator<SparseSum<DeviceRows>>;

}  // namespace condacc
