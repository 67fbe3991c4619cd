// The program "tower".
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cc/core/base/mutex.h"
#include "tests/cc/explorer/fibers/coverage.h"
#include "tests/cc/explorer/fibers/fibers.h"
#include "tests/cc/explorer/memory.h"
#include "tests/cc/explorer/programs/gradients.h"
#include "tests/cc/explorer/programs/programs.h"

namespace condacc::explorer {
namespace {

// Steps that run at the same time. Each has a sum of its own, to which its towers add gradients,
// and which is taken once all have. The step owns the sum and frees it when it ends, but a thread
// that folds keeps it.
template <class Gradients>
class TowerRun {
 public:
  TowerRun();
  // Returns false if fibers are left that still refer to this object.
  bool Run();

 private:
  using Workspace = typename Gradients::Workspace;

  struct Step {
    std::shared_ptr<Accumulator> sum;
    int num_towers = 0;
    bool is_ordered = true;  // The take comes after all adds. Otherwise, it comes at any time.
    int num_running = 0;     // Adds that have not returned.
    int num_added = 0;       // Adds that have succeeded.
    GradientSet added = 0;
  };
  // The outcome of a take, as the op awaits it.
  struct Outcome {
    Mutex mu;
    CondVar changed;
    bool is_set = false;
    StatusCode code = StatusCode::kOk;
    GradientSet gradients = 0;
    bool is_wrong = false;
  };

  Accumulator::Options DrawOptions();
  void Begin(size_t number);
  void Add(Step* step, int tower);
  void Take(Step* step);
  // Returns whether the take was served with a value.
  bool TryTake(Step* step);

  HoldBudget budget_{Chance(50) ? size_t{0} : size_t{1} << 30};
  Gradients gradients_;
  const int refuse_new_percent_ = Chance(80) ? 0 : 20;
  std::vector<Step> steps_;
};

template <class Gradients>
TowerRun<Gradients>::TowerRun() {
  WorkspaceFaults faults;
  faults.refused_percent = Chance(75) ? 0 : 20;
  faults.slow_percent = Chance(75) ? 0 : 30;
  SetWorkspaceFaults(faults);
  TimerQueue::Global().Restart(0);
  steps_.resize(static_cast<size_t>(1 + Draw(3)));
}

template <class Gradients>
Accumulator::Options TowerRun<Gradients>::DrawOptions() {
  Accumulator::Options options;
  options.new_sum = Gradients::kNewSum;
  options.sum.budget = &budget_;
  gradients_.Set(&options.sum);
  options.sum.small_bytes = Chance(50) ? 0 : 32 << 10;
  options.sum.max_pending = static_cast<size_t>(1 + Draw(4));
  options.sum.fold_bytes = Chance(50) ? 0 : 1 << 20;
  options.sum.long_fold_bytes = 0;
  return options;
}

template <class Gradients>
void TowerRun<Gradients>::Begin(size_t number) {
  Step& step = steps_[number];
  Accumulator::Options options = DrawOptions();
  auto owner = std::make_shared<std::weak_ptr<Accumulator>>();
  if (Chance(50)) {
    options.start_thread = [owner](const WorkspaceUser& work) {
      const NewPermit permit;
      if (Chance(30)) return false;
      Spawn("folder", [kept = owner->lock(), work] {
        Workspace workspace;
        work(workspace);
      });
      return true;
    };
  }
  step.sum = std::make_shared<Accumulator>(std::move(options));
  *owner = step.sum;
  step.num_running = step.num_towers = 1 + Draw(6);
  step.is_ordered = Chance(75);
  for (int i = 0; i < step.num_towers; ++i) {
    Spawn("tower " + std::to_string(i), [this, &step, i] { Add(&step, i); });
  }
  Spawn("take", [this, &step] { Take(&step); });
}

template <class Gradients>
void TowerRun<Gradients>::Add(Step* step, int tower) {
  constexpr int64_t kNeverStale = std::numeric_limits<int64_t>::max();
  // The op keeps the sum, which the end of the step may free.
  const std::shared_ptr<Accumulator> sum = step->sum;
  if (Chance(30)) Sleep(Draw(100));
  if (sum != nullptr) {
    Workspace workspace;
    typename Gradients::CallerMemory memory;
    Operation apply;
    apply.gradient = tower;
    apply.is_borrowed = Chance(50);
    Gradient gradient = memory.Make(gradients_, apply);
    try {
      const NewRefusal refusal(refuse_new_percent_);
      const ApplyResult result = sum->Apply(kNeverStale, std::move(gradient), workspace);
      Reached("tower adds", result.ok());
      const NewPermit permit;
      if (result.ok() && !result.is_added()) Fail("a tower's gradient was not added");
      if (!result.ok() && result.status().code() != StatusCode::kResourceExhausted) {
        Fail("a tower's gradient was refused: " + result.status().message());
      }
      step->num_added += result.ok() ? 1 : 0;
      step->added |= result.ok() ? SetOf(tower) : 0;
    } catch (const std::bad_alloc&) {
      Reached("std::bad_alloc of a call");
    }
  }
  --step->num_running;
  Wake(step);
}

template <class Gradients>
void TowerRun<Gradients>::Take(Step* step) {
  while (step->is_ordered && step->num_running > 0) BlockOn(step, "awaits the towers");
  if (Chance(30)) Sleep(Draw(100));
  // After an error for lack of memory, the gradients are still there.
  for (int i = Draw(3); i >= 0 && !TryTake(step); --i) Point("takes again");
  step->sum = nullptr;  // The step ends.
}

template <class Gradients>
bool TowerRun<Gradients>::TryTake(Step* step) {
  auto outcome = std::make_shared<Outcome>();
  const auto take = std::make_shared<PendingTake>(
      step->num_towers, [this, outcome](const Status& status, Value* value) {
        const NewPermit permit;
        if (HoldsLock()) Fail("a take is completed under a lock");
        MutexLock lock(&outcome->mu);
        if (outcome->is_set) Fail("a take is completed twice");
        outcome->is_set = true;
        outcome->code = status.code();
        if (value != nullptr) outcome->gradients = gradients_.SetIn(*value, &outcome->is_wrong);
        outcome->changed.NotifyAll();
      });
  const int num_before = step->num_added;
  const bool is_quiet = step->num_running == 0;
  Workspace workspace;
  bool is_served = false;
  try {
    const NewRefusal refusal(refuse_new_percent_);
    is_served = step->sum->TryServe(take, workspace);
  } catch (const std::bad_alloc&) {
    Reached("std::bad_alloc of a call");
    return false;
  }
  Reached("tower take", is_served, is_quiet);
  if (!is_served) {
    if (num_before >= step->num_towers) Fail("a sum of all towers is not served");
    return false;
  }
  {
    MutexLock lock(&outcome->mu);
    while (!outcome->is_set) outcome->changed.Wait(&outcome->mu);
  }
  if (outcome->code != StatusCode::kOk) {
    if (outcome->code != StatusCode::kResourceExhausted) Fail("a take of all towers failed");
    return false;
  }
  if (outcome->is_wrong) Fail("a sum of towers is wrong");
  if (CountOf(outcome->gradients) != step->num_towers) Fail("a sum lacks a tower");
  if (is_quiet && outcome->gradients != step->added) Fail("a sum has other towers than were added");
  return true;
}

template <class Gradients>
bool TowerRun<Gradients>::Run() {
  for (size_t i = 0; i < steps_.size(); ++i) Begin(i);
  if (!RunFibers()) return false;
  SetWorkspaceFaults({});
  steps_.clear();
  if (budget_.num_held() != 0) Fail("bytes are still held when all steps have ended");
  if (TakeNumBuffers() != 0) Fail("a buffer was not released when all steps have ended");
  return true;
}

template <class Gradients>
void RunTowers() {
  auto run = std::make_unique<TowerRun<Gradients>>();
  if (!run->Run()) static_cast<void>(run.release());
}

}  // namespace

void RunTowerProgram() { Chance(50) ? RunTowers<DenseGradients>() : RunTowers<SparseGradients>(); }

}  // namespace condacc::explorer
