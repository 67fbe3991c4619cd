#include "tests/cc/explorer/training/training.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "tests/cc/explorer/fibers/fibers.h"
#include "tests/cc/explorer/memory.h"
#include "tests/cc/explorer/programs/programs.h"

namespace condacc::explorer {

namespace {

std::string RunOf(int process) { return "the process of task " + std::to_string(process); }

}  // namespace

Training::Training(bool pushes_bundles)
    : num_workers_(1 + Draw(4)),
      total_(Chance(50) ? num_workers_ : 1 + Draw(6)),
      num_slots_(1 + Draw(5)),
      num_rounds_(2 + Draw(4)),
      has_faults_(Chance(75)),
      takes_over_(Chance(50)),
      replaces_chief_(Chance(40)),
      workers_leave_(Chance(33)),
      gives_credits_(Chance(20)),
      has_volunteer_(Chance(33)),
      prepares_twice_(Chance(33)),
      waits_for_lost_(Chance(75)),
      renews_sessions_(Chance(50)),
      announces_workers_(Chance(33)),
      observes_(Chance(33)),
      notices_ends_(Chance(33)),
      is_disturbed_(Chance(20)),
      chief_trains_(Chance(25)),
      pushes_bundles_(pushes_bundles) {
  WorkspaceFaults faults;
  faults.slow_percent = Chance(75) ? 0 : 15;
  SetWorkspaceFaults(faults);
  // Without memory for a timer, the gate waits for the next event, which may not come.
  const bool needs_timers = takes_over_ || announces_workers_ || !waits_for_lost_;
  gate_refused_percent = needs_timers || Chance(50) ? 0 : 1 + Draw(15);
  TimerQueue::Global().Restart(/*refuse_percent=*/0);
  const int num_accumulators = 1 + Draw(3);
  for (int i = 0; i < num_accumulators; ++i) {
    Accumulator::Options options;
    options.new_sum = NewDenseSum;
    options.sum.budget = &budget_;
    options.sum.type = ElementType::kInt64;
    options.sum.reduction = Reduction::kSum;
    options.sum.max_pending = 2;
    accumulators_.push_back(std::make_unique<Accumulator>(options));
  }
  gate_ = std::make_shared<SyncGate>("gate 'g'", std::chrono::nanoseconds(Draw(2)),
                                     [](const auto& line) {
                                       const NewPermit permit;
                                       if (line.empty()) Fail("the gate logs an empty line");
                                       if (HoldsLock()) Fail("the gate logs under a lock");
                                       Point("logs");
                                     });
}

bool Training::Run() {
  for (int i = 0; i < num_workers_; ++i) SpawnWorker(i, RunOf(i));
  num_workers_left_ = num_workers_;
  num_chiefs_left_ = replaces_chief_ ? 2 : 1;
  num_running_ += num_chiefs_left_;
  // The chiefs run in the processes of the first workers.
  Chief first{{"chief 0", RunOf(0)}, chief_trains_ ? WorkerName(0) : ""};
  if (replaces_chief_ && Chance(66)) first.freezes_at = Draw(25);
  Spawn("chief 0", [this, first, delay = has_volunteer_ && Chance(33) ? Draw(300) : 0] {
    Sleep(delay);
    Lead(first);
  });
  if (replaces_chief_) {
    Spawn("chief 1", [this, delay = Draw(600)] {
      BlockOn(&first_chief_froze_, "watches the chief", Now() + delay);
      if (!is_over_) {
        Lead({{"chief 1", RunOf(1)}});
      } else {
        --num_chiefs_left_;
        NoteEnd();
      }
    });
  }
  if (has_volunteer_) {
    // In processes of workers that are no chiefs, if there are any.
    for (int i = Draw(2); i >= 0; --i) {
      Chief volunteer{
          {"volunteer", RunOf(std::max(num_workers_ - 1, 2) + i)}, "", /*volunteers=*/true};
      Spawn("volunteer", [this, volunteer] { Volunteer(volunteer); });
      Spawn("end of volunteer", [this, volunteer, is_early = Chance(33)] {
        is_early ? Sleep(Draw(200)) : AwaitEnd();
        for (int64_t session = 0; session < 2; ++session) {
          Dismiss(*gate_, {"", volunteer.actor.run, session});
        }
      });
    }
  }
  if (Chance(10)) {
    Spawn("stranger", [this] { Dismiss(*gate_, {"", "stranger"}); });
  }
  if (is_disturbed_) Spawn("disturbance", [this] { Disturb(); });
  TimerQueue& timers = TimerQueue::Global();
  Spawn("timers", [&timers] { timers.Serve(); });
  if (!RunFibers()) {
    CheckBlocked();
    if (HasFailed()) return false;
    cancels_waits_ = true;
    Spawn("end", [this] {
      End();
      CancelWaits();
    });
    if (!RunFibers()) return false;
  }
  timers.Restart(0);
  SetWorkspaceFaults({});
  gate_.reset();
  accumulators_.clear();
  if (TakeNumBuffers() != 0) Fail("a buffer was not released when training has ended");
  return true;
}

void Training::End() {
  is_over_ = true;
  Wake(&is_over_);
}

void Training::NoteEnd() {
  // Nothing else has timers here.
  if (TimerQueue::Global().num_scheduled() > 1) Fail("the gate has more than one timer");
  if (--num_running_ == 0) TimerQueue::Global().Stop();
}

Training::WaitEnd Training::Await(GateWait::For what, const Actor& who, int64_t after,
                                  bool is_fragile) {
  auto num_ends = std::make_shared<int>(0);
  const GateWait::Ptr wait = NewWait(what, who, after, [num_ends](const GateWait&) {
    const NewPermit permit;
    if (HoldsLock()) Fail("a wait is completed under a lock");
    if (++*num_ends > 1) Fail("a wait is completed twice");
    Wake(num_ends.get());
  });
  if (what == GateWait::For::kOpening) wait->patience = std::chrono::nanoseconds(Draw(100));
  const auto position = waits_.insert(waits_.end(), wait);
  if (is_fragile && Draw(12) == 0) {
    Spawn("cancel", [gate = gate_, wait, delay = Draw(100)] {
      Sleep(delay);
      CancelWait(*gate, wait);
    });
  }
  if (cancels_waits_) CancelWait(*gate_, wait);
  BeginWait(*gate_, wait);
  while (*num_ends == 0) BlockOn(num_ends.get(), "waits at the gate");
  waits_.erase(position);
  return {CodeOf(*wait), wait->round};
}

void Training::CancelWaits() {
  const std::list<GateWait::Ptr> waits = waits_;
  for (const GateWait::Ptr& wait : waits) CancelWait(*gate_, wait);
}

// A chief may wait if no worker is left, and a worker if no chief is left that could open the gate
// again. When a chief has ended training, workers may only wait for an opening, unless another
// chief has prepared the gate since. That chief may wait as well if a worker has gone, because the
// worker was told of the end.
void Training::CheckBlocked() {
  if (num_workers_left_ == 0) return;
  const bool is_prepared_again = last_prepared_round_ < prepared_round_;
  const bool may_wait = !is_over_ || is_prepared_again || num_at_opening_ >= num_workers_left_;
  if (num_chiefs_left_ == 0 && may_wait) return;
  if (is_over_ && is_prepared_again && num_workers_left_ < num_workers_) return;
  Fail("workers or chiefs wait for ever, with " + std::to_string(num_slots_) + " slots and " +
       std::to_string(num_workers_) + " workers (" + std::to_string(num_workers_left_) +
       " are left): " + gate_->Describe());
}

namespace {

void RunOne(bool pushes_bundles) {
  auto training = std::make_unique<Training>(pushes_bundles);
  if (!training->Run()) static_cast<void>(training.release());  // Its fibers refer to it.
}

}  // namespace

void RunGateProgram() { RunOne(/*pushes_bundles=*/false); }

void RunBundleProgram() { RunOne(/*pushes_bundles=*/true); }

}  // namespace condacc::explorer
