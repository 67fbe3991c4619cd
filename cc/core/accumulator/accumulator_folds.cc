// When and where an accumulator folds: the part of Accumulator that adds pending gradients.
#include <cstdint>
#include <new>

#include "cc/core/accumulator/accumulator.h"

namespace condacc {

void Accumulator::FoldOrWait(const RoundPtr& round, int64_t number, bool must_add, Call* call) {
  bool may_start_folder = options_.start_thread != nullptr;
  while (round->num_added < number) {
    // An apply does not wait for a round that has left, even if too much is pending: the thread
    // that finishes the round adds everything that is pending, and will be done soon.
    const bool is_open = round->place == Place::kOpen;
    Advice advice = is_open ? round->sum->Advise(ExpectTake(*round)) : Advice::kLeave;
    if (must_add) advice = Advice::kMustFold;
    if (advice == Advice::kLeave) return;
    if (!is_open || round->work != Work::kNone) {  // Another thread works on the sum.
      if (advice != Advice::kMustFold) return;
      changed_.Wait(&mu_);
    } else if (advice == Advice::kFoldElsewhere && may_start_folder) {
      if (StartFolder(round, call)) return;
      may_start_folder = false;
    } else if (!Fold(round, call)) {
      return;
    }
  }
}

RoundSum::NextTake Accumulator::ExpectTake(const Round& round) const {
  const bool is_waiting = !takes_.empty();
  const int64_t num_required = is_waiting ? takes_.front()->num_required : last_num_required_;
  const int64_t num_missing = num_required - round.num_accumulated;
  const bool is_known = is_waiting || num_missing >= 0;
  return {is_known ? num_missing : RoundSum::kUnknown, is_waiting, last_result_bytes_};
}

bool Accumulator::Fold(const RoundPtr& round, Call* call) {
  round->work = Work::kFolding;
  const int64_t num_folded = round->sum->BeginFold();
  {
    MutexUnlock unlock(&mu_);
    round->sum->RunFold(call->workspace);
  }
  const bool has_succeeded = round->sum->EndFold();
  if (has_succeeded) round->num_added += num_folded;
  EndWork(round, call);
  return has_succeeded;
}

void Accumulator::EndWork(const RoundPtr& round, Call* call) {
  round->work = Work::kNone;
  changed_.NotifyAll();
  Proceed(round, call);
}

bool Accumulator::StartFolder(const RoundPtr& round, Call* call) {
  round->work = Work::kFolding;
  bool has_started = false;
  {
    MutexUnlock unlock(&mu_);
    try {
      has_started = options_.start_thread(
          [this, round](Workspace& workspace) { RunFolder(round, workspace); });
    } catch (const std::bad_alloc&) {
      // This call folds instead.
    }
  }
  if (!has_started) EndWork(round, call);
  return has_started;
}

void Accumulator::RunFolder(const RoundPtr& round, Workspace& workspace) {
  Call call(&mu_, workspace);
  if (round->place == Place::kOpen && !IsFrontReady()) {
    Fold(round, &call);
  } else {
    // Before the fold began, the round was discarded or a take came, which adds what is pending.
    EndWork(round, &call);
  }
}

}  // namespace condacc
