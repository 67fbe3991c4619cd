// Registers kernels some of whose inputs and outputs are in host memory.
#ifndef CONDACC_KERNELS_BASE_HOST_MEMORY_H_
#define CONDACC_KERNELS_BASE_HOST_MEMORY_H_

#include <initializer_list>

#include "tensorflow/core/framework/kernel_def_builder.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"

namespace condacc {

// Registers a kernel for the devices of a type, as REGISTER_KERNEL_BUILDER does, which takes a line
// for each input and output in host memory. Returns true, so that a constant can be initialized
// with it. TensorFlow prefers kernels of higher priority if it chooses the device.
//
// Example:
//   [[maybe_unused]] const bool kHasApply = RegisterKernel<ApplyOp>(
//       "Condacc>DenseApply", tensorflow::DEVICE_GPU, {"handle", "local_step", "accepted"});
template <class Op>
bool RegisterKernel(const char* op, const char* device,
                    std::initializer_list<const char*> in_host_memory, int priority = 0) {
  tensorflow::KernelDefBuilder builder(op);
  builder.Device(device).Priority(priority);
  for (const char* argument : in_host_memory) builder.HostMemory(argument);
  const auto make = [](tensorflow::OpKernelConstruction* ctx) -> tensorflow::OpKernel* {
    return new Op(ctx);
  };
  tensorflow::kernel_factory::OpKernelRegistrar(builder.Build(), op, make);
  return true;
}

// The same for CPUs and, in builds with CUDA, for GPUs.
template <class Op>
bool RegisterOnCpuAndGpu(const char* op, std::initializer_list<const char*> in_host_memory,
                         [[maybe_unused]] int gpu_priority = 0) {
#if defined(CONDACC_CUDA)
  RegisterKernel<Op>(op, tensorflow::DEVICE_GPU, in_host_memory, gpu_priority);
#endif
  return RegisterKernel<Op>(op, tensorflow::DEVICE_CPU, in_host_memory);
}

}  // namespace condacc

#endif  // CONDACC_KERNELS_BASE_HOST_MEMORY_H_
