#include "cc/ops/base/shape_functions.h"

#include "tensorflow/core/framework/partial_tensor_shape.h"
#include "tensorflow/core/framework/types.h"

namespace condacc {

using tensorflow::DataType;
using tensorflow::PartialTensorShape;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

namespace {

absl::Status ApplyShape(InferenceContext* c, int num_gradient_inputs) {
  TF_RETURN_IF_ERROR(ScalarArgument(c));
  for (int i = 2 + num_gradient_inputs; i < c->num_inputs(); ++i) {
    TF_RETURN_IF_ERROR(ScalarInput(c, i));
  }
  c->set_output(0, c->Scalar());
  return absl::OkStatus();
}

}  // namespace

absl::Status HandleShape(InferenceContext* c) {
  PartialTensorShape partial;
  DataType dtype;
  ShapeHandle shape;
  TF_RETURN_IF_ERROR(c->GetAttr("shape", &partial));
  TF_RETURN_IF_ERROR(c->GetAttr("dtype", &dtype));
  TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(partial, &shape));
  c->set_output(0, c->Scalar());
  c->set_output_handle_shapes_and_types(0, {{shape, dtype}});
  return absl::OkStatus();
}

ShapeHandle GradientShape(InferenceContext* c) {
  const auto* shapes_and_types = c->input_handle_shapes_and_types(0);
  return shapes_and_types == nullptr || shapes_and_types->empty() ? c->UnknownShape()
                                                                  : (*shapes_and_types)[0].shape;
}

absl::Status ScalarArgument(InferenceContext* c) { return ScalarInput(c, 1); }

absl::Status ScalarInput(InferenceContext* c, int index) {
  ShapeHandle scalar;
  return c->WithRank(c->input(index), 0, &scalar);
}

absl::Status ScalarsShape(InferenceContext* c) {
  for (int i = 0; i < c->num_inputs(); ++i) TF_RETURN_IF_ERROR(ScalarInput(c, i));
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->Scalar());
  return absl::OkStatus();
}

absl::Status VectorOutput(InferenceContext* c) {
  c->set_output(0, c->Vector(InferenceContext::kUnknownDim));
  return absl::OkStatus();
}

absl::Status VectorArgument(InferenceContext* c) {
  ShapeHandle vector;
  return c->WithRank(c->input(1), 1, &vector);
}

absl::Status DenseApplyShape(InferenceContext* c) { return ApplyShape(c, 1); }

absl::Status SparseApplyShape(InferenceContext* c) { return ApplyShape(c, 3); }

absl::Status DenseTakeShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(ScalarArgument(c));
  TF_RETURN_IF_ERROR(ScalarInput(c, c->num_inputs() - 1));
  const int last = c->num_outputs() - 1;
  for (int i = 0; i < last; ++i) c->set_output(i, c->Scalar());
  c->set_output(last, GradientShape(c));
  return absl::OkStatus();
}

absl::Status SparseTakeShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(DenseTakeShape(c));
  const int first = c->num_outputs() - 3;
  c->set_output(first, c->Vector(InferenceContext::kUnknownDim));
  c->set_output(first + 1, c->UnknownShape());
  c->set_output(first + 2, c->Vector(InferenceContext::kUnknownDim));
  return absl::OkStatus();
}

}  // namespace condacc
