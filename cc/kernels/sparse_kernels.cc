// Kernels of the sparse accumulator.
#define EIGEN_USE_THREADS
#include "cc/kernels/apply_take_ops.h"
#include "cc/kernels/core_resource.h"
#include "cc/kernels/sparse_traits.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace condacc {
namespace {

using tensorflow::DEVICE_CPU;

using SparseAccumulatorOp = CoreHandleOp<SparseTraits>;
using SparseApplyOp = ApplyOp<SparseTraits>;
using SparseTakeOp = TakeOp<SparseTraits, IfTooFew::kWait>;
using SparseTryTakeOp = TakeOp<SparseTraits, IfTooFew::kTell>;

REGISTER_KERNEL_BUILDER(Name("Condacc>SparseAccumulator").Device(DEVICE_CPU), SparseAccumulatorOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseApply").Device(DEVICE_CPU), SparseApplyOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseTake").Device(DEVICE_CPU), SparseTakeOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseTryTake").Device(DEVICE_CPU), SparseTryTakeOp);

}  // namespace
}  // namespace condacc
