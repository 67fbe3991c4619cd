// Ops of the staleness gate.
#include "cc/ops/base/shape_functions.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace condacc {
namespace {

using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ScalarShape;

absl::Status DecideShape(InferenceContext* c) {
  TF_RETURN_IF_ERROR(ScalarInput(c, 2));
  TF_RETURN_IF_ERROR(ScalarInput(c, 3));
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->Scalar());
  return absl::OkStatus();
}

REGISTER_OP("Condacc>StalenessGate")
    .Output("gate: resource")
    .Attr("anonymous: bool = false")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .SetIsStateful()
    .SetShapeFn(ScalarShape)
    .Doc(R"(
Makes the gate that decides which updates of a step variable are too late, or finds the one of its
shared_name. All optimizers that update one variable must use one gate.

gate: The gate: [] resource.
anonymous: If true, every execution makes another gate, which lives as long as its handle.
container: Where a gate that is not anonymous is stored; the default container if empty.
shared_name: The name by which other ops find it there. If empty, it belongs to this op alone.
)");

constexpr char kDecideDoc[] = R"(
Accepts an update if its staleness is at most a limit. The staleness is the step that the variable
will have reached when all updates accepted before have been applied, minus the update's local step.
The variable is read inside the decision, and an accepted update reserves its step: of updates
computed at one step, limit 0 accepts one.

step: The step variable, which each update increments by one: [] T.
local_step: The variable's value when the computation of the update began: [] int64.
limit: The highest staleness that is accepted: [] int64. If it is negative, only updates ahead of
  the step are accepted.
accepted: Whether the update may be applied: [] bool.
staleness: The staleness of the update, which was compared with the limit: [] int64.
reservation: The reserved step: [] resource. Condacc>StalenessGateEnd has to end it when the update
  has been applied. If the handle is freed before, the update counts as failed. The handle counts
  references and must not leave its device.
T: Data type of the step variable.
counter: The gate counts updates for each counter separately.
optimizer: Name of the optimizer, for the warning about an accepted update that does not end.

InvalidArgument if `local_step`, `limit` or the variable is not a scalar or the variable's dtype is
not T; FailedPrecondition, or NotFound if it was never assigned, if the variable is not initialized.
After an error nothing has been decided or counted.
)";

REGISTER_OP("Condacc>StalenessGateDecide")
    .Input("gate: resource")
    .Input("step: resource")
    .Input("local_step: int64")
    .Input("limit: int64")
    .Output("accepted: bool")
    .Output("staleness: int64")
    .Output("reservation: resource")
    .Attr("T: {int32, int64}")
    .Attr("counter: string")
    .Attr("optimizer: string = ''")
    .SetIsStateful()
    .SetShapeFn(DecideShape)
    .Doc(kDecideDoc);

REGISTER_OP("Condacc>StalenessGateDecideRef")
    .Input("gate: resource")
    .Input("step: Ref(T)")
    .Input("local_step: int64")
    .Input("limit: int64")
    .Output("accepted: bool")
    .Output("staleness: int64")
    .Output("reservation: resource")
    .Attr("T: {int32, int64}")
    .Attr("counter: string")
    .Attr("optimizer: string = ''")
    .SetIsStateful()
    .SetShapeFn(DecideShape)
    .Doc(kDecideDoc);

REGISTER_OP("Condacc>StalenessGateEnd")
    .Input("reservation: resource")
    .Input("applied: bool")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"(
Ends a reservation. Does nothing if its update was dropped, or if it has ended before.

reservation: What Condacc>StalenessGateDecide has output: [] resource.
applied: Whether the update has been applied and the step incremented: [] bool. If not, the update
  counts as failed.

InvalidArgument if `applied` is not a scalar.
)");

REGISTER_OP("Condacc>StalenessGateNumAccepted")
    .Input("gate: resource")
    .Output("num_accepted: int64")
    .Attr("counter: string")
    .SetIsStateful()
    .SetShapeFn(ScalarShape)
    .Doc("Outputs how many updates of a counter were accepted and applied.");

REGISTER_OP("Condacc>StalenessGateNumDropped")
    .Input("gate: resource")
    .Output("num_dropped: int64")
    .Attr("counter: string")
    .SetIsStateful()
    .SetShapeFn(ScalarShape)
    .Doc("Outputs how many updates of a counter were dropped.");

REGISTER_OP("Condacc>StalenessGateRecentStaleness")
    .Input("gate: resource")
    .Output("staleness: int64")
    .Attr("counter: string")
    .SetIsStateful()
    .SetShapeFn(VectorOutput)
    .Doc("Outputs the staleness of a counter's last decisions, at most 1024, in any order.");

}  // namespace
}  // namespace condacc
