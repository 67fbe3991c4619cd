// Kernels of the dense accumulator.
#include "cc/kernels/accumulator/apply_take_ops.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace condacc {
namespace {

using tensorflow::DEVICE_CPU;

using Ops = AccumulatorOps<kDense>;
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseAccumulator").Device(DEVICE_CPU), Ops::Handle);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseApply").Device(DEVICE_CPU), Ops::Apply);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseTake").Device(DEVICE_CPU), Ops::Take);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseTryTake").Device(DEVICE_CPU), Ops::TryTake);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseApplyContribution").Device(DEVICE_CPU),
                        Ops::ApplyContribution);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseTakeRound").Device(DEVICE_CPU), Ops::TakeRound);

#if defined(CONDACC_CUDA)

using tensorflow::DEVICE_GPU;

// All inputs and outputs but the gradients themselves are in host memory.
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseAccumulator").Device(DEVICE_GPU).HostMemory("handle"),
                        Ops::Handle);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseApply")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("local_step")
                            .HostMemory("accepted"),
                        Ops::Apply);
REGISTER_KERNEL_BUILDER(
    Name("Condacc>DenseTake").Device(DEVICE_GPU).HostMemory("handle").HostMemory("num_required"),
    Ops::Take);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseTryTake")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("num_required")
                            .HostMemory("taken"),
                        Ops::TryTake);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseApplyContribution")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("local_step")
                            .HostMemory("contributor")
                            .HostMemory("outcome"),
                        Ops::ApplyContribution);
REGISTER_KERNEL_BUILDER(Name("Condacc>DenseTakeRound")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("global_step")
                            .HostMemory("num_required")
                            .HostMemory("taken"),
                        Ops::TakeRound);

#endif

}  // namespace
}  // namespace condacc
