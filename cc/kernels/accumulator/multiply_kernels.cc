// The kernel that multiplies the gradients of a micro-batch by its weight.
#include "absl/status/status.h"
#include "cc/kernels/base/inputs.h"
#include "cc/kernels/base/kernel.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"

namespace condacc {
namespace {

using tensorflow::OpKernelContext;
using tensorflow::Tensor;

// Multiplies tensors by a real factor. Inputs: the tensors, and the factor. A factor of 0 makes
// zeros, even of infinities.
template <typename T>
class MultiplyOp : public Kernel {
 public:
  using Kernel::Kernel;
  bool IsExpensive() override { return OpKernel::IsExpensive(); }

 private:
  absl::Status Run(OpKernelContext* ctx) override {
    double factor = 0;
    const int last = ctx->num_inputs() - 1;
    TF_RETURN_IF_ERROR(ReadScalar(ctx, last, "factor", &factor));
    for (int i = 0; i < last; ++i) {
      Tensor* product = nullptr;
      TF_RETURN_IF_ERROR(
          ctx->forward_input_or_allocate_output({i}, i, ctx->input(i).shape(), &product));
      Multiply(ctx, ctx->input(i), factor, product);
    }
    return absl::OkStatus();
  }

  static void Multiply(OpKernelContext* ctx, const Tensor& values, double factor, Tensor* product) {
    const T* const in = values.flat<T>().data();
    T* const out = product->flat<T>().data();
    using Real = typename Eigen::NumTraits<T>::Real;
    const auto by = static_cast<Real>(factor);
    const auto multiply = [in, out, by](Eigen::Index begin, Eigen::Index end) {
      if (by == Real(0)) {
        for (Eigen::Index i = begin; i < end; ++i) out[i] = T(0);
      } else {
        for (Eigen::Index i = begin; i < end; ++i) out[i] = in[i] * by;
      }
    };
    const Eigen::TensorOpCost cost(sizeof(T), sizeof(T), /*compute_cycles=*/1);
    ctx->eigen_cpu_device().parallelFor(values.NumElements(), cost, multiply);
  }
};

#define REGISTER(T)                                                                       \
  REGISTER_KERNEL_BUILDER(                                                                \
      Name("Condacc>Multiply").Device(tensorflow::DEVICE_CPU).TypeConstraint<T>("dtype"), \
      MultiplyOp<T>)
REGISTER(Eigen::half);
REGISTER(tensorflow::bfloat16);
REGISTER(float);
REGISTER(double);
REGISTER(tensorflow::complex64);
REGISTER(tensorflow::complex128);
#undef REGISTER

}  // namespace
}  // namespace condacc
