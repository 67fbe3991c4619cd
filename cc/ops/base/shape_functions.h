// Attributes and shape functions that the ops of several kinds of accumulator share.
#ifndef CONDACC_OPS_BASE_SHAPE_FUNCTIONS_H_
#define CONDACC_OPS_BASE_SHAPE_FUNCTIONS_H_

#include "absl/status/status.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace condacc {

inline constexpr char kDtype[] =
    "dtype: {half, bfloat16, float, double, complex64, complex128, int32, int64}";

// The shape function of an op that makes an accumulator: outputs a scalar handle that carries the
// shape and the dtype of the gradients.
absl::Status HandleShape(tensorflow::shape_inference::InferenceContext* c);

// Returns the shape of the gradients of the accumulator that input 0 is a handle of.
tensorflow::shape_inference::ShapeHandle GradientShape(
    tensorflow::shape_inference::InferenceContext* c);

// Checks that input 1, a step or a number of gradients, is a scalar.
absl::Status ScalarArgument(tensorflow::shape_inference::InferenceContext* c);

// Checks that input `index` is a scalar.
absl::Status ScalarInput(tensorflow::shape_inference::InferenceContext* c, int index);

// The shape function of an op whose inputs and outputs are all scalars.
absl::Status ScalarsShape(tensorflow::shape_inference::InferenceContext* c);

// The shape functions of an op whose output is a vector of any length, and of one without outputs
// whose input 1 is a vector.
absl::Status VectorOutput(tensorflow::shape_inference::InferenceContext* c);
absl::Status VectorArgument(tensorflow::shape_inference::InferenceContext* c);

// The shape functions of applies. Input 1, a step, must be a scalar. So must each input after the
// gradient: a contributor or a weight. A dense gradient is one input, a sparse one is three. Output
// 0, which tells what happened to the gradient, is a scalar.
absl::Status DenseApplyShape(tensorflow::shape_inference::InferenceContext* c);
absl::Status SparseApplyShape(tensorflow::shape_inference::InferenceContext* c);

// The shape functions of takes, whose inputs but the handle are scalars. Scalars may come before
// the last output, the value, or before the last three, which are indices [n], values of any rank,
// and shape [rank]. The accumulator's shape does not give the rank of these values, but only their
// first dimensions.
absl::Status DenseTakeShape(tensorflow::shape_inference::InferenceContext* c);
absl::Status SparseTakeShape(tensorflow::shape_inference::InferenceContext* c);

}  // namespace condacc

#endif  // CONDACC_OPS_BASE_SHAPE_FUNCTIONS_H_
