// Kernels of the dense accumulator.
#include "cc/kernels/accumulator/apply_take_ops.h"
#include "cc/kernels/accumulator/dense_traits.h"
#include "cc/kernels/accumulator/device_policy.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace condacc {
namespace {

using tensorflow::DEVICE_CPU;

using CpuOps = AccumulatorKernels<DenseTraits<CpuPolicy>>;
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseAccumulator").Device(DEVICE_CPU), CpuOps::Handle);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseApply").Device(DEVICE_CPU), CpuOps::Apply);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseTake").Device(DEVICE_CPU), CpuOps::Take);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseTryTake").Device(DEVICE_CPU), CpuOps::TryTake);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseApplyContribution").Device(DEVICE_CPU),
                        CpuOps::ApplyContribution);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseTakeRound").Device(DEVICE_CPU), CpuOps::TakeRound);

#if defined(CONDACC_CUDA)

using tensorflow::DEVICE_GPU;

// All inputs and outputs but the gradients themselves are in host memory.
using GpuOps = AccumulatorKernels<DenseTraits<GpuPolicy>>;
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseAccumulator").Device(DEVICE_GPU).HostMemory("handle"),
                        GpuOps::Handle);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseApply")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("local_step")
                            .HostMemory("accepted"),
                        GpuOps::Apply);
REGISTER_KERNEL_BUILDER(
    Name("Condacc>DenseTake").Device(DEVICE_GPU).HostMemory("handle").HostMemory("num_required"),
    GpuOps::Take);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseTryTake")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("num_required")
                            .HostMemory("taken"),
                        GpuOps::TryTake);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseApplyContribution")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("local_step")
                            .HostMemory("contributor")
                            .HostMemory("outcome"),
                        GpuOps::ApplyContribution);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseTakeRound")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("global_step")
                            .HostMemory("num_required")
                            .HostMemory("taken"),
                        GpuOps::TakeRound);

#endif

}  // namespace
}  // namespace condacc
