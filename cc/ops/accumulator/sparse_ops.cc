// Ops of the sparse accumulator.
#include "cc/ops/base/shape_functions.h"
#include "tensorflow/core/framework/op.h"

namespace condacc {
namespace {

REGISTER_OP("Condacc>SparseAccumulator")
    .Output("handle: resource")
    .Attr(kDtype)
    .Attr("shape: shape")
    .Attr("reduction_type: {'MEAN', 'SUM', 'GLOBAL_MEAN'} = 'MEAN'")
    .Attr("num_contributors: int >= 0 = 0")
    .Attr("anonymous: bool = false")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .SetIsStateful()
    .SetShapeFn(HandleShape)
    .Doc(R"(
Makes a conditional accumulator of sparse gradients, or finds the one of its shared_name.

handle: The accumulator: [] resource.
dtype: Data type of the gradients' values. Integers require reduction_type SUM. half and bfloat16
  are added in float32 and rounded once, when taken.
shape: The first dimensions of the dense tensor whose rows the gradients contain, as far as they are
  known. The shape [] means that none is known.
reduction_type: What a take divides the sum of each row by: the number of gradients that contain the
  row (MEAN), nothing (SUM), or the number of all gradients (GLOBAL_MEAN).

The other attributes and the errors are those of Condacc>DenseAccumulator.
)");

REGISTER_OP("Condacc>SparseApply")
    .Input("handle: resource")
    .Input("local_step: int64")
    .Input("indices: Tindices")
    .Input("values: dtype")
    .Input("shape: int64")
    .Output("accepted: bool")
    .Attr(kDtype)
    .Attr("Tindices: {int32, int64} = DT_INT64")
    .SetIsStateful()
    .SetShapeFn(SparseApplyShape)
    .Doc(R"(
Adds a sparse gradient to an accumulator, unless it is stale.

local_step: The step at which the gradient was computed: [] int64. The gradient is stale if it is
  lower than the accumulator's global step.
indices: The index of each row: [n] Tindices. They may be in any order. Rows with the same index are
  summed, and count as one gradient.
values: The rows: [n, d1, ...] dtype.
shape: The shape of the dense tensor whose rows they are: [rank] int64, or [0] if it is unknown.
accepted: Whether the gradient was added: [] bool. False if it was stale and therefore dropped,
  whatever its shape.

InvalidArgument if `local_step` is not a scalar, the dtype is not the accumulator's, or a gradient
that is not stale does not fit: if its parts do not fit each other, the accumulator's shape or what
is accumulated, or if an index is negative or beyond the shape. ResourceExhausted if memory is
short. After an error nothing has changed.
)");

REGISTER_OP("Condacc>SparseApplyContribution")
    .Input("handle: resource")
    .Input("local_step: int64")
    .Input("indices: Tindices")
    .Input("values: dtype")
    .Input("grad_shape: int64")
    .Input("contributor: int64")
    .Input("weight: num_weights * double")
    .Output("outcome: int32")
    .Attr(kDtype)
    .Attr("Tindices: {int32, int64} = DT_INT64")
    .Attr("num_weights: int >= 0 = 0")
    .SetIsStateful()
    .SetShapeFn(SparseApplyShape)
    .Doc(R"(
Adds a sparse gradient of a contributor to an accumulator, at most one between two takes, and only
if the accumulator is at the gradient's local step.

local_step: The step at which the gradient was computed: [] int64.
indices: The index of each row: [n] Tindices, as for Condacc>SparseApply.
values: The rows: [n, d1, ...] dtype.
grad_shape: The shape of the dense tensor whose rows they are: [rank] int64, or [0] if it is
  unknown.
contributor: The number of the contributor, as for Condacc>DenseApplyContribution: [] int64.
weight: Nothing, or the weight of the gradient, as for Condacc>SparseApplyWeighted: [] double.
outcome: What became of the gradient, as for Condacc>DenseApplyContribution: [] int32.

InvalidArgument as for Condacc>DenseApplyContribution and Condacc>SparseApplyWeighted;
ResourceExhausted if memory is short. After an error nothing has changed, and the contributor may
apply another gradient. On a GPU, a take can refuse a gradient after later ones have been added. If
the accumulator adds in the order of contributors, another gradient of this one is then an
InvalidArgument, too, until the accumulator is reset.
)");

REGISTER_OP("Condacc>SparseApplyWeighted")
    .Input("handle: resource")
    .Input("local_step: int64")
    .Input("indices: Tindices")
    .Input("values: dtype")
    .Input("shape: int64")
    .Input("weight: double")
    .Output("accepted: bool")
    .Attr(kDtype)
    .Attr("Tindices: {int32, int64} = DT_INT64")
    .SetIsStateful()
    .SetShapeFn(SparseApplyShape)
    .Doc(R"(
Adds a sparse gradient whose values have been multiplied by its weight to an accumulator, unless it
is stale. A mean is divided by the sum of the weights, where that of other gradients is 1.

local_step: The step at which the gradient was computed, as for Condacc>SparseApply: [] int64.
indices: The index of each row: [n] Tindices, as for Condacc>SparseApply.
values: The rows times the weight: [n, d1, ...] dtype.
shape: The shape of the dense tensor whose rows they are: [rank] int64, or [0] if it is unknown.
weight: The weight, finite and not negative: [] double.
accepted: Whether the gradient was added, as for Condacc>SparseApply: [] bool.

InvalidArgument if `weight` is not a scalar, is negative or is not finite, or if the accumulator is
on a GPU, its reduction_type is MEAN and the weight is not 1. Other errors are those of
Condacc>SparseApply.
)");

REGISTER_OP("Condacc>SparseTake")
    .Input("handle: resource")
    .Input("num_required: int32")
    .Output("indices: int64")
    .Output("values: dtype")
    .Output("shape: int64")
    .Attr(kDtype)
    .SetIsStateful()
    .SetShapeFn(SparseTakeShape)
    .Doc(R"(
Waits until enough sparse gradients are accumulated, and takes them all. The wait holds no thread.
Takes are served in the order in which they came. The accumulator's global step moves on by one.

num_required: How many gradients are enough, at least 1: [] int32.
indices: The indices of the rows that any of the gradients contains, ascending and unique:
  [n] int64.
values: The mean or sum of each row, as the accumulator's reduction_type says: [n, d1, ...] dtype.
shape: The shape of the dense tensor whose rows they are: [rank] int64. The first dimension is -1 if
  the accumulator does not know it.

InvalidArgument if `num_required` is not a positive scalar or the dtype is not the accumulator's;
Cancelled if the step was cancelled; OutOfRange at global step 2**63 - 1; ResourceExhausted if
memory is short. After an error nothing has been taken.
)");

REGISTER_OP("Condacc>SparseTryTake")
    .Input("handle: resource")
    .Input("num_required: int32")
    .Output("taken: bool")
    .Output("indices: int64")
    .Output("values: dtype")
    .Output("shape: int64")
    .Attr(kDtype)
    .SetIsStateful()
    .SetShapeFn(SparseTakeShape)
    .Doc(R"(
Takes the accumulated sparse gradients if there are enough and no other take waits; never waits
itself.

num_required: How many gradients are enough, at least 1: [] int32.
taken: Whether gradients were taken: [] bool.
indices: As output by Condacc>SparseTake, or [0] int64 if nothing was taken.
values: As output by Condacc>SparseTake, or [0, d1, ...] dtype if nothing was taken.
shape: As output by Condacc>SparseTake.

The errors are those of Condacc>SparseTake.
)");

REGISTER_OP("Condacc>SparseTakeRound")
    .Input("handle: resource")
    .Input("global_step: int64")
    .Input("num_required: int32")
    .Output("taken: bool")
    .Output("indices: int64")
    .Output("values: dtype")
    .Output("shape: int64")
    .Attr(kDtype)
    .SetIsStateful()
    .SetShapeFn(SparseTakeShape)
    .Doc(R"(
Takes the accumulated sparse gradients if the accumulator is at the given step, there are enough and
no other take waits; never waits itself.

global_step: The only step of the accumulator at which gradients are taken: [] int64.
num_required: How many gradients are enough, at least 1: [] int32.
taken: Whether gradients were taken: [] bool.
indices: As output by Condacc>SparseTake, or [0] int64 if nothing was taken.
values: As output by Condacc>SparseTake, or [0, d1, ...] dtype if nothing was taken.
shape: As output by Condacc>SparseTake.

InvalidArgument if `global_step` is not a scalar. Other errors are those of Condacc>SparseTake.
)");

}  // namespace
}  // namespace condacc
