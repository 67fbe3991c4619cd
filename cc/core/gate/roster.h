// What a gate knows of each worker.
#ifndef CONDACC_CORE_GATE_ROSTER_H_
#define CONDACC_CORE_GATE_ROSTER_H_

#include <algorithm>
#include <iterator>
#include <map>
#include <string>

namespace condacc {

// The workers by name. A worker that is lost or has left is *gone* until it comes back. Not
// thread-safe.
class Roster {
 public:
  enum class State { kBetweenSteps, kComputing, kWaiting, kLost, kLeft };

  // The worker is in this state now. A name that is new may be that of a worker that was taken for
  // lost before it was seen. May throw std::bad_alloc, and has changed nothing then.
  void Note(const std::string& worker, State state) {
    const bool is_new = workers_.emplace(worker, state).second;
    if (is_new && num_unseen_lost_ > 0) --num_unseen_lost_;
    workers_[worker] = state;
  }

  // The same for a worker that may not be known, which is then ignored. Does not throw.
  void NoteKnown(const std::string& worker, State state) {
    const auto found = workers_.find(worker);
    if (found != workers_.end()) found->second = state;
  }

  // Takes everybody for lost who does not wait, out of `total` workers.
  void LoseAllThatDoNotWait(int total) {
    for (auto& [name, state] : workers_) {
      if (state != State::kWaiting && state != State::kLeft) state = State::kLost;
    }
    num_unseen_lost_ = NumUnseen(total);
  }

  void ForgetAllThatDoNotWait() {
    for (auto next = workers_.begin(); next != workers_.end();) {
      next = next->second == State::kWaiting ? std::next(next) : workers_.erase(next);
    }
    num_unseen_lost_ = 0;
  }

  // The number of workers that take part, out of `total`. Names of processes that were replaced by
  // others may be among those who are gone, but whoever is here takes part.
  int NumPresent(int total) const {
    const int num_gone = Count(State::kLost) + Count(State::kLeft);
    const int num_here = static_cast<int>(workers_.size()) - num_gone;
    return std::max(total - num_gone - num_unseen_lost_, num_here);
  }

  int NumUnseen(int total) const { return std::max(0, total - static_cast<int>(workers_.size())); }

  int Count(State state) const {
    int count = 0;
    for (const auto& worker : workers_) count += worker.second == state ? 1 : 0;
    return count;
  }

  // "a, b", or "" if there are none.
  std::string Names(State state) const {
    std::string names;
    for (const auto& [name, its_state] : workers_) {
      if (its_state != state) continue;
      if (!names.empty()) names += ", ";
      names += name;
    }
    return names;
  }

 private:
  std::map<std::string, State> workers_;
  int num_unseen_lost_ = 0;
};

}  // namespace condacc

#endif  // CONDACC_CORE_GATE_ROSTER_H_
