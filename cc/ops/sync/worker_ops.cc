// Ops that make and observe the gate of synchronous training, and the ops of its workers.
#include "absl/status/status.h"
#include "cc/ops/base/shape_functions.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace condacc {
namespace {

using tensorflow::shape_inference::InferenceContext;

REGISTER_OP("Condacc>SyncGate")
    .Output("gate: resource")
    .Attr("anonymous: bool = false")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .SetIsStateful()
    .SetShapeFn(ScalarsShape)
    .Doc(R"(
Makes the gate that takes the workers of synchronous training from round to round, or finds the one
of its shared_name. A new gate is not open.

anonymous: If true, every execution makes another gate, which lives as long as its handle.
container: Where a gate that is not anonymous is stored; the default container if empty.
shared_name: The name by which other ops find it there. If empty, it belongs to this op alone.
)");

REGISTER_OP("Condacc>SyncGateEnter")
    .Input("gate: resource")
    .Input("local_step: int64")
    .Output("step: resource")
    .Attr("worker: string")
    .Attr("run: string = ''")
    .SetIsStateful()
    .SetShapeFn(ScalarsShape)
    .Doc(R"(
Begins a worker's step.

local_step: The round in which the step begins: [] int64.
step: The handle of the step: [] resource. If it is freed before Condacc>SyncGateFinish, the step
  has failed: its slot becomes free, and its worker counts as lost until it enters again. The handle
  counts references and must not leave its device.
worker: The name of the worker. Two workers must not have the same name.
run: Identifies the process and graph of the worker. A run replaces earlier ones of the same worker:
  their slots become free, and they get FailedPrecondition from then on.

FailedPrecondition if another run has replaced this one, or if another step of this run has not
ended.
)");

REGISTER_OP("Condacc>SyncGateClaim")
    .Input("step: resource")
    .Output("claim: int64")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      TF_RETURN_IF_ERROR(ScalarInput(c, 0));
      c->set_output(0, c->Vector(2));
      return absl::OkStatus();
    })
    .Doc(R"(
Asks for a slot of the round in which a step began. If there is none, or the gate is at another
round, the step's gradients are to be dropped.

claim: The round, and the slot to push gradients with: [2] int64. The round is the lowest int64 if
  there is no slot, so that accumulators drop the gradients as stale.
)");

REGISTER_OP("Condacc>SyncGatePushed")
    .Input("outcomes: N * int32")
    .Output("any_added: bool")
    .Attr("accumulators: list(string)")
    .Attr("N: int >= 1")
    .SetIsStateful()
    .SetShapeFn(ScalarsShape)
    .Doc(R"(
Checks the outcomes of a step's pushes on one device.

outcomes: What the applies of contributions returned: [] int32 each.
any_added: Whether any of the gradients was added: [] bool.
accumulators: The names of the accumulators, for the error.

Aborted if an accumulator is at a lower step than the round of the gate.
)");

REGISTER_OP("Condacc>SyncGateFinish")
    .Input("step: resource")
    .Input("added: N * bool")
    .Output("round: int64")
    .Output("dropped: bool")
    .Attr("N: int >= 0")
    .SetIsStateful()
    .SetShapeFn(ScalarsShape)
    .Doc(R"(
Tells the gate that all gradients of a step have been pushed, which completes its slot, and waits
until the worker is to begin its next step. That may be in the same round, if another worker was
lost.

added: Whether any gradient was added, on each device that gradients were pushed to: [] bool each.
round: The round of the next step: [] int64.
dropped: Whether all gradients of the step were dropped, because it got no slot, or another worker
  has taken its slot over: [] bool.

OutOfRange if training has ended; Cancelled if the chief of the same process has failed;
FailedPrecondition if another run has replaced that of the worker.
)");

REGISTER_OP("Condacc>SyncGateLeave")
    .Input("gate: resource")
    .Attr("worker: string")
    .Attr("run: string = ''")
    .Attr("is_lost: bool = false")
    .SetIsStateful()
    .SetShapeFn(ScalarsShape)
    .Doc(R"(
Tells the gate that a worker ends, so that nobody waits for its gradients. The worker may enter
again. Nothing happens if another run has replaced this one.

worker: The name of the worker.
run: Identifies the process and graph of the worker.
is_lost: Whether the worker has failed. If not, it has left.
)");

REGISTER_OP("Condacc>SyncGateLose")
    .Input("gate: resource")
    .Input("worker: string")
    .SetIsStateful()
    .SetShapeFn(ScalarsShape)
    .Doc(R"(
Tells the gate that the process of a worker is gone: its slot becomes free, and nobody waits for its
gradients until it enters again.

worker: The name of the worker: [] string.
)");

REGISTER_OP("Condacc>SyncGateAwaitOpen")
    .Input("gate: resource")
    .Output("round: int64")
    .Attr("worker: string")
    .Attr("run: string = ''")
    .Attr("late_secs: float = 0")
    .SetIsStateful()
    .SetShapeFn(ScalarsShape)
    .Doc(R"(
Waits until the gate is open. A worker that comes for the first time when training has ended waits for
the next opening for `late_secs`; then its first step ends with OutOfRange.

round: The current round: [] int64.
worker: The name of the worker.
run: Identifies the process and graph of the worker, as in Condacc>SyncGateEnter.
late_secs: The time in seconds. 0: without a limit.

FailedPrecondition if another run has replaced this one.
)");

REGISTER_OP("Condacc>SyncGateReport")
    .Input("gate: resource")
    .Input("session: int64")
    .Input("seen: int64")
    .Output("round: int64")
    .Output("report: string")
    .Attr("run: string = ''")
    .Attr("report_secs: float")
    .SetIsStateful()
    .SetShapeFn(ScalarsShape)
    .Doc(R"(
Waits until a round has lasted for `report_secs` while a worker waits.

session: What Condacc>SyncGateSession outputs: [] int64.
seen: A round that is not to be reported again: [] int64.
round: The round that has lasted for so long: [] int64.
report: What the gate knows of each worker: [] string.
run: Identifies the process and graph of the worker.
report_secs: The time in seconds.

OutOfRange after Condacc>SyncGateDismiss of the same run and session.
)");

REGISTER_OP("Condacc>SyncGateState")
    .Input("gate: resource")
    .Output("open: bool")
    .Output("round: int64")
    .Output("num_complete: int64")
    .Output("num_takeovers: int64")
    .Output("num_dropped: int64")
    .SetIsStateful()
    .SetShapeFn(ScalarsShape)
    .Doc(R"(
Outputs the state of a gate.

open: Whether workers can claim slots: [] bool.
round: The current round: [] int64.
num_complete: Number of complete slots: [] int64.
num_takeovers: How many times slots have been taken over so far: [] int64.
num_dropped: Number of steps so far whose gradients were dropped: [] int64.
)");

}  // namespace
}  // namespace condacc
