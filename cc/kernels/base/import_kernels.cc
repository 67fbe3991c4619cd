// The kernel of the op that names the package to import.
#include "absl/status/status.h"
#include "cc/kernels/base/host_memory.h"
#include "cc/kernels/base/kernel.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace condacc {
namespace {

absl::Status Import(const NoAttributes&, tensorflow::OpKernelContext*) { return absl::OkStatus(); }

// One kernel serves devices of every type.
[[maybe_unused]] const bool kHasImport = RegisterKernel<FunctionOp<Import>>(
    "Condacc>Import_tf_condacc_first", tensorflow::DEVICE_DEFAULT, {});

}  // namespace
}  // namespace condacc
