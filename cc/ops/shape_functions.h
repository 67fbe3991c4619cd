// What the ops of all kinds of accumulator share.
#ifndef CONDACC_OPS_SHAPE_FUNCTIONS_H_
#define CONDACC_OPS_SHAPE_FUNCTIONS_H_

#include "absl/status/status.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace condacc {

inline constexpr char kDtype[] =
    "dtype: {half, bfloat16, float, double, complex64, complex128, int32, int64}";

// Of an op that makes an accumulator: a scalar handle that tells the gradients' shape and dtype.
absl::Status HandleShape(tensorflow::shape_inference::InferenceContext* c);

// The shape of the gradients of the accumulator that input 0 is a handle of.
tensorflow::shape_inference::ShapeHandle GradientShape(
    tensorflow::shape_inference::InferenceContext* c);

// Input 1, a step or a number of gradients, is a scalar.
absl::Status ScalarArgument(tensorflow::shape_inference::InferenceContext* c);

// Input `index` is a scalar.
absl::Status ScalarInput(tensorflow::shape_inference::InferenceContext* c, int index);

// ScalarArgument, and output 0 is one too: whether a gradient was accepted.
absl::Status ApplyShape(tensorflow::shape_inference::InferenceContext* c);

// ApplyShape, and the last input, the contributor, is a scalar.
absl::Status ContributionShape(tensorflow::shape_inference::InferenceContext* c);

// Outputs of a sparse take, from `first` on: indices [n], values of any rank, and shape [rank]. The
// accumulator's shape does not tell the rank of the values: it gives their first dimensions only.
absl::Status RowsShape(tensorflow::shape_inference::InferenceContext* c, int first);

}  // namespace condacc

#endif  // CONDACC_OPS_SHAPE_FUNCTIONS_H_
