// Ops of the sparse accumulator.
#include "cc/ops/shape_functions.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace condacc {
namespace {

using tensorflow::shape_inference::InferenceContext;

REGISTER_OP("Condacc>SparseAccumulator")
    .Output("handle: resource")
    .Attr(kDtype)
    .Attr("shape: shape")
    .Attr("reduction_type: {'MEAN', 'SUM', 'GLOBAL_MEAN'} = 'MEAN'")
    .Attr("anonymous: bool = false")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .SetIsStateful()
    .SetShapeFn(HandleShape)
    .Doc(R"(
Makes a conditional accumulator of sparse gradients, or finds the one of its shared_name.

dtype: Of the gradients' values. Integers require reduction_type SUM. half and bfloat16 are added
  in float32 and rounded once, when taken.
shape: The first dimensions of the tensors whose rows the gradients hold, as far as they are known; a
  scalar's shape means that none is.
reduction_type: What a take divides the sum of each row by: the number of gradients that the row was
  in (MEAN), nothing (SUM) or the number of all gradients (GLOBAL_MEAN).
anonymous: Every execution makes another accumulator, which lives as long as its handle.
container: Where an accumulator that is not anonymous is kept; the default container if empty.
shared_name: By what it is found there by other ops. If empty it belongs to this op alone.

InvalidArgument if the shared_name is in use by an accumulator of another kind, dtype, shape or
reduction_type.
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
    .SetShapeFn(ApplyShape)
    .Doc(R"(
Adds a sparse gradient to an accumulator, unless it is stale.

local_step: The step at which the gradient was computed; stale if lower than the accumulator's.
indices: Vector of row numbers, in any order. A row that is there several times is summed, and
  counts once.
values: The rows: as many as there are indices.
shape: Vector, the shape of the tensor whose rows they are; empty if unknown.
accepted: False if the gradient was stale and therefore dropped, whatever its shape.

InvalidArgument if `local_step` is not a scalar, the dtype is not the accumulator's, or a fresh
gradient does not fit: its parts to each other, to the accumulator's shape, or to what is
accumulated; or if a row number is negative or beyond the shape. ResourceExhausted if memory is
short. Nothing has changed then.
)");

REGISTER_OP("Condacc>SparseApplyContribution")
    .Input("handle: resource")
    .Input("local_step: int64")
    .Input("indices: Tindices")
    .Input("values: dtype")
    .Input("grad_shape: int64")
    .Input("contributor: int64")
    .Output("outcome: int32")
    .Attr(kDtype)
    .Attr("Tindices: {int32, int64} = DT_INT64")
    .SetIsStateful()
    .SetShapeFn(ContributionShape)
    .Doc(R"(
Adds a sparse gradient of a contributor to an accumulator, at most one between two takes, and only
at the gradient's own step.

local_step: The step at which the gradient was computed.
indices: Vector of row numbers, as of Condacc>SparseApply.
values: The rows: as many as there are indices.
grad_shape: Vector, the shape of the tensor whose rows they are; empty if unknown.
contributor: Whose gradient it is; not negative.
outcome: 0 if the gradient was added. 1 if it was stale, its local step lower than the accumulator's:
  it was dropped, and counted as dropped. 2 if the contributor already has a gradient among those
  that are accumulated: the first one counts, and this one was ignored. 3 if its local step was
  higher than the accumulator's: it was refused, and may be applied again when that step has come.

InvalidArgument if `local_step` or `contributor` is not a scalar, the contributor is negative, the
dtype is not the accumulator's, or a gradient that would be added does not fit, as of
Condacc>SparseApply; ResourceExhausted if memory is short. Nothing has changed then, and the
contributor may apply another gradient.
)");

REGISTER_OP("Condacc>SparseTake")
    .Input("handle: resource")
    .Input("num_required: int32")
    .Output("indices: int64")
    .Output("values: dtype")
    .Output("shape: int64")
    .Attr(kDtype)
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) { return RowsShape(c, 0); })
    .Doc(R"(
Waits until enough sparse gradients are accumulated, and takes them all. Holds no thread meanwhile.
Takes are served in the order in which they came. The accumulator's step moves on by one.

num_required: How many gradients are enough; at least 1.
indices: The rows that were in any of the gradients, ascending.
values: Their mean, or sum, as the accumulator's reduction_type says.
shape: Of the tensor whose rows they are; -1 for their number if the accumulator does not know it.

InvalidArgument if `num_required` is not a positive scalar or the dtype is not the accumulator's;
Cancelled if the step was cancelled; OutOfRange at global step 2**63 - 1; ResourceExhausted if
memory is short. Nothing is taken then.
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
    .SetShapeFn([](InferenceContext* c) {
      c->set_output(0, c->Scalar());
      return RowsShape(c, 1);
    })
    .Doc(R"(
Takes the accumulated sparse gradients if there are enough and no other take waits; never waits
itself.

num_required: How many gradients are enough; at least 1.
taken: Whether there were enough.
indices: The rows, as of Condacc>SparseTake, or none.
values: Likewise.
shape: Likewise.

Errors as of Condacc>SparseTake.
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
    .SetShapeFn([](InferenceContext* c) {
      TF_RETURN_IF_ERROR(ScalarInput(c, 2));
      c->set_output(0, c->Scalar());
      return RowsShape(c, 1);
    })
    .Doc(R"(
Takes the accumulated sparse gradients if the accumulator is at the given step, there are enough and
no other take waits; never waits itself.

global_step: The only step of the accumulator at which gradients are taken.
num_required: How many gradients are enough; at least 1.
taken: Whether gradients were taken.
indices: The rows, as of Condacc>SparseTake, or none.
values: Likewise.
shape: Likewise.

InvalidArgument if `global_step` is not a scalar; other errors as of Condacc>SparseTake.
)");

}  // namespace
}  // namespace condacc
