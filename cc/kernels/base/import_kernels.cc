// The kernel of the op that names the package to import.
#include "absl/status/status.h"
#include "cc/kernels/base/kernel.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace condacc {
namespace {

class ImportOp : public Kernel {
 public:
  using Kernel::Kernel;

 private:
  absl::Status Run(tensorflow::OpKernelContext*) override { return absl::OkStatus(); }
};

// One kernel serves devices of every type.
REGISTER_KERNEL_BUILDER(Name("Condacc>Import_tf_condacc_first").Device(tensorflow::DEVICE_DEFAULT),
                        ImportOp);

}  // namespace
}  // namespace condacc
