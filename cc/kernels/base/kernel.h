// Kernels that do not wait.
#ifndef CONDACC_KERNELS_BASE_KERNEL_H_
#define CONDACC_KERNELS_BASE_KERNEL_H_

#include "absl/status/status.h"
#include "cc/kernels/base/errors.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace condacc {

// A kernel whose subclass implements Run(). TensorFlow's executor does not survive an exception, so
// every kernel of this library derives from this class or from AsyncKernel. In both, memory that
// anything refuses between the entry to the kernel and its return, be it in this library or in a
// function of TensorFlow, is an error of the op.
class Kernel : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  bool IsExpensive() override { return false; }
  void Compute(tensorflow::OpKernelContext* ctx) final {
    OP_REQUIRES_OK(ctx, OrOutOfMemory([&] { return Run(ctx); }));
  }

 private:
  // Computes the op. If this throws std::bad_alloc, everything must be as before.
  virtual absl::Status Run(tensorflow::OpKernelContext* ctx) = 0;
};

// The attributes of an op that has none.
struct NoAttributes {
  absl::Status Read(tensorflow::OpKernelConstruction*) { return absl::OkStatus(); }
};

// An op that calls the function `kRun`, which reads the inputs and sets the outputs.
// Attributes::Read() reads the op's attributes. `kIsExpensive` tells TensorFlow whether the op may
// take long, so that it does not run it in a thread that others need.
template <auto kRun, bool kIsExpensive = false>
class FunctionOp;

template <class Attributes,
          absl::Status (*kRun)(const Attributes& attributes, tensorflow::OpKernelContext* ctx),
          bool kIsExpensive>
class FunctionOp<kRun, kIsExpensive> : public Kernel {
 public:
  explicit FunctionOp(tensorflow::OpKernelConstruction* ctx) : Kernel(ctx) {
    OP_REQUIRES_OK(ctx, attributes_.Read(ctx));
  }
  bool IsExpensive() override { return kIsExpensive; }

 private:
  absl::Status Run(tensorflow::OpKernelContext* ctx) final { return kRun(attributes_, ctx); }

  Attributes attributes_;
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_BASE_KERNEL_H_
