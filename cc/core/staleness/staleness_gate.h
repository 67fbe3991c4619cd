// Decides which updates of a step variable are too late, and counts accepted and dropped ones.
#ifndef CONDACC_CORE_STALENESS_STALENESS_GATE_H_
#define CONDACC_CORE_STALENESS_STALENESS_GATE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cc/core/base/function_ref.h"
#include "cc/core/base/invariant.h"
#include "cc/core/base/mutex.h"
#include "cc/core/base/reached.h"
#include "cc/core/base/saturated.h"
#include "cc/core/staleness/step_reservations.h"

namespace condacc {

// The staleness of an update is the step that the variable will have reached once all previously
// accepted updates are applied, minus the update's local step. An accepted update reserves the step
// that it will take, so that it counts in all later decisions even before it is applied. So
// decisions are atomic, although no lock is held while the variable is read or updates are applied.
//
// Updates count in the order of the decisions. With a limit above 0, later updates may overtake one
// that takes long to apply. Thread-safe.
class StalenessGate {
 public:
  struct Decision {
    bool accepted = false;
    int64_t staleness = 0;
    int64_t step = 0;         // Value of the step variable when the decision was made.
    int64_t num_dropped = 0;  // Number of dropped updates so far, over all counters.
  };

  struct Counts {
    int64_t num_accepted = 0;  // Number of updates that were accepted and applied.
    int64_t num_dropped = 0;
    std::vector<int64_t> recent;  // Staleness of the last kMaxRecent updates, in any order.
  };
  static constexpr size_t kMaxRecent = 1024;

  // Accepts an update if its staleness is at most `limit`. An accepted update must be ended by
  // End(). `counter` names the counter to which the update belongs. `read_step` reads the step
  // variable, without the gate's lock, and again if another update was decided on or ended
  // meanwhile: the decision is the one that was right at the time of the last read. If `read_step`
  // returns false, so does this, and nothing has changed. May throw std::bad_alloc, and then
  // nothing has changed either.
  bool Decide(const std::string& counter, int64_t local_step, int64_t limit,
              FunctionRef<bool(int64_t* step)> read_step, Decision* decision) {
    while (true) {
      const int64_t num_changes = num_changes_.load();
      int64_t step = 0;
      if (!read_step(&step)) return false;
      MutexLock lock(&mu_);
      if (num_changes_.load() == num_changes) {
        *decision = DecideAt(step, local_step, limit, &tallies_[counter]);
        return true;
      }
      CONDACC_REACHED("decide again");
    }
  }

  // Ends an update that Decide() has accepted with the same counter, and that has been applied or
  // has failed. Does not throw.
  void End(const std::string& counter, bool applied) {
    MutexLock lock(&mu_);
    ++num_changes_;
    reservations_.End();
    const auto found = tallies_.find(counter);
    CONDACC_INVARIANT(found != tallies_.end());
    if (applied) ++found->second.counts.num_accepted;
  }

  // Returns the counts of a counter, which are all zero if it was never used.
  Counts counts(const std::string& counter) const {
    MutexLock lock(&mu_);
    const auto found = tallies_.find(counter);
    return found == tallies_.end() ? Counts() : found->second.counts;
  }

  // Returns the number of dropped updates, over all counters.
  int64_t num_dropped() const {
    MutexLock lock(&mu_);
    return num_dropped_;
  }

  // Returns the number of accepted updates that have not ended.
  int64_t num_open() const {
    MutexLock lock(&mu_);
    return reservations_.num_open();
  }

 private:
  struct Tally {
    Tally() { counts.recent.reserve(kMaxRecent); }
    void Record(int64_t staleness) {
      if (counts.recent.size() < kMaxRecent) {
        counts.recent.push_back(staleness);
      } else {
        counts.recent[next_recent] = staleness;
        next_recent = (next_recent + 1) % kMaxRecent;
      }
    }

    Counts counts;
    size_t next_recent = 0;  // Index of the oldest, once kMaxRecent are kept.
  };

  Decision DecideAt(int64_t step, int64_t local_step, int64_t limit, Tally* tally)
      CONDACC_REQUIRES(mu_) {
    Decision decision;
    decision.step = step;
    decision.staleness = SaturatedSubtract(reservations_.ExpectedStep(step), local_step);
    decision.accepted = decision.staleness <= limit;
    CONDACC_REACHED("decide", decision.accepted, reservations_.num_open() > 0);
    if (decision.accepted) {
      reservations_.Reserve();
    } else {
      ++tally->counts.num_dropped;
      ++num_dropped_;
    }
    decision.num_dropped = num_dropped_;
    tally->Record(decision.staleness);
    ++num_changes_;
    return decision;
  }

  mutable Mutex mu_;
  std::atomic<int64_t> num_changes_{0};  // Number of decisions and ends. Changed under the lock.
  StepReservations reservations_ CONDACC_GUARDED_BY(mu_);
  std::map<std::string, Tally> tallies_ CONDACC_GUARDED_BY(mu_);
  int64_t num_dropped_ CONDACC_GUARDED_BY(mu_) = 0;
};

}  // namespace condacc

#endif  // CONDACC_CORE_STALENESS_STALENESS_GATE_H_
