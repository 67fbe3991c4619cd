// Decides at each scheduling point which fiber runs next.
#ifndef CONDACC_TESTS_EXPLORER_STRATEGY_H_
#define CONDACC_TESTS_EXPLORER_STRATEGY_H_

#include <memory>
#include <vector>

#include "tests/cc/explorer/fibers/schedule_id.h"

namespace condacc::explorer {

class Strategy {
 public:
  static constexpr int kNone = -1;

  virtual ~Strategy() = default;
  // Called for each new fiber. Fibers are numbered from 0.
  virtual void Add(int fiber) = 0;
  // Returns one of `runnable`, which is not empty. `current` is the fiber that has reached the
  // point, or kNone if it cannot continue.
  virtual int Choose(const std::vector<int>& runnable, int current) = 0;
};

// Returns the strategy of a schedule:
// - kRandom leaves the running fiber with a probability that is drawn for the whole run, and
//   continues with any other.
// - kPct is probabilistic concurrency testing (Burckhardt et al., 2010) with depth 3. Fibers have
//   random priorities, and the one with the highest runs. At 2 random points, the fiber that would
//   run next gets a priority below all others. A bug that shows whenever 3 events of n fibers come
//   in a certain order is found in a run of k points with a probability of at least 1 / (n k^2).
std::unique_ptr<Strategy> MakeStrategy(const ScheduleId& id);

}  // namespace condacc::explorer

#endif  // CONDACC_TESTS_EXPLORER_STRATEGY_H_
