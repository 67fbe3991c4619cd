// The program "staleness".
#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "cc/core/staleness/staleness_gate.h"
#include "tests/cc/explorer/fibers/coverage.h"
#include "tests/cc/explorer/fibers/fibers.h"
#include "tests/cc/explorer/programs/programs.h"

namespace condacc::explorer {
namespace {

// Updates of a step variable. Each reads the variable, asks the gate for a decision, and increments
// the variable if it was accepted.
class StalenessRun {
 public:
  // Returns false if fibers are left that still refer to this object.
  bool Run();

 private:
  struct Update {
    std::string counter;
    int64_t local_step = 0;
    StalenessGate::Decision decision;
    bool is_decided = false;
    bool fails = false;         // It is accepted and not applied.
    int64_t read = 0;           // The value that the decision has read,
    Time read_at = -1;          // when it did,
    Time called = -1;           // when the decision was asked for,
    Time returned = -1;         // when it was returned,
    Time incremented = kNever;  // and when the update was applied.
    Time ended = kNever;
  };

  void RunUpdate(Update* update);
  bool Decide(Update* update);
  bool ReadStep(Update* update, int64_t* step);
  void End(Update* update, bool applied);
  // The step that the variable reaches once the updates accepted before this one are applied.
  int64_t ExpectedOf(const Update& update) const {
    return update.decision.staleness + update.local_step;
  }
  void CheckDecisions() const;
  // If no other writes come and no update fails, accepted updates have consecutive steps.
  void CheckSteps() const;
  // Failures may drop one update too many, and never accept one too many.
  void CheckBounds() const;
  void CheckCounts() const;

  const int64_t first_ = Chance(90) ? Draw(3) : INT64_MAX - 3;
  const int64_t limit_ = Draw(4);
  const bool has_failures_ = Chance(33);
  const bool has_writes_ = Chance(25);  // Increments that the gate does not know of, and others.
  const int refuse_new_percent_ = Chance(75) ? 0 : 30;
  int64_t variable_ = first_;
  StalenessGate gate_;
  std::vector<std::vector<Update>> updates_;  // Of each thread.
};

bool StalenessRun::ReadStep(Update* update, int64_t* step) {
  const NewPermit permit;
  if (HoldsLock()) Fail("the variable is read under a lock");
  Point("reads the step");
  if (has_failures_ && Chance(5)) return false;
  update->read = *step = variable_;
  update->read_at = Now();
  Point("has read the step");
  return true;
}

bool StalenessRun::Decide(Update* update) {
  update->called = Now();
  const auto read = [&](int64_t* step) { return ReadStep(update, step); };
  const NewRefusal refusal(refuse_new_percent_);
  const bool is_decided =
      gate_.Decide(update->counter, update->local_step, limit_, read, &update->decision);
  Reached("StalenessGate::Decide", is_decided);
  return is_decided;
}

void StalenessRun::End(Update* update, bool applied) {
  Reached("StalenessGate::End", applied);
  gate_.End(update->counter, applied);
  update->ended = Now();
  if (IsPrinting()) Tell(applied ? "has ended an update" : "has ended an update that failed");
}

void StalenessRun::RunUpdate(Update* update) {
  update->local_step = variable_;
  if (Chance(25)) update->local_step -= Draw(3);
  if (Chance(50)) Sleep(Draw(40));
  try {
    update->is_decided = Decide(update);
  } catch (const std::bad_alloc&) {
    Reached("std::bad_alloc of a call");
  }
  update->returned = Now();
  if (!update->is_decided) return;
  if (IsPrinting()) {
    Tell("of local step " + std::to_string(update->local_step) + " is " +
         (update->decision.accepted ? "accepted" : "dropped") + " with staleness " +
         std::to_string(update->decision.staleness));
  }
  if (!update->decision.accepted) return;
  if (Chance(50)) Sleep(Draw(40));
  update->fails = has_failures_ && Chance(40);
  const bool increments = !update->fails || Chance(50);
  if (increments) {
    variable_ = SaturatedAdd(variable_, 1);
    update->incremented = Now();
  }
  Point("applies");
  End(update, !update->fails);
}

bool StalenessRun::Run() {
  updates_.resize(static_cast<size_t>(1 + Draw(4)));
  for (size_t i = 0; i < updates_.size(); ++i) {
    updates_[i].resize(static_cast<size_t>(1 + Draw(4)));
    for (Update& update : updates_[i]) update.counter = Chance(50) ? "a" : "b";
    Spawn("thread " + std::to_string(i), [this, i] {
      for (Update& update : updates_[i]) RunUpdate(&update);
    });
  }
  if (has_writes_) {
    Spawn("writer", [this] {
      for (int i = Draw(3); i >= 0; --i) {
        Sleep(Draw(60));
        variable_ = Chance(50) ? SaturatedAdd(variable_, 1) : Draw(20);
      }
    });
  }
  Spawn("reader", [this] {
    int64_t num_dropped = 0;
    for (int i = Draw(3); i >= 0; --i) {
      Sleep(Draw(60));
      Reached("StalenessGate::num_dropped");
      const int64_t now = gate_.num_dropped();
      if (now < std::exchange(num_dropped, now)) Fail("the number of dropped updates has fallen");
      Reached("StalenessGate::counts");
      if (gate_.counts("never used").num_dropped != 0) Fail("a counter that was never used counts");
      Reached("StalenessGate::num_open");
      if (gate_.num_open() < 0) Fail("more updates have ended than were accepted");
    }
  });
  if (!RunFibers()) return false;
  CheckDecisions();
  if (!has_writes_ && !has_failures_) CheckSteps();
  if (!has_writes_) CheckBounds();
  CheckCounts();
  return true;
}

void StalenessRun::CheckDecisions() const {
  for (const auto& thread : updates_) {
    for (const Update& update : thread) {
      if (!update.is_decided) continue;
      const StalenessGate::Decision& decision = update.decision;
      if (decision.accepted != (decision.staleness <= limit_)) Fail("a decision breaks its limit");
      if (decision.step != update.read) Fail("a decision is about another value than it has read");
      if (ExpectedOf(update) < decision.step) Fail("an expected step is behind the variable");
    }
  }
}

void StalenessRun::CheckSteps() const {
  std::vector<int64_t> accepted;
  for (const auto& thread : updates_) {
    for (const Update& update : thread) {
      if (update.decision.accepted) accepted.push_back(ExpectedOf(update));
    }
  }
  std::sort(accepted.begin(), accepted.end());
  for (size_t i = 0; i < accepted.size(); ++i) {
    if (accepted[i] != SaturatedAdd(first_, static_cast<int64_t>(i))) {
      Fail("accepted updates do not take consecutive steps");
    }
  }
  if (variable_ != SaturatedAdd(first_, static_cast<int64_t>(accepted.size()))) {
    Fail("the variable has not reached the last step");
  }
}

// The order of the last reads is that of the decisions: a read before another decision is repeated.
void StalenessRun::CheckBounds() const {
  for (const auto& thread : updates_) {
    for (const Update& update : thread) {
      if (!update.is_decided) continue;
      int64_t num_open = 0;
      int64_t num_coming = 0;
      for (const auto& other_thread : updates_) {
        for (const Update& other : other_thread) {
          if (!other.decision.accepted || other.read_at >= update.read_at) continue;
          num_open += other.ended >= update.read_at ? 1 : 0;
          const bool is_coming = other.incremented != kNever && other.incremented >= update.read_at;
          num_coming += is_coming ? 1 : 0;
        }
      }
      if (ExpectedOf(update) < SaturatedAdd(update.read, num_coming)) {
        Fail("an update was found less stale than it is");
      }
      if (ExpectedOf(update) > SaturatedAdd(update.read, num_open)) {
        Fail("an update was found staler than it may be");
      }
    }
  }
}

void StalenessRun::CheckCounts() const {
  if (gate_.num_open() != 0) Fail("updates are open that have ended");
  int64_t all_dropped = 0;
  for (const char* const counter : {"a", "b"}) {
    int64_t num_accepted = 0;
    int64_t num_dropped = 0;
    std::vector<int64_t> staleness;
    for (const auto& thread : updates_) {
      for (const Update& update : thread) {
        if (!update.is_decided || update.counter != counter) continue;
        staleness.push_back(update.decision.staleness);
        num_dropped += update.decision.accepted ? 0 : 1;
        num_accepted += update.decision.accepted && !update.fails ? 1 : 0;
      }
    }
    StalenessGate::Counts counts = gate_.counts(counter);
    std::sort(staleness.begin(), staleness.end());
    std::sort(counts.recent.begin(), counts.recent.end());
    if (counts.num_accepted != num_accepted)
      Fail("a counter has another number of applied updates");
    if (counts.num_dropped != num_dropped) Fail("a counter has another number of dropped updates");
    if (counts.recent != staleness) Fail("a counter has other recent updates");
    all_dropped += num_dropped;
  }
  if (gate_.num_dropped() != all_dropped) Fail("the gate has another number of dropped updates");
  int64_t last_told = 0;
  for (const auto& thread : updates_) {
    for (const Update& update : thread) {
      last_told = std::max(last_told, update.decision.num_dropped);
    }
  }
  if (last_told != all_dropped) Fail("decisions tell another number of dropped updates");
}

}  // namespace

void RunStalenessProgram() {
  auto run = std::make_unique<StalenessRun>();
  if (!run->Run()) static_cast<void>(run.release());
}

}  // namespace condacc::explorer
