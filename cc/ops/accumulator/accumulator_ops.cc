// Ops that serve every kind of accumulator.
#include "absl/status/status.h"
#include "cc/ops/base/shape_functions.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace condacc {
namespace {

using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ScalarShape;

REGISTER_OP("Condacc>Multiply")
    .Input("values: num_values * dtype")
    .Input("factor: double")
    .Output("products: num_values * dtype")
    .Attr("dtype: {half, bfloat16, float, double, complex64, complex128}")
    .Attr("num_values: int >= 1")
    .SetShapeFn([](InferenceContext* c) {
      const int last = c->num_inputs() - 1;
      TF_RETURN_IF_ERROR(ScalarInput(c, last));
      for (int i = 0; i < last; ++i) c->set_output(i, c->input(i));
      return absl::OkStatus();
    })
    .Doc(R"(
Multiplies the gradients of a micro-batch by its weight, in the time that eager execution takes for
a few multiplications. It exists on CPUs only.

values: The gradients, of any shapes.
factor: The weight: [] double. It is rounded to the real numbers of the dtype first.
products: The gradients times the weight. If that is 0, they are zeros, even of infinities.
)");

REGISTER_OP("Condacc>AccumulatorNumAccumulated")
    .Input("handles: num_accumulators * resource")
    .Output("num_accumulated: int32")
    .Attr("num_accumulators: int >= 1")
    .SetIsStateful()
    .SetShapeFn(ScalarShape)
    .Doc(R"(
Outputs how many gradients accumulators have: of several, the lowest number.

num_accumulated: The number, at most 2**31 - 1: [] int32.
)");

REGISTER_OP("Condacc>AccumulatorNumDropped")
    .Input("handle: resource")
    .Output("num_dropped: int64")
    .SetIsStateful()
    .SetShapeFn(ScalarShape)
    .Doc("Outputs how many stale gradients an accumulator has dropped since it was made.");

REGISTER_OP("Condacc>AccumulatorGlobalStep")
    .Input("handle: resource")
    .Output("global_step: int64")
    .SetIsStateful()
    .SetShapeFn(ScalarShape)
    .Doc("Outputs the global step of an accumulator. Gradients of lower steps are stale.");

REGISTER_OP("Condacc>AccumulatorSetGlobalStep")
    .Input("handle: resource")
    .Input("new_global_step: int64")
    .SetIsStateful()
    .SetShapeFn(ScalarArgument)
    .Doc(R"(
Sets the global step of an accumulator. Gradients of lower steps are stale. A step lower than the
current one is set, too, with a warning in the log. Neither gradients nor waiting takes are touched.

new_global_step: The new step: [] int64.

InvalidArgument if `new_global_step` is not a scalar.
)");

REGISTER_OP("Condacc>AccumulatorReset")
    .Input("handle: resource")
    .Input("global_step: int64")
    .Output("num_discarded: int64")
    .Attr("only_forward: bool = false")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      TF_RETURN_IF_ERROR(ScalarArgument(c));
      return ScalarShape(c);
    })
    .Doc(R"(
Discards the accumulated gradients and sets the accumulator's global step, as one atomic operation.
Waiting takes go on waiting, except that a take for which there were enough gradients is served
first. The number of dropped gradients does not change.

global_step: The new step: [] int64. It may be lower than the current one.
num_discarded: How many gradients were discarded: [] int64.
only_forward: If true, nothing is done unless the step becomes higher. So the reset of a chief that
  has been replaced, and comes late, does not disturb the round of its successor.

InvalidArgument if `global_step` is not a scalar; ResourceExhausted if memory is short. After an
error nothing has changed.
)");

REGISTER_OP("Condacc>AccumulatorSave")
    .Input("handle: resource")
    .Output("state: uint8")
    .SetIsStateful()
    .SetShapeFn(VectorOutput)
    .Doc(R"(
Outputs the state of an accumulator: its global step, its number of dropped gradients, the sum, and
the contributors and weights of the accumulated gradients. Condacc>AccumulatorRestore continues from
it with the same bits. The accumulator does not change. Gradients may be applied while the sum is
copied, and are then not in the state.

state: The state, in a format that has a version: [n] uint8. It depends on what was accumulated, and
  not on how much of it had been added up.

InvalidArgument if the accumulator is on a GPU and a gradient has a bad index, with which the take of
its round would fail; ResourceExhausted if memory is short.
)");

REGISTER_OP("Condacc>AccumulatorRestore")
    .Input("handle: resource")
    .Input("state: uint8")
    .SetIsStateful()
    .SetShapeFn(VectorArgument)
    .Doc(R"(
Replaces the accumulated gradients, the global step and the number of dropped gradients of an
accumulator by those of a state, as one atomic operation. What was accumulated is discarded, except
that a waiting take for which there were enough gradients is served first. The next waiting take is
served if the state has enough gradients for it.

state: A state that Condacc>AccumulatorSave has output, perhaps in another process: [n] uint8.

InvalidArgument if `state` is not a vector, is damaged, or is the state of an accumulator of another
kind, dtype, shape, reduction_type or num_contributors; ResourceExhausted if memory is short. After
an error nothing has changed.
)");

}  // namespace
}  // namespace condacc
