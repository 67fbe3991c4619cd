// Ops that send several gradients to another process as one tensor.
#include <vector>

#include "absl/status/status.h"
#include "cc/ops/base/shape_functions.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"
#include "tensorflow/core/framework/tensor_shape.h"

namespace condacc {
namespace {

using tensorflow::PartialTensorShape;
using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

REGISTER_OP("Condacc>GradientsPack")
    .Input("gradients: dtypes")
    .Output("bundle: uint8")
    .Attr("dtypes: list(numbertype) >= 1")
    .Attr("shapes: list(shape) >= 1")
    .Attr("names: list(string) >= 1")
    .SetShapeFn(VectorOutput)
    .Doc(R"(
Writes the bytes of several gradients one after another into one tensor.

gradients: Tensors of the shapes `shapes`.
bundle: Their bytes: [n] uint8.
dtypes: Their data types.
shapes: Their shapes, which must be fully defined.
names: The names of their variables, for the error.

InvalidArgument if a gradient has another shape, if there are more or fewer shapes or names than
gradients, or if a shape is not fully defined.
)");

REGISTER_OP("Condacc>GradientsUnpack")
    .Input("bundle: uint8")
    .Output("gradients: dtypes")
    .Attr("dtypes: list(numbertype) >= 1")
    .Attr("shapes: list(shape) >= 1")
    .SetShapeFn([](InferenceContext* c) {
      std::vector<PartialTensorShape> shapes;
      TF_RETURN_IF_ERROR(c->GetAttr("shapes", &shapes));
      for (int i = 0; i < c->num_outputs() && i < static_cast<int>(shapes.size()); ++i) {
        ShapeHandle shape;
        TF_RETURN_IF_ERROR(
            c->MakeShapeFromPartialTensorShape(shapes[static_cast<size_t>(i)], &shape));
        c->set_output(i, shape);
      }
      return absl::OkStatus();
    })
    .Doc(R"(
Restores the gradients that Condacc>GradientsPack has packed.

bundle: Their bytes: [n] uint8.
gradients: Tensors of the shapes `shapes`.
dtypes: Their data types.
shapes: Their shapes, which must be fully defined.

InvalidArgument if the bundle is not exactly as long as the gradients, if there are more or fewer
shapes than dtypes, or if a shape is not fully defined.
)");

}  // namespace
}  // namespace condacc
