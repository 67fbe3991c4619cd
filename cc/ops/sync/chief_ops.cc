// Ops with which a chief opens the gate of synchronous training and takes its rounds.
#include "absl/status/status.h"
#include "cc/ops/base/shape_functions.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace condacc {
namespace {

using tensorflow::shape_inference::InferenceContext;

REGISTER_OP("Condacc>SyncGateSession")
    .Output("session: int64")
    .SetIsStateful()
    .SetShapeFn(ScalarsShape)
    .Doc(R"(
Outputs a number that identifies the session in which the op runs, on its device.

session: The same number in all runs of one session, and another one in every other session:
  [] int64.
)");

REGISTER_OP("Condacc>SyncGateAwaitFull")
    .Input("gate: resource")
    .Input("session: int64")
    .Output("round: int64")
    .Attr("chief: string")
    .SetIsStateful()
    .SetShapeFn(ScalarsShape)
    .Doc(R"(
Waits until all slots of the round are complete. A chief that has never prepared the gate waits until
it has.

session: What Condacc>SyncGateSession outputs: [] int64.
round: The current round: [] int64.
chief: The name of the chief.

FailedPrecondition if another chief has prepared the gate since this one did, or if all workers are
lost or have left; OutOfRange if training has ended or the chief was dismissed.
)");

REGISTER_OP("Condacc>SyncGateAdvance")
    .Input("gate: resource")
    .Input("session: int64")
    .Input("round: int64")
    .Output("advanced: bool")
    .Attr("chief: string")
    .SetIsStateful()
    .SetShapeFn(ScalarsShape)
    .Doc(R"(
Begins the next round, if the gate belongs to the chief and is at a round whose slots are complete.

session: What Condacc>SyncGateSession outputs: [] int64.
round: The round that has been applied: [] int64.
advanced: Whether the next round was begun: [] bool. If not, nothing has changed.
chief: The name of the chief.
)");

REGISTER_OP("Condacc>SyncGatePrepare")
    .Input("gate: resource")
    .Input("session: int64")
    .Input("at_least: int64")
    .Input("volunteers: bool")
    .Output("round: int64")
    .Output("is_chief: bool")
    .Attr("chief: string")
    .Attr("worker: string = ''")
    .SetIsStateful()
    .SetShapeFn(ScalarsShape)
    .Doc(R"(
Shuts the gate, so that a chief can reset all accumulators and open it with a new round. If the chief
has prepared or opened the gate in the same session already, nothing changes.

session: What Condacc>SyncGateSession outputs: [] int64.
at_least: A round that has been used already: [] int64.
volunteers: If true, nothing changes if another chief has opened the gate, either: [] bool.
round: The round to open the gate with: [] int64. It is higher than at_least and than any round of
  the gate so far. If nothing changes, the current round.
is_chief: Whether the gate belongs to the chief: [] bool.
chief: The name of the chief. If the gate belongs to it, others cannot open the gate now, or take
  rounds.
worker: The name of the worker of the same graph, if there is one, which is waited for from now on.
  If the gate is shut, what an earlier session of it has left at the gate is ended.

OutOfRange if there is no higher round.
)");

REGISTER_OP("Condacc>SyncGateOpen")
    .Input("gate: resource")
    .Input("session: int64")
    .Input("round: int64")
    .Input("volunteers: bool")
    .Attr("chief: string")
    .Attr("num_slots: int >= 1")
    .Attr("num_workers: int >= 1")
    .Attr("takeover_secs: float = 0")
    .Attr("report_secs: float = 60")
    .Attr("wait_for_lost: bool = false")
    .Attr("listed: list(string) = []")
    .Attr("start_secs: float = 0")
    .SetIsStateful()
    .SetShapeFn(ScalarsShape)
    .Doc(R"(
Opens the gate, unless it is open already. Before that, all accumulators must have been reset to
`round`.

session: What Condacc>SyncGateSession outputs: [] int64.
round: What Condacc>SyncGatePrepare returned: [] int64.
volunteers: The input of Condacc>SyncGatePrepare: [] bool.
num_slots: Number of gradients that a round averages.
num_workers: Number of workers.
takeover_secs: If no slot is claimed or completed for this long, slots of workers that do not wait
  go to workers that do. 0: never.
report_secs: If a round lasts longer and a worker waits, a warning is logged. 0: never.
wait_for_lost: If false, and all workers have been lost or have left for `report_secs`, the chief's
  wait fails. If true, it waits until a worker is back.
listed: The names of the workers of the cluster, if they are known.
start_secs: So many of them as a round needs are waited for until they come, but not longer than
  this after the opening. 0: not at all.

If a volunteer opens the gate, and no credits have been added in this training, as many workers as a
round needs are waited for, until credits are added or a takeover.

FailedPrecondition if another chief has prepared the gate since. Nothing happens instead if
`volunteers` is true.
)");

REGISTER_OP("Condacc>SyncGateAddCredits")
    .Input("gate: resource")
    .Input("session: int64")
    .Input("count: int64")
    .Attr("chief: string")
    .SetIsStateful()
    .SetShapeFn(ScalarsShape)
    .Doc(R"(
Lets workers go on without waiting: this many of the next executions of Condacc>SyncGateFinish
output the round at which the credits were added. If fewer credits are added than there are slots,
as many workers as slots are left are waited for even before they come, up to `num_workers`. Credits
from before the opening have no effect.

session: What Condacc>SyncGateSession outputs: [] int64.
count: Number of credits: [] int64. If it is negative, no step goes on without waiting, and no
  worker is waited for but those that are listed or have come.
chief: The name of the chief.

FailedPrecondition if the gate belongs to another chief and the count is not negative.
)");

REGISTER_OP("Condacc>SyncGateClose")
    .Input("gate: resource")
    .Input("session: int64")
    .Attr("chief: string")
    .SetIsStateful()
    .SetShapeFn(ScalarsShape)
    .Doc(R"(
Tells the gate that training has ended. Workers and chiefs that wait get OutOfRange, until the gate
is prepared again.

session: What Condacc>SyncGateSession outputs: [] int64.
chief: The name of the chief.

FailedPrecondition, and nothing is done, if the gate does not belong to the chief.
)");

REGISTER_OP("Condacc>SyncGateDismiss")
    .Input("gate: resource")
    .Input("session: int64")
    .Attr("chief: string")
    .SetIsStateful()
    .SetShapeFn(ScalarsShape)
    .Doc(R"(
Ends the waits of a chief and of its Condacc>SyncGateReport with OutOfRange, until it prepares the
gate again. If the gate belongs to the chief, also ends those of the worker of the same run with
Cancelled. Other workers wait on.

session: What Condacc>SyncGateSession outputs: [] int64.
chief: The name of the chief.
)");

REGISTER_OP("Condacc>AccumulatorRequireTaken")
    .Input("taken: bool")
    .Input("value: T")
    .Output("output: T")
    .Attr("T: type")
    .Attr("accumulator: string = ''")
    .SetShapeFn([](InferenceContext* c) {
      TF_RETURN_IF_ERROR(ScalarInput(c, 0));
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
