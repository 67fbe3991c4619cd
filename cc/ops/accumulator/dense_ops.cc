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
    .Input("contributor: num_contributors * int64")
    .Input("weight: num_weights * double")
    .Output("outcome: int32")
    .Attr(kDtype)
    .Attr("num_contributors: int >= 0 = 0")
    .Attr("num_weights: int >= 0 = 0")
    .SetIsStateful()
    .SetShapeFn(DenseApplyShape)
    .Doc(R"(
Adds a gradient to an accumulator, unless it is stale. A gradient of a contributor is added only if
it is the contributor's first one since the last take, and if the accumulator is at its local step.

local_step: The step at which the gradient was computed: [] int64. The gradient is stale if it is
  lower than the accumulator's global step.
gradient: The gradient, of the accumulator's shape. One that is not added may have any shape.
contributor: Nothing, or the number of the contributor, not negative, and lower than the
  accumulator's num_contributors, if that is not 0: [] int64.
weight: Nothing, or the weight by which the gradient has been multiplied, finite and not negative:
  [] double. A mean is divided by the sum of the weights, where that of other gradients is 1.
outcome: What became of the gradient: [] int32. 1: it was added. 2: it was stale; it was dropped and
  counted as dropped. 3: the contributor already has a gradient among the accumulated ones; the
  first one counts, and this one was ignored. 4: it has a contributor, and its local step is higher
  than the accumulator's global step; it was refused, and may be applied again when that step has
  come.

InvalidArgument if `local_step`, `contributor` or `weight` is not a scalar, there are several
contributors or weights, the contributor is negative, missing or too high, the weight is negative or
not finite, the dtype is not the accumulator's, or a gradient that would be added has another shape;
ResourceExhausted if memory is short. After an error nothing has changed, and the contributor may
apply another gradient.
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
    .Input("global_step: num_global_steps * int64")
    .Output("taken: bool")
    .Output("average: dtype")
    .Attr(kDtype)
    .Attr("num_global_steps: int >= 0 = 0")
    .SetIsStateful()
    .SetShapeFn(DenseTakeShape)
    .Doc(R"(
Takes the accumulated gradients if there are enough and no other take waits; never waits for
gradients itself.

num_required: How many gradients are enough, at least 1: [] int32.
global_step: Nothing, or the only step of the accumulator at which gradients are taken: [] int64.
taken: Whether gradients were taken: [] bool.
average: The mean or sum of the gradients. If nothing was taken, zeros of the accumulator's shape,
  with 0 for unknown dimensions.

InvalidArgument if `global_step` is not a scalar, or if there are several. Other errors are those of
Condacc>DenseTake.
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

}  // namespace
}  // namespace condacc
