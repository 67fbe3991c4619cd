// A plain accumulator, to which the results of the real one are compared.
#ifndef CONDACC_TESTS_EXPLORER_SEQUENTIAL_ACCUMULATOR_H_
#define CONDACC_TESTS_EXPLORER_SEQUENTIAL_ACCUMULATOR_H_

#include <cstdint>
#include <set>
#include <vector>

#include "tests/cc/explorer/programs/history.h"

namespace condacc::explorer {

// Does what an accumulator promises, one operation at a time and immediately.
class SequentialAccumulator {
 public:
  explicit SequentialAccumulator(const History& history)
      : history_(&history), ends_(history.takes.size()) {}

  // Does an operation. Returns whether its result is the one in the history.
  bool Do(const Operation& operation);
  // Returns whether all takes have ended as in the history, and the remaining state is the same.
  bool HasEndedAlike() const;

 private:
  // The state or end of a take.
  struct End {
    enum class State { kNone, kWaiting, kServed, kFailed };
    State state = State::kNone;
    StatusCode code = StatusCode::kOk;
    GradientSet gradients = 0;
    bool is_cancelled = false;
  };

  bool Apply(const Operation& apply);
  bool Request(const Operation& request);
  bool Cancel(const Operation& cancel);
  int64_t Read(Operation::Number number) const;
  ApplyOutcome OutcomeOf(const Operation& apply) const;
  bool IsReady(const TakeRecord& take) const;
  void Serve();
  void FailTake(End* end, StatusCode code);
  const TakeRecord& take(int number) const { return history_->takes[static_cast<size_t>(number)]; }
  End& end(int number) { return ends_[static_cast<size_t>(number)]; }

  const History* history_;
  int64_t global_step_ = 0;
  int64_t num_dropped_ = 0;
  GradientSet gradients_ = 0;
  std::set<int64_t> contributors_;
  std::vector<int> waiting_;  // The numbers of the waiting takes in order.
  std::vector<End> ends_;
};

// The result of the search for a linearization (Wing and Gong, 1993): an order of the operations in
// which each comes after those that returned before it was called, and a plain accumulator has the
// results of the history.
enum class Linearization { kFound, kNone, kGivenUp };
Linearization FindLinearization(const History& history);

}  // namespace condacc::explorer

#endif  // CONDACC_TESTS_EXPLORER_SEQUENTIAL_ACCUMULATOR_H_
