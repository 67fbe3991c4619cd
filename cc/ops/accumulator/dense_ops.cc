// Ops of the dense accumulator.
#include "cc/ops/base/shape_functions.h"
#include "tensorflow/core/framework/op.h"

namespace condacc {
namespace {

REGISTER_OP("Condacc>DenseAccumulator")
    .Output("handle: resource")
    .Attr(kDtype)
    .Attr("shape: shape")
    .Attr("reduction_type: {'MEAN', 'SUM'} = 'MEAN'")
    .Attr("holds: bool = true")
    .Attr("num_contributors: int >= 0 = 0")
    .Attr("anonymous: bool = false")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .SetIsStateful()
    .SetShapeFn(HandleShape)
    .Doc(R"(
Makes a conditional accumulator of dense gradients, or finds the one of its shared_name.

handle: The accumulator: [] resource.
dtype: Data type of the gradients. Integers require reduction_type SUM. half and bfloat16 are added
  in float32 and rounded once, when taken.
shape: Shape of the gradients, as far as it is known.
reduction_type: Whether a take outputs the mean or the sum.
holds: Whether several gradients are held, to be added in one pass. If false, each is added when it
  comes, except the last one before a take. The bits of the result do not depend on it.
num_contributors: If not 0, the gradients are those of contributors 0 to num_contributors - 1, and
  are added in this order, so that the bits of the result do not depend on the order in which they
  come. Every apply then needs a contributor.
anonymous: If true, every execution makes another accumulator, which lives as long as its handle.
container: Where an accumulator that is not anonymous is stored; the default container if empty.
shared_name: The name by which other ops find it there. If empty, it belongs to this op alone.

InvalidArgument if the shared_name is in use by an accumulator of another kind, dtype, shape,
reduction_type or number of contributors.
)");

REGISTER_OP("Condacc>DenseApply")
    .Input("handle: resource")
    .Input("local_step: int64")
    .Input("gradient: dtype")
    .Output("accepted: bool")
    .Attr(kDtype)
    .SetIsStateful()
    .SetShapeFn(DenseApplyShape)
    .Doc(R"(
Adds a gradient to an accumulator, unless it is stale.

local_step: The step at which the gradient was computed: [] int64. The gradient is stale if it is
  lower than the accumulator's global step.
gradient: The gradient, of the accumulator's shape.
accepted: Whether the gradient was added: [] bool. False if it was stale and therefore dropped,
  whatever its shape.

InvalidArgument if `local_step` is not a scalar, the dtype is not the accumulator's, or a gradient
that is not stale has another shape; ResourceExhausted if memory is short. After an error nothing
has changed.
)");

REGISTER_OP("Condacc>DenseApplyContribution")
    .Input("handle: resource")
    .Input("local_step: int64")
    .Input("gradient: dtype")
    .Input("contributor: int64")
    .Input("weight: num_weights * double")
    .Output("outcome: int32")
    .Attr(kDtype)
    .Attr("num_weights: int >= 0 = 0")
    .SetIsStateful()
    .SetShapeFn(DenseApplyShape)
    .Doc(R"(
Adds a gradient of a contributor to an accumulator, at most one between two takes, and only if
the accumulator is at the gradient's local step.

local_step: The step at which the gradient was computed: [] int64.
gradient: The gradient, of the accumulator's shape.
contributor: The number of the contributor, not negative, and lower than the accumulator's
  num_contributors, if that is not 0: [] int64.
weight: Nothing, or the weight by which the gradient has been multiplied, as for
  Condacc>DenseApplyWeighted: [] double.
outcome: What became of the gradient: [] int32. 1: it was added. 2: it was stale, because its local
  step is lower than the accumulator's global step; it was dropped and counted as dropped. 3: the
  contributor already has a gradient among the accumulated ones; the first one counts, and this one
  was ignored. 4: its local step is higher than the accumulator's global step; it was refused, and
  may be applied again when that step has come.

InvalidArgument if `local_step`, `contributor` or `weight` is not a scalar, there are several
weights, the contributor is negative or too high, the weight is negative or not finite, the dtype is
not the accumulator's, or a gradient that would be added has another shape;
ResourceExhausted if memory is short. After an error nothing has changed, and the contributor may
apply another gradient.
)");

REGISTER_OP("Condacc>DenseApplyWeighted")
    .Input("handle: resource")
    .Input("local_step: int64")
    .Input("gradient: dtype")
    .Input("weight: double")
    .Output("accepted: bool")
    .Attr(kDtype)
    .SetIsStateful()
    .SetShapeFn(DenseApplyShape)
    .Doc(R"(
Adds a gradient that has been multiplied by its weight to an accumulator, unless it is stale. A mean
is divided by the sum of the weights, where that of other gradients is 1.

local_step: The step at which the gradient was computed, as for Condacc>DenseApply: [] int64.
gradient: The gradient times the weight, of the accumulator's shape.
weight: The weight, finite and not negative: [] double.
accepted: Whether the gradient was added, as for Condacc>DenseApply: [] bool.

InvalidArgument if `weight` is not a scalar, is negative or is not finite. Other errors are those of
Condacc>DenseApply.
)");

REGISTER_OP("Condacc>DenseTake")
    .Input("handle: resource")
    .Input("num_required: int32")
    .Output("average: dtype")
    .Attr(kDtype)
    .SetIsStateful()
    .SetShapeFn(DenseTakeShape)
    .Doc(R"(
Waits until enough gradients are accumulated, and takes them all. The wait holds no thread. Takes
are served in the order in which they came. The accumulator's global step moves on by one.

num_required: How many gradients are enough, at least 1: [] int32.
average: The mean or sum of the gradients, as the accumulator's reduction_type says.

InvalidArgument if `num_required` is not a positive scalar or the dtype is not the accumulator's;
Cancelled if the step was cancelled; OutOfRange at global step 2**63 - 1. After an error nothing has
been taken.
)");

REGISTER_OP("Condacc>DenseTryTake")
    .Input("handle: resource")
    .Input("num_required: int32")
    .Output("taken: bool")
    .Output("average: dtype")
    .Attr(kDtype)
    .SetIsStateful()
    .SetShapeFn(DenseTakeShape)
    .Doc(R"(
Takes the accumulated gradients if there are enough and no other take waits; never waits itself.

num_required: How many gradients are enough, at least 1: [] int32.
taken: Whether gradients were taken: [] bool.
average: The mean or sum of the gradients. If nothing was taken, zeros of the accumulator's shape,
  with 0 for unknown dimensions.

The errors are those of Condacc>DenseTake.
)");

REGISTER_OP("Condacc>DenseApplyTake")
    .Input("handle: resource")
    .Input("local_step: int64")
    .Input("gradient: dtype")
    .Input("num_required: int32")
    .Output("average: dtype")
    .Attr(kDtype)
    .SetIsStateful()
    .SetShapeFn(DenseTakeShape)
    .Doc(R"(
Adds a gradient to an accumulator as Condacc>DenseApply does, and then takes the accumulated
gradients, without waiting for further gradients.

local_step: The step at which the gradient was computed: [] int64. A stale gradient is dropped, and
  the others are taken.
gradient: The gradient, of the accumulator's shape.
num_required: How many gradients are enough, this one included, at least 1: [] int32.
average: The mean or sum of the gradients, as output by Condacc>DenseTake.

FailedPrecondition if there are too few gradients or another take waits; OutOfRange if the global
step cannot advance. The gradient has then been added, and nothing was taken. Other errors are those
of Condacc>DenseApply and Condacc>DenseTake. After them nothing has changed.
)");

REGISTER_OP("Condacc>DenseTakeRound")
    .Input("handle: resource")
    .Input("global_step: int64")
    .Input("num_required: int32")
    .Output("taken: bool")
    .Output("average: dtype")
    .Attr(kDtype)
    .SetIsStateful()
    .SetShapeFn(DenseTakeShape)
    .Doc(R"(
Takes the accumulated gradients if the accumulator is at the given step, there are enough and no
other take waits; never waits itself.

global_step: The only step of the accumulator at which gradients are taken: [] int64.
num_required: How many gradients are enough, at least 1: [] int32.
taken: Whether gradients were taken: [] bool.
average: The mean or sum of the gradients, or zeros, as output by Condacc>DenseTryTake.

InvalidArgument if `global_step` is not a scalar. Other errors are those of Condacc>DenseTake.
)");

}  // namespace
}  // namespace condacc
