// The kernel of the op that names the package to import.
#include "tensorflow/core/framework/op_kernel.h"

namespace condacc {
namespace {

class ImportOp : public tensorflow::OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(tensorflow::OpKernelContext* ctx) override {}
  bool IsExpensive() override { return false; }
};

// One kernel serves devices of every type.
REGISTER_KERNEL_BUILDER(Name("Condacc>Import_tf_condacc_first").Device(tensorflow::DEVICE_DEFAULT),
                        ImportOp);

}  // namespace
}  // namespace condacc
