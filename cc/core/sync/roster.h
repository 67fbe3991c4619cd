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

namespace condacc {

// The workers by name, and what they are doing at the gate. A worker is *here* while one of its
// steps or waits is at the gate. A worker that is not here is *gone* if it is lost or has left, and
// otherwise between two steps. Not thread-safe. Of the methods that change the roster, only Come()
// and Leave() may throw std::bad_alloc, and then nothing has changed.
class Roster {
 public:
  // The number of replaced runs of each worker that are remembered. A process that still acts for
  // an older one is taken for a new run.
  static constexpr size_t kMaxPastRuns = 1000;

  enum class State { kBetweenSteps, kComputing, kWaiting, kLost, kLeft };

  struct Worker {
    bool is_here() const { return num_steps + num_waits > 0; }
    bool is_gone() const { return !is_here() && absence != State::kBetweenSteps; }
    State state() const {
      if (num_steps > 0) return State::kComputing;
      return num_waits > 0 ? State::kWaiting : absence;
    }

    std::string run;  // Identifies the latest process and graph with the worker's name.
    std::vector<std::string> past_runs;  // The last replaced runs, which may not come back.
    int num_steps = 0;                   // Steps that were neither taken over nor replaced.
    int num_waits = 0;
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
        worker.past_runs.reserve(past.size() + 1);
        worker.past_runs.push_back(std::move(worker.run));
        if (past.size() > kMaxPastRuns) worker.past_runs.erase(past.begin());
        worker.num_steps = worker.num_waits = 0;  // They belonged to the replaced run.
        coming = Coming::kReplaces;
      }
      worker.run.swap(came);
    }
    worker.absence = State::kBetweenSteps;
    See(&worker);
    return coming;
  }

  // Records that a worker, possibly one that was never seen, is lost or has left. An empty `run`
  // matches any run. Does nothing if `run` is not the latest one. A worker that has left does not
  // become lost.
  void Leave(const std::string& name, const std::string& run, State absence, int total) {
    Worker& worker = FindOrAdd(name, run, total);
    if (!run.empty() && worker.run != run) return;
    if (worker.absence != State::kLeft) worker.absence = absence;
  }

  // Returns whether a run of the worker has come to the gate.
  bool Knows(const std::string& name) const noexcept {
    const auto found = workers_.find(name);
    return found != workers_.end() && !found->second.run.empty();
  }

  // Returns the worker if `run` is its latest run, and null otherwise.
  Worker* Find(const std::string& name, const std::string& run) noexcept {
    const auto found = workers_.find(name);
    return found == workers_.end() || found->second.run != run ? nullptr : &found->second;
  }

  // Records that a worker has begun or ended a step or a wait.
  void See(Worker* worker) noexcept { worker->last_seen = ++num_seen_; }

  // Counts as lost all workers that are not here and have not left.
  void LoseAllThatAreAbsent() noexcept {
    for (auto& [name, worker] : workers_) {
      if (!worker.is_here() && worker.absence != State::kLeft) worker.absence = State::kLost;
    }
  }

  // Removes all workers that are not here, but not the one named `kept`.
  void ForgetAllThatAreAbsent(const std::string& kept = "") noexcept {
    for (auto next = workers_.begin(); next != workers_.end();) {
      const bool stays = next->second.is_here() || next->first == kept;
      next = stays ? std::next(next) : workers_.erase(next);
    }
  }

  // Removes workers that are gone while more than `total` are known: others have replaced them.
  void ForgetReplaced(int total) noexcept {
    for (auto next = workers_.begin(); next != workers_.end() && size() > total;) {
      next = next->second.is_gone() ? workers_.erase(next) : std::next(next);
    }
  }

  // Returns how many workers are here or between two steps, but at most `total` or, if more are
  // here, those. A worker that has never been seen is not counted: nobody knows whether it exists.
  int NumPresent(int total) const noexcept {
    int num_here = 0;
    int num_present = 0;
    for (const auto& [name, worker] : workers_) {
      num_here += worker.is_here() ? 1 : 0;
      num_present += worker.is_gone() ? 0 : 1;
    }
    return std::max(std::min(num_present, total), num_here);
  }

  bool is_empty() const noexcept { return workers_.empty(); }

  // Returns how many of `total` workers have never been seen.
  int NumUnseen(int total) const noexcept { return std::max(0, total - size()); }

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
    if (oldest != workers_.end()) workers_.erase(oldest);
  }

  std::map<std::string, Worker> workers_;
  uint64_t num_seen_ = 0;
};

}  // namespace condacc

#endif  // CONDACC_CORE_SYNC_ROSTER_H_
