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
    .Input("contributor: num_contributors * int64")
    .Input("weight: num_weights * double")
    .Output("outcome: int32")
    .Attr(kDtype)
    .Attr("Tindices: {int32, int64} = DT_INT64")
    .Attr("num_contributors: int >= 0 = 0")
    .Attr("num_weights: int >= 0 = 0")
    .SetIsStateful()
    .SetShapeFn(SparseApplyShape)
    .Doc(R"(
Adds a sparse gradient to an accumulator, unless it is stale. For one of a contributor, the rules of
Condacc>DenseApply hold.

local_step: The step at which the gradient was computed: [] int64. The gradient is stale if it is
  lower than the accumulator's global step.
indices: The index of each row: [n] Tindices. They may be in any order. Rows with the same index are
  summed, and count as one gradient.
values: The rows: [n, d1, ...] dtype.
shape: The shape of the dense tensor whose rows they are: [rank] int64, or [0] if it is unknown.
contributor: Nothing, or the number of the contributor, as for Condacc>DenseApply: [] int64.
weight: Nothing, or the weight by which the values have been multiplied, as for Condacc>DenseApply:
  [] double.
outcome: What became of the gradient, as for Condacc>DenseApply: [] int32. The parts of one that is
  not added may have any shapes.

InvalidArgument as for Condacc>DenseApply; if the parts of a gradient that would be added do not fit
each other, the accumulator's shape or what is accumulated; if an index is negative or beyond the
shape; or if the accumulator is on a GPU, its reduction_type is MEAN and the weight is not 1.
ResourceExhausted if memory is short. After an error nothing has changed, and the contributor may
apply another gradient. On a GPU, a bad index fails the take of its round instead, with which all
gradients of the round are lost.
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
    .Input("global_step: num_global_steps * int64")
    .Output("taken: bool")
    .Output("indices: int64")
    .Output("values: dtype")
    .Output("shape: int64")
    .Attr(kDtype)
    .Attr("num_global_steps: int >= 0 = 0")
    .SetIsStateful()
    .SetShapeFn(SparseTakeShape)
    .Doc(R"(
Takes the accumulated sparse gradients if there are enough and no other take waits; never waits for
gradients itself.

num_required: How many gradients are enough, at least 1: [] int32.
global_step: Nothing, or the only step of the accumulator at which gradients are taken: [] int64.
taken: Whether gradients were taken: [] bool.
indices: As output by Condacc>SparseTake, or [0] int64 if nothing was taken.
values: As output by Condacc>SparseTake, or [0, d1, ...] dtype if nothing was taken.
shape: As output by Condacc>SparseTake.

InvalidArgument if `global_step` is not a scalar, or if there are several. Other errors are those of
Condacc>SparseTake.
)");

}  // namespace
}  // namespace condacc
