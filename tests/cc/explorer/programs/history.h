// The history of a run of an accumulator: its operations, when they ran, and their results.
#ifndef CONDACC_TESTS_EXPLORER_HISTORY_H_
#define CONDACC_TESTS_EXPLORER_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "cc/core/accumulator/apply_result.h"
#include "cc/core/base/status.h"
#include "tests/cc/explorer/fibers/fibers.h"

namespace condacc::explorer {

// Gradients are numbered, and a set of gradients is a mask with a bit for each.
using GradientSet = uint64_t;
constexpr int kMaxGradients = 48;
inline GradientSet SetOf(int gradient) { return GradientSet{1} << gradient; }
inline int CountOf(GradientSet set) { return __builtin_popcountll(set); }

// What is wrong with the arguments of an apply.
enum class Fault { kNone, kShape, kIndex, kWeight, kContributor };

struct Operation {
  enum class Kind {
    kApply,
    kRequest,
    kRequestIfReady,
    kCancel,
    kSetStep,
    kReset,
    kRead,
    kSave,
    kRestore,
  };

  Kind kind = Kind::kRead;
  int fiber = 0;
  // The arguments.
  int64_t step = 0;  // The local step of an apply, or the step that is set or restored.
  enum class Number { kAccumulated, kGlobalStep, kDropped };
  Number number = Number::kAccumulated;  // What is read.
  int gradient = -1;
  bool is_borrowed = false;
  Fault fault = Fault::kNone;
  std::optional<int64_t> contributor;
  int take = -1;
  bool only_forward = false;  // The reset does nothing if the step does not increase.
  // The save whose state is restored. An empty state is restored if there is none.
  int save = -1;
  // When the call began and returned.
  Time called = -1;
  Time returned = -1;
  // The results.
  bool threw = false;                 // The call threw std::bad_alloc.
  StatusCode code = StatusCode::kOk;  // Of an apply, a save or a restore.
  ApplyOutcome outcome = ApplyOutcome::kAdded;
  bool was_ready = false;
  int64_t result = 0;  // The previous step, or a number that was read or saved.
  // The state that was saved or restored.
  int64_t saved_step = 0;
  int64_t saved_dropped = 0;
  std::set<int64_t> saved_contributors;
  GradientSet saved_gradients = 0;
  std::unique_ptr<char[]> saved_bytes;  // Only of a save.
  size_t saved_size = 0;

  bool has_succeeded() const { return !threw && code == StatusCode::kOk; }
};

struct TakeRecord {
  int64_t num_required = 0;
  std::optional<int64_t> step;
  bool only_if_ready = false;
  bool is_refused_memory = false;  // There is no memory to hand a value out.
  bool is_requested = false;
  bool is_cancelled = false;
  int num_completions = 0;
  Time completed = kNever;  // The first time.
  StatusCode code = StatusCode::kOk;
  GradientSet gradients = 0;
  bool has_wrong_value = false;
  bool is_lost = false;  // The take has failed because of a bad index, and its round is lost.

  bool is_waiting() const { return is_requested && num_completions == 0; }
  bool is_served() const { return num_completions > 0 && code == StatusCode::kOk; }
};

struct History {
  std::vector<Operation> operations;
  std::vector<TakeRecord> takes;
  // The state of the accumulator at the end.
  int64_t num_accumulated = 0;
  int64_t global_step = 0;
  int64_t num_dropped = 0;
  bool moves_step = false;  // Operations may set the step.
  // If not 0, gradients are added in the order of this many contributors.
  int num_contributors = 0;
  // Bad indices are found only when gradients are merged, and then their round is lost.
  bool refuses_late = false;
  // A take needs memory for the addresses of gradients that came before those of lower
  // contributors, and may be refused it.
  bool takes_need_memory = false;
  bool device_fails = false;  // Then a round may end with an error, and its gradients are lost.
  bool loses_count = false;   // It is not known how many gradients were lost or discarded.

  std::string ToString() const;
};

std::string ToString(const Operation& operation);

// Fails if a gradient was lost or taken twice, if a take was not completed exactly once and in its
// turn, or if takes wait although there are enough gradients.
void CheckHistory(const History& history);

}  // namespace condacc::explorer

#endif  // CONDACC_TESTS_EXPLORER_HISTORY_H_
