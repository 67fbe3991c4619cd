// Kernels of the dense accumulator.
#define EIGEN_USE_THREADS
#include "cc/kernels/apply_take_ops.h"
#include "cc/kernels/core_resource.h"
#include "cc/kernels/dense_traits.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace condacc {
namespace {

using tensorflow::DEVICE_CPU;

using DenseAccumulatorOp = CoreHandleOp<DenseTraits>;
using DenseApplyOp = ApplyOp<DenseTraits>;
using DenseTakeOp = TakeOp<DenseTraits, IfTooFew::kWait>;
using DenseTryTakeOp = TakeOp<DenseTraits, IfTooFew::kTell>;

REGISTER_KERNEL_BUILDER(Name("Condacc>DenseAccumulator").Device(DEVICE_CPU), DenseAccumulatorOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseApply").Device(DEVICE_CPU), DenseApplyOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseTake").Device(DEVICE_CPU), DenseTakeOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseTryTake").Device(DEVICE_CPU), DenseTryTakeOp);

}  // namespace
}  // namespace condacc
