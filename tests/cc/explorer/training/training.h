// Synchronous training on fibers: a gate, accumulators, workers and chiefs.
#ifndef CONDACC_TESTS_EXPLORER_TRAINING_H_
#define CONDACC_TESTS_EXPLORER_TRAINING_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/base/buffer.h"
#include "cc/core/base/hold_budget.h"
#include "cc/core/dense/dense_sum.h"
#include "cc/core/sync/sync_gate.h"
#include "tests/cc/explorer/training/gate_calls.h"

namespace condacc::explorer {

// Returns a name that is too long to be copied without an allocation, which the gate may be
// refused.
inline std::string WorkerName(int number) { return "the worker of task " + std::to_string(number); }

// The state that workers and chiefs share, and its checks.
//
// There is one number for all parameters, their version, which each update raises by 1. A gradient
// holds its round and its slot, so that the value of a take shows whether it consists of exactly
// one gradient for each slot of its round.
class Training {
 public:
  // If `pushes_bundles`, a worker pushes the gradients of a step at the same time, as the server
  // does that has unpacked its bundle. Otherwise, one after the other.
  explicit Training(bool pushes_bundles);
  // Runs workers and chiefs to their ends. Returns false if fibers are left that still refer to
  // this object.
  bool Run();

 private:
  // A process that acts for a worker.
  struct Worker {
    int number;
    Actor actor;
    int64_t round = 0;
  };
  // A call with which a run of a worker comes to the gate, or a new session of it.
  struct Coming {
    std::string run;
    bool ends_sessions;  // It ends the steps and waits of earlier sessions of the same run.
    Time began;
    Time returned = kNever;
    // Whether the gate has certainly accepted it. It refuses that of a run that was replaced.
    bool is_sure = false;
  };
  // A process that acts for a chief.
  struct Chief {
    Actor actor;
    std::string worker = "";        // Name of the worker of the same process, if Prepare() is told.
    bool volunteers = false;        // It is a queue runner in a process that may not be the chief.
    bool is_deputy = false;         // It takes `round` in place of the chief.
    int64_t round = 0;              // The round that its last Prepare() has output.
    int num_earlier_prepares = -1;  // Calls of Prepare() that had ended when its last one began.
    int num_calls = 0;
    int freezes_at = -1;        // It freezes before the call with this number.
    const char* call = "";      // The call that it makes.
    bool was_replaced = false;  // It was known to be replaced when that began.
  };
  struct WaitEnd {
    StatusCode code;
    int64_t round;
  };
  static constexpr int64_t kGradientBytes = 3 * sizeof(int64_t);

  enum class StepEnd { kGoesOn, kFailed, kReplaced, kTrainingEnded };

  // Waits at the gate. If `is_fragile`, the wait is cancelled at times.
  WaitEnd Await(GateWait::For what, const Actor& who, int64_t after, bool is_fragile);
  void CancelWaits();
  // Fails if a fiber is blocked that should have been released.
  void CheckBlocked();
  void NoteEnd();  // Called when a worker or a chief has ended.

  // The workers (training_workers.cc).
  void SpawnWorker(int number, const std::string& run);
  void Work(Worker worker);
  bool AwaitOpening(Worker* worker);
  StepEnd Step(Worker* worker);
  // Ends a step: waits for the next round.
  StepEnd AwaitNextRound(Worker* worker, Time entered);
  // Returns `end`, or what happens meanwhile to a worker that goes on.
  StepEnd PushAll(const Worker& worker, const WorkerStep::Claim& claim, int64_t version,
                  StepEnd end, bool* any_added);
  void PushBundle(const WorkerStep::Claim& claim, int64_t version, bool* any_added);
  void Push(const WorkerStep::Claim& claim, int64_t version, size_t accumulator, Buffer values,
            bool* any_added);
  static void WriteGradient(const WorkerStep::Claim& claim, void* to);
  // Makes all calls of a worker, although another run has replaced this one.
  void CallLate(const Worker& worker);
  // Returns whether a new process may go on as this worker. It cannot while the process is also
  // that of a chief.
  bool MayBeNewProcess(const Worker& worker) const { return worker.number > 0 || !chief_trains_; }
  // Lets a new run, or a new session of the run, begin while this one goes on.
  void SpawnSuccessor(const Worker& worker);
  // Loses workers that are there, and takes over their slots.
  void Disturb();

  // Records the beginning and the end of a call with which a run comes.
  size_t BeginComing(const Actor& worker, bool ends_sessions);
  void EndComing(const Actor& worker, size_t coming, bool is_sure);
  // Returns whether another run, or a session that ends earlier ones, has certainly come to the
  // gate after `since`, or may have.
  bool HasSuccessor(const Actor& worker, Time since, bool of_same_run = true) const;
  bool MayHaveSuccessor(const Actor& worker, Time since) const;
  // Returns whether the gate still knows all runs that have come, so that it refuses what they do
  // once others have replaced them.
  bool KnowsAllRuns() const { return total_ >= num_workers_ && num_closes_ == 0; }
  // Draws what happens to a worker in the middle of a step, if anything.
  StepEnd DrawFault(const Worker& worker);
  void AwaitEnd();  // Returns when training is over.
  void End();       // Ends training.

  // The chiefs (training_chiefs.cc).
  void Lead(Chief chief);
  // Leads if nobody else does. Otherwise waits until training is over.
  void Volunteer(Chief chief);
  // Returns whether the gate is the chief's.
  bool PrepareAndOpen(Chief* chief);
  // Prepares and opens the gate once more in the same session, beside the chief itself.
  void SpawnSecondPreparation(const Chief& chief);
  void OpenAgain(Chief* chief);
  // Returns when no second preparation is under way: after the end of a chief, it would begin anew.
  void AwaitSecondPreparations();
  SyncGate::Prepared CallPrepare(Chief* chief);
  SyncGate::Options DrawOptions() const;
  void ResetAccumulators(Chief* chief);
  // Waits for a report about the current round, for a while.
  void Observe(const Chief& chief);
  // Leads until the chief fails or is replaced, or training has ended.
  void LeadRounds(Chief* chief);
  bool ApplyRound(Chief* chief, int64_t round);
  bool TakeGradients(Chief* chief, size_t accumulator, int64_t round);
  // The chief fails. At times, its program then ends training.
  void Fault(Chief* chief);
  void EndTraining(Chief* chief);
  // Makes all calls of a chief, although it has been replaced.
  void CallLate(Chief* chief);
  // Begins a call, before which the chief may freeze. Records whether the chief is known to have
  // been replaced by then, in which case the call must have no effect.
  void BeginCall(Chief* chief, const char* call);
  // Checks whether the call was correctly accepted or refused. Returns whether it was accepted.
  bool EndCall(const Chief& chief, bool is_accepted);
  bool IsReplaced(const Chief& chief) const { return chief.round < prepared_round_; }
  bool MayBeReplaced(const Chief& chief) const {
    if (chief.is_deputy) return IsReplaced(chief) || num_prepares_ > num_prepares_ended_;
    return num_prepares_ - 1 > chief.num_earlier_prepares;
  }

  const int num_workers_;
  const int total_;  // The number of workers that chiefs tell the gate.
  const int num_slots_;
  const int num_rounds_;
  const bool has_faults_;
  const bool takes_over_;
  const bool replaces_chief_;
  const bool workers_leave_;
  const bool gives_credits_;
  const bool has_volunteer_;
  const bool prepares_twice_;  // A chief prepares the gate twice in one session.
  const bool waits_for_lost_;  // The chief waits for workers that are lost.
  const bool renews_sessions_;
  const bool announces_workers_;  // Chiefs tell the gate who will come.
  const bool observes_;
  const bool notices_ends_;  // The gate is told of the end of a process.
  const bool is_disturbed_;
  const bool chief_trains_;  // The process of the first chief is that of the first worker.
  const bool pushes_bundles_;

  HoldBudget budget_{size_t{1} << 30};
  std::vector<std::unique_ptr<Accumulator>> accumulators_;
  std::shared_ptr<SyncGate> gate_;
  std::list<GateWait::Ptr> waits_;  // Those that have not ended.

  int num_running_ = 0;       // Workers and chiefs.
  int num_workers_left_ = 0;  // Workers that have not ended for good.
  int num_at_opening_ = 0;    // Workers that wait for an opening.
  int num_chiefs_left_ = 0;
  int num_second_preparations_ = 0;  // Those that are under way.
  int num_prepares_ = 0;             // Calls of Prepare() that have begun.
  int num_prepares_ended_ = 0;
  int64_t prepared_round_ = 0;  // The highest round that Prepare() has output.
  int num_closes_ = 0;          // Calls of Close() by a chief that was not known to be replaced.
  bool is_over_ = false;        // Training has ended.
  int64_t last_prepared_round_ = 0;  // The round that the chief had prepared that has ended it.
  bool cancels_waits_ = false;       // What is left after that is cancelled.
  int64_t num_rounds_done_ = 0;
  int64_t version_ = 0;
  std::map<int64_t, int64_t> version_of_round_;  // The version with which a round began.
  // A chief that had been replaced has updated the parameters, with a round that was its own.
  bool has_late_update_ = false;
  bool first_chief_froze_ = false;
  Time opened_ = kNever;  // When the gate was opened for the first time.
  std::map<std::string, std::vector<Coming>> comings_;  // Of each worker.
};

}  // namespace condacc::explorer

#endif  // CONDACC_TESTS_EXPLORER_TRAINING_H_
