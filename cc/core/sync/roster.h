// The workers of a gate.
#ifndef CONDACC_CORE_SYNC_ROSTER_H_
#define CONDACC_CORE_SYNC_ROSTER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cc/core/base/invariant.h"

namespace condacc {

// The workers by name, and what they are doing at the gate. A worker is *here* while one of its
// steps or waits is at the gate. A worker that is not here is *gone* if it is lost or has left, and
// otherwise between two steps. Not thread-safe. Of the methods that change the roster, only Come()
// and Leave() may throw std::bad_alloc, and then nothing has changed. They and the methods that
// concern one worker look at the others only if more are known than there should be.
class Roster {
 public:
  // The number of replaced runs of each worker that are remembered. A process that still acts for
  // an older one is taken for a new run.
  static constexpr size_t kMaxPastRuns = 1000;

  enum class State { kBetweenSteps, kComputing, kWaiting, kLost, kLeft };

  struct Worker {
    bool is_here() const { return num_steps + num_waits() > 0; }
    bool is_gone() const { return !is_here() && absence != State::kBetweenSteps; }
    State state() const {
      if (num_steps > 0) return State::kComputing;
      return num_waits() > 0 ? State::kWaiting : absence;
    }
    int num_waits() const { return num_round_waits + num_open_waits; }

    std::string run;  // Identifies the latest process and graph with the worker's name.
    std::vector<std::string> past_runs;  // The last replaced runs, which may not come back.
    int num_steps = 0;                   // Steps that were neither taken over nor replaced.
    int num_round_waits = 0;             // Waits for the next round.
    int num_open_waits = 0;              // Waits for the gate to open.
    // The state of the worker while it is not here: kBetweenSteps, kLost or kLeft.
    State absence = State::kBetweenSteps;
    uint64_t last_seen = 0;
  };

  enum class Coming {
    kSame,      // The run is the latest one, or the first one.
    kReplaces,  // The run replaces another one of the same name.
    kReplaced,  // Another run has replaced this one, which must end.
  };

  // Records that a run of a worker is about to begin a step or a wait, so that the worker is no
  // longer gone. If `total` workers are known already, a new name replaces one that is gone or,
  // failing that, the worker between two steps that was seen least recently.
  Coming Come(const std::string& name, const std::string& run, int total) {
    Worker& worker = FindOrAdd(name, run, total);
    Coming coming = Coming::kSame;
    if (worker.run != run) {
      const auto& past = worker.past_runs;
      if (std::find(past.begin(), past.end(), run) != past.end()) return Coming::kReplaced;
      std::string came = run;
      if (!worker.run.empty()) {
        worker.past_runs.push_back(std::move(worker.run));
        if (past.size() > kMaxPastRuns) worker.past_runs.erase(past.begin());
        coming = Coming::kReplaces;
      }
      worker.run.swap(came);
    }
    Change(&worker, [&] {
      if (coming == Coming::kReplaces) {
        // They belonged to the replaced run.
        worker.num_steps = worker.num_round_waits = worker.num_open_waits = 0;
      }
      worker.absence = State::kBetweenSteps;
    });
    worker.last_seen = ++num_seen_;
    return coming;
  }

  // Records that a worker, possibly one that was never seen, is lost or has left. An empty `run`
  // matches any run. Does nothing if `run` is not the latest one. A worker that has left does not
  // become lost.
  void Leave(const std::string& name, const std::string& run, State absence, int total) {
    Worker& worker = FindOrAdd(name, run, total);
    if (run.empty() || worker.run == run) SetAbsence(&worker, absence);
  }

  // Returns whether a run of the worker has come to the gate.
  bool Knows(const std::string& name) const noexcept {
    const auto found = workers_.find(name);
    return found != workers_.end() && !found->second.run.empty();
  }

  // Returns the worker if `run` is its latest run, and null otherwise.
  const Worker* Find(const std::string& name, const std::string& run) noexcept {
    return FindLatest(name, run);
  }

  // Adds `count`, which may be negative, to one of the numbers of a worker: its steps or its waits.
  // Returns false, and does nothing, unless `run` is its latest run.
  bool Add(const std::string& name, const std::string& run, int Worker::* number,
           int count) noexcept {
    Worker* const worker = FindLatest(name, run);
    if (worker == nullptr) return false;
    Change(worker, [=] { worker->*number += count; });
    return true;
  }

  // Records that a step or a wait of a worker has ended, and where the worker is while it is not
  // here. A worker that has left stays so. Does nothing unless `run` is its latest run.
  void See(const std::string& name, const std::string& run, State absence) noexcept {
    Worker* const worker = FindLatest(name, run);
    if (worker == nullptr) return;
    SetAbsence(worker, absence);
    worker->last_seen = ++num_seen_;
  }

  // Counts as lost all workers that are not here and have not left, and the others as soon as they
  // are not here, unless See() says where they are.
  void LoseAllThatAreAbsent() noexcept {
    for (auto& [name, worker] : workers_) SetAbsence(&worker, State::kLost);
  }

  // Removes all workers that are not here, but not the one named `kept`.
  void ForgetAllThatAreAbsent(const std::string& kept = "") noexcept {
    for (auto next = workers_.begin(); next != workers_.end();) {
      const bool stays = next->second.is_here() || next->first == kept;
      next = stays ? std::next(next) : Forget(next);
    }
  }

  // Removes workers that are gone while more than `total` are known: others have replaced them.
  void ForgetReplaced(int total) noexcept {
    for (auto next = workers_.begin(); num_gone_ > 0 && size() > total;) {
      next = next->second.is_gone() ? Forget(next) : std::next(next);
    }
  }

  // Returns how many workers are here or between two steps, but at most `total` or, if more are
  // here, those. A worker that has never been seen is not counted: nobody knows whether it exists.
  int NumPresent(int total) const noexcept {
    return std::max(std::min(size() - num_gone_, total), num_here_);
  }

  bool is_empty() const noexcept { return workers_.empty(); }

  // Returns how many of `total` workers have never been seen.
  int NumUnseen(int total) const noexcept { return std::max(0, total - size()); }

  // Returns whether the numbers that are kept are those of the workers; only for invariants.
  bool CountsAreRight() const noexcept {
    int num_here = 0;
    int num_gone = 0;
    for (const auto& [name, worker] : workers_) {
      num_here += worker.is_here() ? 1 : 0;
      num_gone += worker.is_gone() ? 1 : 0;
    }
    return std::pair(num_here, num_gone) == std::pair(num_here_, num_gone_);
  }

  // Returns the names of the workers in a state, such as "a, b", or "" if there are none. May throw
  // std::bad_alloc.
  std::string Names(State state) const {
    std::string names;
    for (const auto& [name, worker] : workers_) {
      if (worker.state() != state) continue;
      if (!names.empty()) names += ", ";
      names += name;
    }
    return names;
  }

 private:
  using Workers = std::map<std::string, Worker>;

  int size() const noexcept { return static_cast<int>(workers_.size()); }

  Worker& FindOrAdd(const std::string& name, const std::string& run, int total) {
    auto found = workers_.find(name);
    if (found == workers_.end()) {
      Worker worker;
      worker.run = run;
      found = workers_.emplace(name, std::move(worker)).first;
      ForgetReplacedBy(found->first, total);
    }
    return found->second;
  }

  // If more than `total` workers are known, removes the one that `added` replaces.
  void ForgetReplacedBy(const std::string& added, int total) noexcept {
    ForgetReplaced(total);
    if (size() <= total) return;
    auto oldest = workers_.end();
    for (auto each = workers_.begin(); each != workers_.end(); ++each) {
      if (each->second.is_here() || each->first == added) continue;
      const bool is_older =
          oldest == workers_.end() || each->second.last_seen < oldest->second.last_seen;
      if (is_older) oldest = each;
    }
    if (oldest != workers_.end()) Forget(oldest);
  }

  Workers::iterator Forget(Workers::iterator worker) noexcept {
    num_gone_ -= worker->second.is_gone() ? 1 : 0;
    return workers_.erase(worker);
  }

  Worker* FindLatest(const std::string& name, const std::string& run) noexcept {
    const auto found = workers_.find(name);
    return found == workers_.end() || found->second.run != run ? nullptr : &found->second;
  }

  void SetAbsence(Worker* worker, State absence) noexcept {
    if (worker->absence == State::kLeft) return;
    Change(worker, [=] { worker->absence = absence; });
  }

  // Calls `change`, which changes the worker, and counts the worker anew.
  template <class Function>
  void Change(Worker* worker, Function change) noexcept {
    num_here_ -= worker->is_here() ? 1 : 0;
    num_gone_ -= worker->is_gone() ? 1 : 0;
    change();
    CONDACC_INVARIANT(worker->num_steps >= 0 && worker->num_round_waits >= 0);
    CONDACC_INVARIANT(worker->num_open_waits >= 0);
    num_here_ += worker->is_here() ? 1 : 0;
    num_gone_ += worker->is_gone() ? 1 : 0;
  }

  Workers workers_;
  int num_here_ = 0;  // The workers that are here.
  int num_gone_ = 0;  // The workers that are gone.
  uint64_t num_seen_ = 0;
};

}  // namespace condacc

#endif  // CONDACC_CORE_SYNC_ROSTER_H_
