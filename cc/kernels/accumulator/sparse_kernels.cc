// Kernels of the sparse accumulator.
#include "cc/kernels/accumulator/apply_take_ops.h"
#include "cc/kernels/accumulator/device_policy.h"
#include "cc/kernels/accumulator/sparse_traits.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace condacc {
namespace {

using tensorflow::DEVICE_CPU;

using CpuOps = AccumulatorKernels<SparseTraits<CpuPolicy>>;
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseAccumulator").Device(DEVICE_CPU), CpuOps::Handle);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseApply").Device(DEVICE_CPU), CpuOps::Apply);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseTake").Device(DEVICE_CPU), CpuOps::Take);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseTryTake").Device(DEVICE_CPU), CpuOps::TryTake);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseApplyContribution").Device(DEVICE_CPU),
                        CpuOps::ApplyContribution);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseTakeRound").Device(DEVICE_CPU), CpuOps::TakeRound);

#if defined(CONDACC_CUDA)

using tensorflow::DEVICE_GPU;

// All inputs and outputs but the indices and the values are in host memory.
using GpuOps = AccumulatorKernels<SparseTraits<GpuPolicy>>;
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseAccumulator").Device(DEVICE_GPU).HostMemory("handle"),
                        GpuOps::Handle);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseApply")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("local_step")
                            .HostMemory("shape")
                            .HostMemory("accepted"),
                        GpuOps::Apply);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseTake")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("num_required")
                            .HostMemory("shape"),
                        GpuOps::Take);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseTryTake")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("num_required")
                            .HostMemory("taken")
                            .HostMemory("shape"),
                        GpuOps::TryTake);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseApplyContribution")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("local_step")
                            .HostMemory("grad_shape")
                            .HostMemory("contributor")
                            .HostMemory("outcome"),
                        GpuOps::ApplyContribution);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseTakeRound")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("global_step")
                            .HostMemory("num_required")
                            .HostMemory("taken")
                            .HostMemory("shape"),
                        GpuOps::TakeRound);

#endif

}  // namespace
}  // namespace condacc
