// Kernels that let several gradients travel to another process as one tensor.
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"

namespace condacc {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::PartialTensorShape;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// Input: gradients. Output: packed.
class PackOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    size_t size = 0;
    for (int i = 0; i < ctx->num_inputs(); ++i) size += ctx->input(i).tensor_data().size();
    Tensor* packed = nullptr;
    OP_REQUIRES_OK(ctx,
                   ctx->allocate_output(0, TensorShape({static_cast<int64_t>(size)}), &packed));
    uint8_t* to = packed->flat<uint8_t>().data();
    for (int i = 0; i < ctx->num_inputs(); ++i) {
      const auto bytes = ctx->input(i).tensor_data();
      if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
      to += bytes.size();
    }
  }
  bool IsExpensive() override { return false; }
};

// Input: packed. Output: gradients.
class UnpackOp : public OpKernel {
 public:
  explicit UnpackOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    std::vector<PartialTensorShape> shapes;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("shapes", &shapes));
    OP_REQUIRES(ctx, static_cast<int>(shapes.size()) == ctx->num_outputs(),
                absl::InvalidArgumentError(absl::StrCat("Expected as many shapes as dtypes, got ",
                                                        shapes.size(), " shapes and ",
                                                        ctx->num_outputs(), " dtypes")));
    for (int i = 0; i < ctx->num_outputs(); ++i) {
      TensorShape& shape = shapes_.emplace_back();
      OP_REQUIRES(
          ctx, shapes[static_cast<size_t>(i)].AsTensorShape(&shape),
          absl::InvalidArgumentError(absl::StrCat("Expected shapes to be fully defined, got ",
                                                  shapes[static_cast<size_t>(i)].DebugString())));
      size_ += shape.num_elements() * tensorflow::DataTypeSize(ctx->output_type(i));
    }
  }

  void Compute(OpKernelContext* ctx) override {
    const auto bytes = ctx->input(0).tensor_data();
    OP_REQUIRES(ctx, static_cast<int64_t>(bytes.size()) == size_,
                absl::InvalidArgumentError(absl::StrCat("Expected packed gradients of ", size_,
                                                        " bytes, got ", bytes.size())));
    const char* from = bytes.data();
    for (int i = 0; i < ctx->num_outputs(); ++i) {
      Tensor* gradient = nullptr;
      OP_REQUIRES_OK(ctx, ctx->allocate_output(i, shapes_[static_cast<size_t>(i)], &gradient));
      const auto to = gradient->tensor_data();
      if (!to.empty()) std::memcpy(const_cast<char*>(to.data()), from, to.size());
      from += to.size();
    }
  }
  bool IsExpensive() override { return false; }

 private:
  std::vector<TensorShape> shapes_;
  int64_t size_ = 0;  // In bytes.
};

REGISTER_KERNEL_BUILDER(Name("Condacc>GradientsPack").Device(DEVICE_CPU), PackOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>GradientsUnpack").Device(DEVICE_CPU), UnpackOp);

}  // namespace
}  // namespace condacc
