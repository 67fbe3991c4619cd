// Ops of the gate of synchronous training.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace condacc {
namespace {

using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ScalarShape;
using tensorflow::shape_inference::ShapeHandle;

// All inputs and outputs are scalars.
absl::Status Scalars(InferenceContext* c) {
  ShapeHandle scalar;
  for (int i = 0; i < c->num_inputs(); ++i) {
    TF_RETURN_IF_ERROR(c->WithRank(c->input(i), 0, &scalar));
  }
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->Scalar());
  return absl::OkStatus();
}

REGISTER_OP("Condacc>SyncGate")
    .Output("gate: resource")
    .Attr("anonymous: bool = false")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .SetIsStateful()
    .SetShapeFn(ScalarShape)
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
    .Output("reservation: resource")
    .Attr("worker: string")
    .SetIsStateful()
    .SetShapeFn(Scalars)
    .Doc(R"(
Begins a worker's step.

local_step: The round in which the step begins: [] int64.
reservation: The step: [] resource. If this handle is freed before Condacc>SyncGateFinish, the step
  has failed: its slot becomes free, and its worker counts as lost until it enters again. The handle
  counts references and must not leave its device.
worker: The name of the worker. Two workers must not have the same name.
)");

REGISTER_OP("Condacc>SyncGateClaim")
    .Input("reservation: resource")
    .Output("claim: int64")
    .SetIsStateful()
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle scalar;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 0, &scalar));
      c->set_output(0, c->Vector(2));
      return absl::OkStatus();
    })
    .Doc(R"(
Asks for a slot of the round in which a step began. If there is none, or the gate is at another
round, the step's gradients are to be dropped.

claim: The round, and the slot to push gradients with: [2] int64. The round is the lowest int64 if
  there is no slot, so that accumulators drop the gradients as stale.
)");

REGISTER_OP("Condacc>SyncGateFinish")
    .Input("reservation: resource")
    .Output("round: int64")
    .SetIsStateful()
    .SetShapeFn(Scalars)
    .Doc(R"(
Tells the gate that all gradients of a step have been pushed, which completes its slot, and waits
until the worker is to begin its next step. That may be in the same round, if another worker was
lost.

round: The round of the next step: [] int64.

OutOfRange if training has ended.
)");

REGISTER_OP("Condacc>SyncGateLeave")
    .Input("gate: resource")
    .Attr("worker: string")
    .SetIsStateful()
    .SetShapeFn(Scalars)
    .Doc(R"(
Tells the gate that a worker ends, so that nobody waits for its gradients. The worker may enter
again.
)");

REGISTER_OP("Condacc>SyncGateAwaitOpen")
    .Input("gate: resource")
    .Output("round: int64")
    .Attr("worker: string")
    .SetIsStateful()
    .SetShapeFn(Scalars)
    .Doc(R"(
Waits until the gate is open.

round: The current round: [] int64.
)");

REGISTER_OP("Condacc>SyncGateAwaitFull")
    .Input("gate: resource")
    .Output("round: int64")
    .Attr("chief: string")
    .SetIsStateful()
    .SetShapeFn(Scalars)
    .Doc(R"(
Waits until all slots of the round are complete.

round: The current round: [] int64.
chief: The name of the chief that has opened the gate.

FailedPrecondition if another chief has begun to open the gate, or none has; OutOfRange if training
has ended or the chief was dismissed.
)");

REGISTER_OP("Condacc>SyncGateAdvance")
    .Input("gate: resource")
    .Input("round: int64")
    .Output("advanced: bool")
    .SetIsStateful()
    .SetShapeFn(Scalars)
    .Doc(R"(
Begins the next round, if the gate is at a round whose slots are complete.

round: The round that has been applied: [] int64.
advanced: Whether the next round was begun: [] bool. If not, nothing has changed.
)");

REGISTER_OP("Condacc>SyncGatePrepare")
    .Input("gate: resource")
    .Input("at_least: int64")
    .Output("round: int64")
    .Attr("chief: string")
    .SetIsStateful()
    .SetShapeFn(Scalars)
    .Doc(R"(
Shuts the gate, so that a chief can reset all accumulators and open it with a new round.

at_least: A round that has been used already: [] int64.
round: The round to open the gate with: [] int64. It is higher than at_least and than any round of
  the gate so far.
chief: The name of the chief. Others cannot open the gate now, or take rounds.

OutOfRange if there is no higher round.
)");

REGISTER_OP("Condacc>SyncGateOpen")
    .Input("gate: resource")
    .Input("round: int64")
    .Attr("chief: string")
    .Attr("num_slots: int >= 1")
    .Attr("num_workers: int >= 1")
    .Attr("takeover_secs: float = 0")
    .Attr("report_secs: float = 60")
    .SetIsStateful()
    .SetShapeFn(Scalars)
    .Doc(R"(
Opens the gate. Before that, all accumulators must have been reset to `round`.

round: What Condacc>SyncGatePrepare returned: [] int64.
num_slots: Number of gradients that a round averages.
num_workers: Number of workers.
takeover_secs: If nothing happens at the gate for this long, slots of workers that do not wait go to
  workers that do. 0: never.
report_secs: If a round lasts longer and a worker waits, a warning is logged. 0: never.

FailedPrecondition if another chief has prepared the gate since.
)");

REGISTER_OP("Condacc>SyncGateAddCredits")
    .Input("gate: resource")
    .Input("count: int64")
    .SetIsStateful()
    .SetShapeFn(Scalars)
    .Doc(R"(
Lets workers go on without waiting: this many of the next executions of Condacc>SyncGateFinish
output the round at which the credits were added.

count: Number of credits: [] int64.
)");

REGISTER_OP("Condacc>SyncGateClose")
    .Input("gate: resource")
    .SetIsStateful()
    .SetShapeFn(Scalars)
    .Doc(R"(
Tells the gate that training has ended. Workers and chiefs that wait get OutOfRange, until the gate
is opened again.
)");

REGISTER_OP("Condacc>SyncGateDismiss")
    .Input("gate: resource")
    .Attr("chief: string")
    .Attr("worker: string")
    .SetIsStateful()
    .SetShapeFn(Scalars)
    .Doc(R"(
Ends the waits of a chief with OutOfRange, and those of the worker in its process with Cancelled,
until the gate is prepared again. Other workers wait on.

chief: The name of the chief. Nothing happens if it is not the one that prepared the gate.
worker: The name of the worker.
)");

REGISTER_OP("Condacc>SyncGateReport")
    .Input("gate: resource")
    .Input("seen: int64")
    .Output("round: int64")
    .Output("report: string")
    .Attr("report_secs: float")
    .SetIsStateful()
    .SetShapeFn(Scalars)
    .Doc(R"(
Waits until a round has lasted for `report_secs` while a worker waits.

seen: A round that is not to be reported again: [] int64.
round: The round that has lasted for so long: [] int64.
report: What the gate knows of each worker: [] string.
report_secs: The time in seconds.
)");

REGISTER_OP("Condacc>SyncGateState")
    .Input("gate: resource")
    .Output("open: bool")
    .Output("round: int64")
    .Output("num_complete: int64")
    .Output("num_takeovers: int64")
    .Output("num_refused: int64")
    .SetIsStateful()
    .SetShapeFn(Scalars)
    .Doc(R"(
Outputs the state of a gate.

open: Whether workers can claim slots: [] bool.
round: The current round: [] int64.
num_complete: Number of complete slots: [] int64.
num_takeovers: How many times slots have been taken over so far: [] int64.
num_refused: Number of claims so far that got no slot: [] int64.
)");

REGISTER_OP("Condacc>SyncGateTaken")
    .Input("taken: bool")
    .Input("value: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("accumulator: string = ''")
    .SetShapeFn([](InferenceContext* c) {
      ShapeHandle scalar;
      TF_RETURN_IF_ERROR(c->WithRank(c->input(0), 0, &scalar));
      c->set_output(0, c->input(1));
      return absl::OkStatus();
    })
    .Doc(R"(
Passes on a value that was taken from an accumulator, or fails if nothing was taken.

taken: Whether gradients were taken: [] bool.
value: The gradient that was taken, or a part of it.
output: `value`.
accumulator: The name of the accumulator, for the error.

Aborted if nothing was taken.
)");

}  // namespace
}  // namespace condacc
