// Ops that sum the gradients of one step's towers.
#include "cc/ops/shape_functions.h"
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
    .Attr("anonymous: bool = true")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .SetIsStateful()
    .SetShapeFn(HandleShape)
    .Doc(R"(
Makes an empty sum for the dense gradients of one step's towers.

It lives as long as its handle, which ends with the step whether that succeeds, fails or is
cancelled. Every execution makes another one, so that steps which run at the same time, or
iterations of a loop, never share one.

dtype: Of the gradients. half and bfloat16 are added in float32 and rounded once, when taken.
shape: Of the gradients, as far as it is known.
reduction_type: Whether a take outputs the sum or the mean.
anonymous: Must be true.
container: Not used.
shared_name: Not used.
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

gradient: Of the sum's shape.

InvalidArgument if the dtype or the shape is not the sum's, ResourceExhausted if memory is short.
)");

REGISTER_OP("Condacc>TowerDenseTake")
    .Input("handle: resource")
    .Input("num_required: int32")
    .Output("sum: dtype")
    .Attr(kDtype)
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      TF_RETURN_IF_ERROR(ScalarArgument(c));
      c->set_output(0, GradientShape(c));
      return absl::OkStatus();
    })
    .Doc(R"(
Outputs what the gradients of all towers come to. Never waits: control edges have to see to it that
all have been added.

num_required: How many gradients there are.
sum: Their sum, or mean, as the reduction_type says.

InvalidArgument if fewer have been added, or the dtype is not the sum's.
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
Sums the gradients of a few towers when all of them are there, in their order. It is for small
ones, of which each would cost more as an op than to add.

gradients: Of one shape. half and bfloat16 are added in float32 and rounded once.
shape: Of the gradients, as far as it is known.
sum: Their sum.

InvalidArgument if a gradient is not of the shape.
)");

REGISTER_OP("Condacc>TowerSparseSum")
    .Output("handle: resource")
    .Attr(kDtype)
    .Attr("shape: shape")
    .Attr("reduction_type: {'MEAN', 'SUM'} = 'SUM'")
    .Attr("anonymous: bool = true")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .SetIsStateful()
    .SetShapeFn(HandleShape)
    .Doc(R"(
Makes an empty sum for the sparse gradients of one step's towers, as Condacc>TowerDenseSum does for
dense ones.

dtype: Of the gradients' values.
shape: Of the tensor whose rows the gradients hold, as far as it is known.
reduction_type: Whether each row of what is taken is divided by the number of gradients (MEAN).
anonymous: Must be true.
container: Not used.
shared_name: Not used.
)");

REGISTER_OP("Condacc>TowerSparseAdd")
    .Input("handle: resource")
    .Input("indices: Tindices")
    .Input("values: dtype")
    .Input("shape: int64")
    .Attr(kDtype)
    .Attr("Tindices: {int32, int64} = DT_INT64")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle rows;
      return c->WithRank(c->input(1), 1, &rows);
    })
    .Doc(R"(
Adds a tower's sparse gradient to a sum.

indices: Vector of row numbers, in any order and with repeats.
values: The rows: as many as there are indices.
shape: Vector, the shape of the tensor whose rows they are; empty if unknown.

InvalidArgument if the parts do not fit each other or the sum, or a row number is negative or beyond
the shape; ResourceExhausted if memory is short.
)");

REGISTER_OP("Condacc>TowerSparseTake")
    .Input("handle: resource")
    .Input("num_required: int32")
    .Output("indices: int64")
    .Output("values: dtype")
    .Output("shape: int64")
    .Attr(kDtype)
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) { return RowsShape(c, 0); })
    .Doc(R"(
Outputs what the sparse gradients of all towers come to. Never waits: control edges have to see to it
that all have been added.

num_required: How many gradients there are.
indices: The rows that were in any of the gradients, ascending and unique.
values: Their sums, or means, as the reduction_type says.
shape: Of the tensor whose rows they are; -1 for their number if the sum does not know it.

InvalidArgument if fewer have been added, or the dtype is not the sum's; ResourceExhausted if memory
is short.
)");

}  // namespace
}  // namespace condacc
