// Ops with which a chief opens the gate of synchronous training and takes its rounds.
#include "cc/ops/base/shape_functions.h"
#include "tensorflow/core/framework/op.h"

namespace condacc {
namespace {

REGISTER_OP("Condacc>SyncGateAwaitFull")
    .Input("gate: resource")
    .Output("round: int64")
    .Attr("chief: string")
    .SetIsStateful()
    .SetShapeFn(ScalarsShape)
    .Doc(R"(
Waits until all slots of the round are complete.

round: The current round: [] int64.
chief: The name of the chief that has opened the gate.

FailedPrecondition if another chief has begun to open the gate, or none has, or if all workers are
lost or have left; OutOfRange if training has ended or the chief was dismissed.
)");

REGISTER_OP("Condacc>SyncGateAdvance")
    .Input("gate: resource")
    .Input("round: int64")
    .Output("advanced: bool")
    .Attr("chief: string")
    .SetIsStateful()
    .SetShapeFn(ScalarsShape)
    .Doc(R"(
Begins the next round, if the gate belongs to the chief and is at a round whose slots are complete.

round: The round that has been applied: [] int64.
advanced: Whether the next round was begun: [] bool. If not, nothing has changed.
chief: The name of the chief.
)");

REGISTER_OP("Condacc>SyncGatePrepare")
    .Input("gate: resource")
    .Input("at_least: int64")
    .Output("round: int64")
    .Attr("chief: string")
    .Attr("worker: string = ''")
    .SetIsStateful()
    .SetShapeFn(ScalarsShape)
    .Doc(R"(
Shuts the gate, so that a chief can reset all accumulators and open it with a new round.

at_least: A round that has been used already: [] int64.
round: The round to open the gate with: [] int64. It is higher than at_least and than any round of
  the gate so far.
chief: The name of the chief. Others cannot open the gate now, or take rounds.
worker: The name of the worker of the same graph, if there is one. What an earlier session or
  process of it has left at the gate is ended.

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
    .Attr("wait_for_lost: bool = false")
    .SetIsStateful()
    .SetShapeFn(ScalarsShape)
    .Doc(R"(
Opens the gate. Before that, all accumulators must have been reset to `round`.

round: What Condacc>SyncGatePrepare returned: [] int64.
num_slots: Number of gradients that a round averages.
num_workers: Number of workers.
takeover_secs: If no slot is claimed or completed for this long, slots of workers that do not wait
  go to workers that do. 0: never.
report_secs: If a round lasts longer and a worker waits, a warning is logged. 0: never.
wait_for_lost: If false, and all workers have been lost or have left for `report_secs`, the chief's
  wait fails. If true, it waits until a worker is back.

FailedPrecondition if another chief has prepared the gate since.
)");

REGISTER_OP("Condacc>SyncGateAddCredits")
    .Input("gate: resource")
    .Input("count: int64")
    .Attr("chief: string")
    .SetIsStateful()
    .SetShapeFn(ScalarsShape)
    .Doc(R"(
Lets workers go on without waiting: this many of the next executions of Condacc>SyncGateFinish
output the round at which the credits were added. Credits from before the opening have no effect.

count: Number of credits: [] int64.
chief: The name of the chief.

FailedPrecondition if the gate belongs to another chief.
)");

REGISTER_OP("Condacc>SyncGateClose")
    .Input("gate: resource")
    .Attr("chief: string")
    .SetIsStateful()
    .SetShapeFn(ScalarsShape)
    .Doc(R"(
Tells the gate that training has ended. Workers and chiefs that wait get OutOfRange, until the gate
is prepared again.

chief: The name of the chief.

FailedPrecondition, and nothing is done, if the gate does not belong to the chief.
)");

REGISTER_OP("Condacc>SyncGateDismiss")
    .Input("gate: resource")
    .Attr("chief: string")
    .SetIsStateful()
    .SetShapeFn(ScalarsShape)
    .Doc(R"(
Ends the waits of a chief with OutOfRange, and those of the worker of the same run with Cancelled,
until the gate is prepared again. Other workers wait on.

chief: The name of the chief. Nothing happens if the gate does not belong to it.
)");

}  // namespace
}  // namespace condacc
