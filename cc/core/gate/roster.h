// The workers of a gate and their states.
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

  // Sets the state of a worker. A new name is taken for that of a worker that was counted as lost
  // before it was seen, if there is one. May throw std::bad_alloc, and then nothing has changed.
  void Note(const std::string& worker, State state) {
    const bool is_new = workers_.emplace(worker, state).second;
    if (is_new && num_unseen_lost_ > 0) --num_unseen_lost_;
    workers_[worker] = state;
  }

  // Sets the state of a worker, or does nothing if its name is not known. Does not throw.
  void NoteKnown(const std::string& worker, State state) {
    const auto found = workers_.find(worker);
    if (found != workers_.end()) found->second = state;
  }

  // Counts all workers as lost that neither wait nor have left. Those of `total` workers that have
  // never been seen are counted, too.
  void LoseAllThatDoNotWait(int total) {
    for (auto& [name, state] : workers_) {
      if (state != State::kWaiting && state != State::kLeft) state = State::kLost;
    }
    num_unseen_lost_ = NumUnseen(total);
  }

  // Removes all workers that do not wait.
  void ForgetAllThatDoNotWait() {
    for (auto next = workers_.begin(); next != workers_.end();) {
      next = next->second == State::kWaiting ? std::next(next) : workers_.erase(next);
    }
    num_unseen_lost_ = 0;
  }

  // Returns how many of `total` workers are not gone. Processes that were replaced by others may
  // still be listed as gone, so the result is never lower than the number of known workers that are
  // present.
  int NumPresent(int total) const {
    const int num_gone = Count(State::kLost) + Count(State::kLeft);
    const int num_here = static_cast<int>(workers_.size()) - num_gone;
    return std::max(total - num_gone - num_unseen_lost_, num_here);
  }

  // Returns how many of `total` workers have never been seen.
  int NumUnseen(int total) const { return std::max(0, total - static_cast<int>(workers_.size())); }

  int Count(State state) const {
    int count = 0;
    for (const auto& worker : workers_) count += worker.second == state ? 1 : 0;
    return count;
  }

  // Returns the names of the workers in a state, such as "a, b", or "" if there are none.
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
  int num_unseen_lost_ = 0;  // Workers that were counted as lost before they were seen.
};

}  // namespace condacc

#endif  // CONDACC_CORE_GATE_ROSTER_H_
