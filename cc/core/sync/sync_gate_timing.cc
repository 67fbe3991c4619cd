// The methods of SyncGate for rounds that take too long: takeovers, log lines and reports.
#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "cc/core/base/reached.h"
#include "cc/core/sync/sync_gate.h"

namespace condacc {
namespace {

std::string Seconds(SyncGate::Clock::duration duration) {
  const auto tenths = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count() / 100;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

}  // namespace

void SyncGate::ArmTimer() noexcept {
  const Clock::time_point deadline = NextDeadline();
  if (deadline >= timer_deadline_) return;
  CancelTimer();
  const auto timeout = std::max(deadline - Clock::now(), Clock::duration::zero());
  try {
    // It completes ops, whose runtime may run the ops that follow in the same thread.
    const auto call = [weak = weak_from_this()] {
      if (const std::shared_ptr<SyncGate> gate = weak.lock()) gate->OnTimer();
    };
    timer_ = TimerQueue::Global().Schedule(timeout, call, /*may_block=*/true);
  } catch (const std::bad_alloc&) {
    return;
  }
  if (timer_ != TimerQueue::kNoTicket) timer_deadline_ = deadline;
}

void SyncGate::CancelTimer() noexcept {
  TimerQueue::Global().Cancel(timer_);
  timer_ = TimerQueue::kNoTicket;
  timer_deadline_ = Clock::time_point::max();
}

SyncGate::Clock::time_point SyncGate::NextDeadline() const noexcept {
  Clock::time_point deadline = Clock::time_point::max();
  const bool takes_over = options_.takeover > Clock::duration::zero() && is_open() && !is_full();
  if (takes_over && !round_waits_.empty()) deadline = last_progress_ + options_.takeover;
  if (roster_.NumUnseen(num_expected_) > 0) deadline = std::min(deadline, expected_until_);
  if (options_.report > Clock::duration::zero()) {
    if (!logged_ && has_waiting_workers()) {
      deadline = std::min(deadline, round_began_ + options_.report);
    }
    if (ends_if_abandoned()) deadline = std::min(deadline, abandoned_since_ + options_.report);
  }
  return std::min(deadline, wait_deadline_);
}

SyncGate::Clock::time_point SyncGate::DeadlineOf(const GateWait& wait) const noexcept {
  // A worker may have come too late for its training.
  if (wait.is_late && chief_.is_closed() && wait.patience > Clock::duration::zero()) {
    return wait.began + wait.patience;
  }
  if (wait.what != GateWait::For::kReport || wait.after == round_) return Clock::time_point::max();
  // If no worker waits when a report is due, the gate checks again after the same time.
  const auto patience = std::max(wait.patience, SyncGate::kShortestDuration);
  const auto due = round_began_ + patience;
  const auto now = Clock::now();
  return due > now ? due : now + patience;
}

void SyncGate::FindWaitDeadline() noexcept {
  wait_deadline_ = Clock::time_point::max();
  for (const GateWait::List* const list : {&open_waits_, &report_waits_}) {
    for (const GateWait::Ptr& wait : *list) {
      wait_deadline_ = std::min(wait_deadline_, DeadlineOf(*wait));
    }
  }
}

void SyncGate::OnTimer() {
  std::string line;
  {
    CompletingLock lock(&mu_, &ended_);
    // Another timer may have been armed since this one has fired.
    CancelTimer();
    const Clock::time_point now = Clock::now();
    if (options_.takeover > Clock::duration::zero() && now >= last_progress_ + options_.takeover) {
      TakeOver();
    }
    if (num_expected_ > 0 && now >= expected_until_) {
      StopExpecting();
      ReleaseWaits();
    }
    if (has_waiting_workers()) ReleaseReports(now);
    for (auto next = open_waits_.begin(); next != open_waits_.end();) {
      GateWait* const wait = (next++)->get();
      if (now >= DeadlineOf(*wait)) Release(wait, GateWait::End());
    }
    const bool is_late = options_.report > Clock::duration::zero() && !logged_ &&
                         now >= round_began_ + options_.report;
    if (is_late && has_waiting_workers()) {
      CONDACC_REACHED("log");
      logged_ = true;
      line = TryDescribe(where_);
    }
    if (options_.report > Clock::duration::zero() && ends_if_abandoned() &&
        now >= abandoned_since_ + options_.report) {
      EndAbandonedRound();
    }
    FindWaitDeadline();
    ArmTimer();
  }
  if (!line.empty()) log_(line);
}

void SyncGate::ReleaseReports(Clock::time_point now) noexcept {
  for (auto next = report_waits_.begin(); next != report_waits_.end();) {
    GateWait* const wait = (next++)->get();
    if (wait->after == round_ || now < round_began_ + wait->patience) continue;
    wait->report = TryDescribe(where_);
    Release(wait, GateWait::End());
  }
}

void SyncGate::EndAbandonedRound() noexcept {
  CONDACC_REACHED("abandoned round");
  const GateWait::End end{StatusCode::kFailedPrecondition,
                          "All workers are lost or have left, and nobody can bring the gradients "
                          "that the round lacks: "};
  while (!full_waits_.empty()) {
    GateWait* const wait = full_waits_.front().get();
    wait->report = TryDescribe("the gate");  // The error will have its name.
    Release(wait, end);
  }
}

void SyncGate::TakeOver() noexcept {
  if (!is_open() || is_full() || round_waits_.empty()) return;
  CONDACC_REACHED("takeover");
  for (WorkerStep* const step : steps_) Uncount(step);
  StopExpecting();
  roster_.LoseAllThatAreAbsent();
  num_needed_ = 0;
  slots_.FreeHeld();
  ++num_takeovers_;
  last_progress_ = Clock::now();
  ReleaseWaits();
}

void SyncGate::StopExpecting() noexcept {
  if (roster_.NumUnseen(std::exchange(num_expected_, 0)) == 0) return;
  CONDACC_REACHED("expectation ends");
  try {
    absent_ = DescribeAbsent();
  } catch (const std::bad_alloc&) {
    absent_ = "for fewer";  // Short enough for std::string not to allocate.
  }
  for (auto next = report_waits_.begin(); next != report_waits_.end();) TryRelease((next++)->get());
}

std::string SyncGate::DescribeAbsent() const {
  std::string names;
  size_t num_unknown = 0;
  for (const std::string& name : options_.listed) {
    if (roster_.Knows(name)) continue;
    names += (num_unknown++ == 0 ? " (" : ", ") + name;
  }
  const int num_listed = static_cast<int>(options_.listed.size());
  // Some may have come under names that are not in the list.
  const bool is_known = num_unknown == static_cast<size_t>(roster_.NumUnseen(num_listed));
  names = is_known ? names + ")" : "";
  const auto opened = expected_until_ - options_.start;
  return "no longer for " + std::to_string(roster_.NumUnseen(num_listed)) + " of " +
         std::to_string(num_listed) + " listed workers" + names + ", which have not come within " +
         Seconds(Clock::now() - opened) + ". The others compute for them until they come";
}

std::string SyncGate::TryDescribe(const std::string& gate) const noexcept {
  try {
    return DescribeLocked(gate);
  } catch (const std::bad_alloc&) {
    return "no memory";  // Short enough for std::string not to allocate.
  }
}

std::string SyncGate::DescribeLocked(const std::string& gate) const {
  const std::string after = " after " + Seconds(Clock::now() - round_began_);
  if (chief_.is_closed()) return "training has ended: " + gate + " is closed";
  if (!is_open()) {
    return gate + " is not open" + after +
           (chief_.is_dismissed() ? ": the chief has ended with an error"
            : chief_.has_been_prepared()
                ? ": a chief has begun chief_init_op and has not ended it"
                : ": no chief has run chief_init_op or started its queue runner, which the hook of "
                  "a chief does");
  }
  std::string text = gate + " is at round " + std::to_string(round_) + after + ": " +
                     std::to_string(slots_.num_complete()) + " of " +
                     std::to_string(slots_.size()) + " gradients are there";
  if (is_full()) {
    return text + (chief_came_ ? ", and the chief has not applied them yet"
                               : ", but no chief takes them: its queue runner has not been started "
                                 "(see get_chief_queue_runner)");
  }
  const std::pair<const char*, WorkerState> kStates[] = {
      {"computing", WorkerState::kComputing}, {"between steps", WorkerState::kBetweenSteps},
      {"waiting", WorkerState::kWaiting},     {"lost", WorkerState::kLost},
      {"left", WorkerState::kLeft},
  };
  for (const auto& [word, state] : kStates) {
    const std::string names = roster_.Names(state);
    if (!names.empty()) text += std::string("; ") + word + ": " + names;
  }
  const int num_unseen = roster_.NumUnseen(options_.num_workers);
  if (num_unseen > 0) {
    text += "; never seen: " + std::to_string(num_unseen) + " of " +
            std::to_string(options_.num_workers) + " workers, of which " +
            std::to_string(num_awaited()) + " are waited for";
  }
  return text;
}

}  // namespace condacc
