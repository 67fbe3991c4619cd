// Kernels that send several gradients to another process as one tensor.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/kernels/base/host_memory.h"
#include "cc/kernels/base/kernel.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/util/overflow.h"

namespace condacc {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::PartialTensorShape;
using tensorflow::Tensor;
using tensorflow::TensorShape;

// The gradients of a bundle: their shapes, and their bytes one after another.
struct Layout {
  std::vector<TensorShape> shapes;
  int64_t num_bytes = 0;

  // Reads the attribute "shapes", which has a shape for each of `dtypes`.
  absl::Status Read(OpKernelConstruction* ctx, tensorflow::DataTypeSlice dtypes) {
    std::vector<PartialTensorShape> attribute;
    TF_RETURN_IF_ERROR(ctx->GetAttr("shapes", &attribute));
    if (attribute.size() != dtypes.size()) {
      return absl::InvalidArgumentError(absl::StrCat("Expected as many shapes as dtypes, got ",
                                                     attribute.size(), " shapes and ",
                                                     dtypes.size(), " dtypes"));
    }
    for (size_t i = 0; i < dtypes.size(); ++i) {
      if (!attribute[i].AsTensorShape(&shapes.emplace_back())) {
        return absl::InvalidArgumentError(
            absl::StrCat("Expected shapes to be fully defined, got ", attribute[i].DebugString()));
      }
      const int64_t size = tensorflow::MultiplyWithoutOverflow(shapes[i].num_elements(),
                                                               tensorflow::DataTypeSize(dtypes[i]));
      num_bytes = size < 0 ? size : tensorflow::AddWithoutOverflow(num_bytes, size);
      if (num_bytes < 0) {
        return absl::InvalidArgumentError(absl::StrCat(
            "Expected gradients of fewer than 2**63 bytes, got ", attribute[i].DebugString()));
      }
    }
    return absl::OkStatus();
  }
};

struct PackAttributes {
  Layout layout;
  std::vector<std::string> names;

  absl::Status Read(OpKernelConstruction* ctx) {
    TF_RETURN_IF_ERROR(layout.Read(ctx, ctx->input_types()));
    TF_RETURN_IF_ERROR(ctx->GetAttr("names", &names));
    if (names.size() == layout.shapes.size()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("Expected as many names as gradients, got ",
                                                   names.size(), " names and ",
                                                   layout.shapes.size(), " gradients"));
  }
};

// Input: gradients. Output: bundle.
absl::Status Pack(const PackAttributes& attributes, OpKernelContext* ctx) {
  for (int i = 0; i < ctx->num_inputs(); ++i) {
    const TensorShape& expected = attributes.layout.shapes[static_cast<size_t>(i)];
    if (ctx->input(i).shape() == expected) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("Shape mismatch: expected ", expected.DebugString(), ", got ",
                     ctx->input(i).shape().DebugString(), " (gradient of '",
                     attributes.names[static_cast<size_t>(i)], "')"));
  }
  Tensor* bundle = nullptr;
  TF_RETURN_IF_ERROR(ctx->allocate_output(0, TensorShape({attributes.layout.num_bytes}), &bundle));
  uint8_t* to = bundle->flat<uint8_t>().data();
  for (int i = 0; i < ctx->num_inputs(); ++i) {
    const auto bytes = ctx->input(i).tensor_data();
    if (!bytes.empty()) std::memcpy(to, bytes.data(), bytes.size());
    to += bytes.size();
  }
  return absl::OkStatus();
}

struct UnpackAttributes {
  Layout layout;

  absl::Status Read(OpKernelConstruction* ctx) { return layout.Read(ctx, ctx->output_types()); }
};

// Input: bundle. Output: gradients.
absl::Status Unpack(const UnpackAttributes& attributes, OpKernelContext* ctx) {
  const Layout& layout = attributes.layout;
  const auto bytes = ctx->input(0).tensor_data();
  if (static_cast<int64_t>(bytes.size()) != layout.num_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("Expected a bundle of ", layout.num_bytes, " bytes, got ", bytes.size()));
  }
  const char* from = bytes.data();
  for (int i = 0; i < ctx->num_outputs(); ++i) {
    Tensor* gradient = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(i, layout.shapes[static_cast<size_t>(i)], &gradient));
    const auto to = gradient->tensor_data();
    if (!to.empty()) std::memcpy(const_cast<char*>(to.data()), from, to.size());
    from += to.size();
  }
  return absl::OkStatus();
}

[[maybe_unused]] const bool kBundles[] = {
    RegisterKernel<FunctionOp<Pack>>("Condacc>GradientsPack", DEVICE_CPU, {}),
    RegisterKernel<FunctionOp<Unpack>>("Condacc>GradientsUnpack", DEVICE_CPU, {}),
};

}  // namespace
}  // namespace condacc
