// Kernels of the sparse accumulator.
#include "cc/kernels/accumulator/apply_take_ops.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace condacc {
namespace {

using tensorflow::DEVICE_CPU;

using Ops = AccumulatorOps<kSparse>;
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseAccumulator").Device(DEVICE_CPU), Ops::Handle);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseApply").Device(DEVICE_CPU), Ops::Apply);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseTake").Device(DEVICE_CPU), Ops::Take);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseTryTake").Device(DEVICE_CPU), Ops::TryTake);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseApplyContribution").Device(DEVICE_CPU),
                        Ops::ApplyContribution);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseTakeRound").Device(DEVICE_CPU), Ops::TakeRound);

#if defined(CONDACC_CUDA)

using tensorflow::DEVICE_GPU;

// All inputs and outputs but the indices and the values are in host memory.
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseAccumulator").Device(DEVICE_GPU).HostMemory("handle"),
                        Ops::Handle);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseApply")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("local_step")
                            .HostMemory("shape")
                            .HostMemory("accepted"),
                        Ops::Apply);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseTake")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("num_required")
                            .HostMemory("shape"),
                        Ops::Take);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseTryTake")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("num_required")
                            .HostMemory("taken")
                            .HostMemory("shape"),
                        Ops::TryTake);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseApplyContribution")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("local_step")
                            .HostMemory("grad_shape")
                            .HostMemory("contributor")
                            .HostMemory("outcome"),
                        Ops::ApplyContribution);
REGISTER_KERNEL_BUILDER(Name("Condacc>SparseTakeRound")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("global_step")
                            .HostMemory("num_required")
                            .HostMemory("taken")
                            .HostMemory("shape"),
                        Ops::TakeRound);

#endif

}  // namespace
}  // namespace condacc
