// Ops that sum the gradients of one step's towers.
#include "cc/ops/base/shape_functions.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace condacc {
namespace {

using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

REGISTER_OP("Condacc>TowerDenseSum")
    .Output("handle: resource")
    .Attr(kDtype)
    .Attr("shape: shape")
    .Attr("reduction_type: {'MEAN', 'SUM'} = 'SUM'")
    .SetIsStateful()
    .SetShapeFn(HandleShape)
    .Doc(R"(
Makes an empty sum for the dense gradients of one step's towers.

The sum lives as long as its handle, which is freed at the end of the step, whether the step
succeeds, fails or is cancelled. Every execution makes another sum, so that steps that run at the
same time, or iterations of a loop, never share one.

handle: The sum: [] resource.
dtype: Data type of the gradients. half and bfloat16 are added in float32 and rounded once, when
  taken.
shape: Shape of the gradients, as far as it is known.
reduction_type: Whether a take outputs the sum or the mean.
)");

REGISTER_OP("Condacc>TowerDenseAdd")
    .Input("handle: resource")
    .Input("gradient: dtype")
    .Attr(kDtype)
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle merged;
      return c->Merge(c->input(1), GradientShape(c), &merged);
    })
    .Doc(R"(
Adds a tower's gradient to a sum, in order of arrival.

gradient: The gradient, of the sum's shape.

InvalidArgument if the dtype or the shape is not the sum's; ResourceExhausted if memory is short.
)");

REGISTER_OP("Condacc>TowerDenseTake")
    .Input("handle: resource")
    .Input("num_required: int32")
    .Output("sum: dtype")
    .Attr(kDtype)
    .SetIsStateful()
    .SetShapeFn(DenseTakeShape)
    .Doc(R"(
Outputs the sum or mean of the gradients of all towers. Never waits: control edges must ensure that
all gradients have been added.

num_required: How many gradients there are: [] int32.
sum: The sum or mean of the gradients, as the reduction_type says.

FailedPrecondition if fewer have been added. InvalidArgument if the dtype is not the sum's.
)");

REGISTER_OP("Condacc>TowerDenseSumAtOnce")
    .Input("gradients: num_gradients * dtype")
    .Output("sum: dtype")
    .Attr(kDtype)
    .Attr("num_gradients: int >= 1")
    .Attr("shape: shape")
    .SetShapeFn([](InferenceContext* c) {
      tensorflow::PartialTensorShape partial;
      ShapeHandle shape;
      TF_RETURN_IF_ERROR(c->GetAttr("shape", &partial));
      TF_RETURN_IF_ERROR(c->MakeShapeFromPartialTensorShape(partial, &shape));
      for (int i = 0; i < c->num_inputs(); ++i) {
        TF_RETURN_IF_ERROR(c->Merge(shape, c->input(i), &shape));
      }
      c->set_output(0, shape);
      return absl::OkStatus();
    })
    .Doc(R"(
Sums the gradients of a few towers, in the order of the inputs, when all of them are there. This op
is for small gradients, for each of which an op would take longer than adding it.

gradients: The gradients, all of one shape. half and bfloat16 are added in float32 and rounded once.
shape: Shape of the gradients, as far as it is known.
sum: The sum of the gradients.

InvalidArgument if a gradient has another shape.
)");

REGISTER_OP("Condacc>TowerSparseSum")
    .Output("handle: resource")
    .Attr(kDtype)
    .Attr("shape: shape")
    .Attr("reduction_type: {'MEAN', 'SUM'} = 'SUM'")
    .SetIsStateful()
    .SetShapeFn(HandleShape)
    .Doc(R"(
Makes an empty sum for the sparse gradients of one step's towers, as Condacc>TowerDenseSum does for
dense ones.

handle: The sum: [] resource.
dtype: Data type of the gradients' values.
shape: Shape of the dense tensor whose rows the gradients contain, as far as it is known.
reduction_type: Whether each row of the result is divided by the number of all gradients (MEAN).
)");

REGISTER_OP("Condacc>TowerSparseAdd")
    .Input("handle: resource")
    .Input("indices: Tindices")
    .Input("values: dtype")
    .Input("shape: int64")
    .Attr(kDtype)
    .Attr("Tindices: {int32, int64} = DT_INT64")
    .SetIsStateful()
    .SetShapeFn(VectorArgument)
    .Doc(R"(
Adds a tower's sparse gradient to a sum.

indices: The index of each row: [n] Tindices. They may be in any order and repeat.
values: The rows: [n, d1, ...] dtype.
shape: The shape of the dense tensor whose rows they are: [rank] int64, or [0] if it is unknown.

InvalidArgument if the parts do not fit each other or the sum, or an index is negative or beyond the
shape; ResourceExhausted if memory is short.
)");

REGISTER_OP("Condacc>TowerSparseTake")
    .Input("handle: resource")
    .Input("num_required: int32")
    .Output("indices: int64")
    .Output("values: dtype")
    .Output("shape: int64")
    .Attr(kDtype)
    .SetIsStateful()
    .SetShapeFn(SparseTakeShape)
    .Doc(R"(
Outputs the sum or mean of the sparse gradients of all towers. Never waits: control edges must
ensure that all gradients have been added.

num_required: How many gradients there are: [] int32.
indices: The indices of the rows that any of the gradients contains, ascending and unique:
  [n] int64.
values: The sum or mean of each row, as the reduction_type says: [n, d1, ...] dtype.
shape: The shape of the dense tensor whose rows they are: [rank] int64. The first dimension is -1 if
  the sum does not know it.

FailedPrecondition if fewer have been added; InvalidArgument if the dtype is not the sum's;
ResourceExhausted if memory is short.
)");

}  // namespace
}  // namespace condacc
