// The programs "dense", "sparse" and "device".
#include <chrono>
#include <functional>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/cc/explorer/fibers/coverage.h"
#include "tests/cc/explorer/fibers/fibers.h"
#include "tests/cc/explorer/memory.h"
#include "tests/cc/explorer/programs/gradients.h"
#include "tests/cc/explorer/programs/history.h"
#include "tests/cc/explorer/programs/programs.h"
#include "tests/cc/explorer/programs/sequential_accumulator.h"

namespace condacc::explorer {
namespace {

constexpr int64_t kLastStep = std::numeric_limits<int64_t>::max();

// One run of threads that use an accumulator. `Gradients` is DenseGradients, SparseGradients or
// DeviceGradients.
template <class Gradients>
class AccumulatorRun {
 public:
  AccumulatorRun();
  // Returns false if fibers are left that still refer to this object.
  bool Run();

 private:
  static constexpr bool kIsDense = std::is_same_v<Gradients, DenseGradients>;
  using Workspace = typename Gradients::Workspace;
  using Kind = Operation::Kind;

  Accumulator::Options DrawOptions();
  void DrawOperations();
  Operation DrawOperation(int* num_gradients);
  Operation DrawApply(int gradient);
  Operation DrawRequest();
  // Restores what an earlier operation saves or, if that has not, an empty state.
  Operation DrawRestore();
  void MakeTake(size_t number);

  void RunThread(int number);
  void EndThread();
  bool Start(const WorkspaceUser& work);
  void RunOperation(Operation* operation);
  void Call(Operation* operation);
  int64_t Read(Operation::Number number) const;
  void Apply(Operation* apply);
  void TryServe(Operation* request);
  void Save(Operation* save);
  // Fails unless a save or restore may have ended with this status.
  void CheckStatus(const char* what, const Status& status) const;
  void Restore(Operation* restore);
  static constexpr SumKind kSumKind = kIsDense ? SumKind::kDense : SumKind::kSparse;

  void CheckLinearization();
  void End();

  HoldBudget budget_;
  Gradients gradients_;
  const int num_contributors_;  // If not 0, gradients are added in their order.
  const int num_threads_;
  int num_running_;
  const bool refuses_timers_;
  const int refuse_threads_percent_;
  const int refuse_new_percent_;  // Of the allocations of the core itself.
  const int fault_percent_;       // Of the applies.
  const bool moves_step_;
  const bool reaches_last_step_;
  const bool saves_often_;
  History history_;
  std::unique_ptr<Accumulator> accumulator_;
  std::vector<Accumulator::TakePtr> takes_;
};

template <class Gradients>
AccumulatorRun<Gradients>::AccumulatorRun()
    : budget_(Chance(33)   ? 0
              : Chance(50) ? 200
                           : size_t{1} << 30),
      num_contributors_(Chance(75) ? 0 : 3 + Draw(5)),
      num_threads_(1 + Draw(kIsDense ? 4 : 5)),
      num_running_(num_threads_),
      refuses_timers_(Chance(12)),
      refuse_threads_percent_(Chance(50) ? 0 : 60),
      refuse_new_percent_(Chance(75) ? 0 : 1 + Draw(15)),
      fault_percent_(Chance(50) ? 0 : 20),
      moves_step_(Chance(50)),
      reaches_last_step_(Chance(8)),
      saves_often_(Chance(25)) {
  history_.moves_step = moves_step_;
  history_.num_contributors = num_contributors_;
  gradients_.weights().AddInOrderOf(num_contributors_);
  history_.refuses_late = Gradients::kRefusesLate;
  WorkspaceFaults faults;
  faults.refused_percent = Chance(kIsDense ? 66 : 33) ? 0 : kIsDense ? 10 : 3 + Draw(60);
  faults.slow_percent = Chance(66) ? 0 : 30;
  history_.device_fails = Gradients::kRefusesLate && Chance(12);
  faults.failed_percent = history_.device_fails ? 10 : 0;
  history_.takes_need_memory = num_contributors_ > 0 && refuse_new_percent_ > 0;
  SetWorkspaceFaults(faults);
  TimerQueue::Global().Restart(refuses_timers_ ? 30 : 0);
  accumulator_ = std::make_unique<Accumulator>(DrawOptions());
  DrawOperations();
  for (size_t i = 0; i < history_.takes.size(); ++i) MakeTake(i);
}

template <class Gradients>
Accumulator::Options AccumulatorRun<Gradients>::DrawOptions() {
  Accumulator::Options options;
  options.new_sum = Gradients::kNewSum;
  if (Chance(50)) {
    options.stall_timeout = std::chrono::milliseconds(1);
    options.on_stall = [](const StallReport&) {
      if (HoldsLock()) Fail("a stall is reported under a lock");
      Point("reports a stall");
    };
  }
  options.sum.budget = &budget_;
  options.sum.num_contributors = num_contributors_;
  gradients_.Set(&options.sum);
  if constexpr (kIsDense) {
    options.sum.small_bytes = Chance(50) ? 0 : 32 << 10;
    options.sum.max_pending = static_cast<size_t>(1 + Draw(4));
    if (Chance(33)) options.sum.max_inputs = options.sum.max_pending + static_cast<size_t>(Draw(2));
  } else {
    options.sum.fold_bytes = Chance(50) ? 0 : 1 << 20;
    options.sum.long_fold_bytes = Chance(50) ? 0 : 600;
    if (Chance(66))
      options.start_thread = [this](const WorkspaceUser& work) { return Start(work); };
  }
  return options;
}

template <class Gradients>
void AccumulatorRun<Gradients>::DrawOperations() {
  const int num_operations = (kIsDense ? 5 : 8) + Draw(kIsDense ? 7 : 16);
  int num_gradients = 0;
  for (int i = 0; i < num_operations; ++i) {
    Operation operation = DrawOperation(&num_gradients);
    operation.fiber = Draw(num_threads_);
    history_.operations.push_back(std::move(operation));
  }
}

template <class Gradients>
Operation AccumulatorRun<Gradients>::DrawOperation(int* num_gradients) {
  Operation operation;
  if (saves_often_ && *num_gradients > 0 && Chance(20)) {
    if (moves_step_ && Chance(33)) return DrawRestore();
    operation.kind = Kind::kSave;
    return operation;
  }
  const int draw = Draw(22);
  if (draw < 11 || *num_gradients == 0) return DrawApply((*num_gradients)++);
  if (draw < 15) return DrawRequest();
  if (draw < 17 && !history_.takes.empty()) {
    operation.kind = Kind::kCancel;
    operation.take = Draw(static_cast<int>(history_.takes.size()));
  } else if (draw == 17 && moves_step_) {
    operation.kind = Kind::kSetStep;
    operation.step = reaches_last_step_ && Chance(50) ? kLastStep : Draw(4);
  } else if (draw == 18 && moves_step_) {
    operation.kind = Kind::kReset;
    operation.step = Draw(4);
    operation.only_forward = Chance(33);
  } else if (draw == 20) {
    operation.kind = Kind::kSave;
  } else if (draw == 21 && moves_step_) {
    return DrawRestore();
  } else {
    operation.number = static_cast<Operation::Number>(Draw(3));
  }
  return operation;
}

template <class Gradients>
Operation AccumulatorRun<Gradients>::DrawApply(int gradient) {
  Operation apply;
  apply.kind = Kind::kApply;
  apply.gradient = gradient;
  apply.is_borrowed = Chance(50);
  apply.step = Chance(66) ? 0 : Draw(4);
  if (num_contributors_ > 0) {
    apply.contributor = gradient % num_contributors_;
  } else if (Chance(50)) {
    apply.contributor = Draw(3);
  } else if (Chance(50)) {
    apply.step = kLastStep;
  }
  if (Chance(fault_percent_)) {
    apply.fault = Chance(60)   ? gradients_.DrawFault()
                  : Chance(50) ? Fault::kWeight
                               : Fault::kContributor;
    if (apply.fault == Fault::kContributor) {
      apply.contributor = -1 - Draw(3);
      if (num_contributors_ > 0 && Chance(66)) {
        apply.contributor = Chance(50) ? std::nullopt : std::optional<int64_t>(num_contributors_);
      }
    }
  }
  return apply;
}

template <class Gradients>
Operation AccumulatorRun<Gradients>::DrawRequest() {
  Operation request;
  TakeRecord take;
  take.num_required = Chance(6) ? 0 : 1 + Draw(4);
  take.only_if_ready = Chance(33);
  if (Chance(50)) take.step = Draw(3);
  take.is_refused_memory = Chance(12);
  request.kind = take.only_if_ready ? Kind::kRequestIfReady : Kind::kRequest;
  request.take = static_cast<int>(history_.takes.size());
  history_.takes.push_back(take);
  return request;
}

template <class Gradients>
Operation AccumulatorRun<Gradients>::DrawRestore() {
  Operation restore;
  restore.kind = Kind::kRestore;
  restore.step = Draw(4);
  std::vector<int> saves;
  for (size_t i = 0; i < history_.operations.size(); ++i) {
    if (history_.operations[i].kind == Kind::kSave) saves.push_back(static_cast<int>(i));
  }
  if (!saves.empty()) {
    restore.save = saves[static_cast<size_t>(Draw(static_cast<int>(saves.size())))];
  }
  return restore;
}

template <class Gradients>
void AccumulatorRun<Gradients>::MakeTake(size_t number) {
  const TakeRecord& planned = history_.takes[number];
  // A completion may come after the call has returned, and keeps the workspace until then.
  takes_.push_back(std::make_shared<PendingTake>(
      planned.num_required,
      [this, number](const Status& status, Value* value) {
        const NewPermit permit;
        Point("completes a take");
        if (HoldsLock()) Fail("a take is completed under a lock");
        if (status.ok() != (value != nullptr)) Fail("a take has a value and an error, or neither");
        TakeRecord& take = history_.takes[number];
        if (take.num_completions++ == 0) take.completed = Now();
        take.code = status.code();
        const bool is_valid = take.num_required >= 1 &&
                              (num_contributors_ == 0 || take.num_required <= num_contributors_);
        take.is_lost = is_valid && status.code() == StatusCode::kInvalidArgument;
        history_.loses_count |= take.is_lost;
        if (value != nullptr) take.gradients = gradients_.SetIn(*value, &take.has_wrong_value);
        Point("has completed a take");
      },
      planned.step));
  takes_.back()->reserve = [&planned](const Shape&) {
    return planned.is_refused_memory ? Status(StatusCode::kResourceExhausted, "refused") : Status();
  };
}

template <class Gradients>
void AccumulatorRun<Gradients>::RunThread(int number) {
  for (Operation& operation : history_.operations) {
    if (operation.fiber != number) continue;
    operation.called = Now();
    if (IsPrinting()) Tell("calls" + ToString(operation));
    Point("calls");
    RunOperation(&operation);
    Point("returns");
    operation.returned = Now();
    if (IsPrinting()) Tell("returns" + ToString(operation));
  }
  EndThread();
}

template <class Gradients>
void AccumulatorRun<Gradients>::EndThread() {
  if (--num_running_ == 0) TimerQueue::Global().Stop();
}

// What the accumulator calls to fold in another thread.
template <class Gradients>
bool AccumulatorRun<Gradients>::Start(const WorkspaceUser& work) {
  if (HoldsLock()) Fail("a thread is started under a lock");
  Point("starts a folder");
  if (Chance(refuse_threads_percent_)) return false;
  if (Chance(5)) throw std::bad_alloc();
  const NewPermit permit;
  ++num_running_;
  Spawn("folder", [this, work] {
    {
      Workspace workspace;
      work(workspace);
    }
    EndThread();
  });
  Point("has started a folder");
  return true;
}

template <class Gradients>
void AccumulatorRun<Gradients>::RunOperation(Operation* operation) {
  try {
    Call(operation);
  } catch (const std::bad_alloc&) {
    Reached("std::bad_alloc of a call", static_cast<int>(operation->kind));
    operation->threw = true;
    if (operation->kind == Kind::kApply || operation->kind == Kind::kRequest ||
        operation->kind == Kind::kRequestIfReady || operation->kind == Kind::kSave ||
        operation->kind == Kind::kRestore) {
      return;
    }
    Fail("a call needs memory:" + ToString(*operation));
  }
}

template <class Gradients>
void AccumulatorRun<Gradients>::Call(Operation* operation) {
  switch (operation->kind) {
    case Kind::kApply:
      return Apply(operation);
    case Kind::kRequest: {
      Reached("Accumulator::Request");
      auto workspace = std::make_shared<Workspace>();
      Workspace& its_workspace = *workspace;
      const NewRefusal refusal(refuse_new_percent_);
      accumulator_->Request(takes_[static_cast<size_t>(operation->take)], std::move(workspace),
                            its_workspace);
      history_.takes[static_cast<size_t>(operation->take)].is_requested = true;
      return;
    }
    case Kind::kRequestIfReady:
      return TryServe(operation);
    case Kind::kCancel: {
      Reached("Accumulator::Cancel");
      Workspace workspace;
      history_.takes[static_cast<size_t>(operation->take)].is_cancelled = true;
      const NewRefusal refusal(refuse_new_percent_);
      accumulator_->Cancel(takes_[static_cast<size_t>(operation->take)], workspace);
      return;
    }
    case Kind::kSetStep: {
      Reached("Accumulator::SetGlobalStep");
      const NewRefusal refusal(refuse_new_percent_);
      operation->result = accumulator_->SetGlobalStep(operation->step);
      return;
    }
    case Kind::kReset: {
      Reached("Accumulator::Reset", operation->only_forward);
      const NewRefusal refusal(refuse_new_percent_);
      operation->result = accumulator_->Reset(operation->step, operation->only_forward);
      return;
    }
    case Kind::kRead:
      Reached("read", static_cast<int>(operation->number));
      operation->result = Read(operation->number);
      return;
    case Kind::kSave:
      return Save(operation);
    case Kind::kRestore:
      return Restore(operation);
  }
}

template <class Gradients>
int64_t AccumulatorRun<Gradients>::Read(Operation::Number number) const {
  switch (number) {
    case Operation::Number::kAccumulated:
      return accumulator_->num_accumulated();
    case Operation::Number::kGlobalStep:
      return accumulator_->global_step();
    case Operation::Number::kDropped:
      break;
  }
  return accumulator_->num_dropped();
}

template <class Gradients>
void AccumulatorRun<Gradients>::Apply(Operation* apply) {
  Workspace workspace;
  typename Gradients::CallerMemory memory;
  Gradient gradient = memory.Make(gradients_, *apply);
  const NewRefusal refusal(refuse_new_percent_);
  gradient.contributor = apply->contributor;
  const ApplyResult result = accumulator_->Apply(apply->step, std::move(gradient), workspace);
  apply->code = result.status().code();
  Reached("Accumulator::Apply", static_cast<int>(apply->code),
          result.ok() ? static_cast<int>(result.outcome()) : 0);
  if (result.ok()) {
    apply->outcome = result.outcome();
  } else if (apply->code != StatusCode::kResourceExhausted &&
             apply->code != StatusCode::kInvalidArgument) {
    Fail("an apply failed: " + result.status().message());
  }
}

template <class Gradients>
void AccumulatorRun<Gradients>::TryServe(Operation* request) {
  const auto& take = takes_[static_cast<size_t>(request->take)];
  auto workspace = std::make_shared<Workspace>();
  Workspace& its_workspace = *workspace;
  // The completion keeps the workspace, because it may come after this call has returned.
  take->done = [done = std::move(take->done), workspace = std::move(workspace)](
                   const Status& status, Value* value) { done(status, value); };
  const NewRefusal refusal(refuse_new_percent_);
  request->was_ready = accumulator_->TryServe(take, its_workspace);
  Reached("Accumulator::TryServe", request->was_ready);
  history_.takes[static_cast<size_t>(request->take)].is_requested = request->was_ready;
}

template <class Gradients>
void AccumulatorRun<Gradients>::Save(Operation* save) {
  Workspace workspace;
  const auto allocate = [&](size_t num_bytes, char** memory) {
    if (HoldsLock()) Fail("memory for a state is allocated under a lock");
    Point("allocates memory for a state");
    save->saved_bytes.reset(new char[num_bytes]);
    save->saved_size = num_bytes;
    *memory = save->saved_bytes.get();
    return Status();
  };
  Status status;
  {
    const NewRefusal refusal(refuse_new_percent_);
    status = accumulator_->Save(workspace, allocate);
  }
  save->code = status.code();
  Reached("Accumulator::Save", static_cast<int>(save->code));
  CheckStatus("a save", status);
  if (!status.ok()) return;
  const NewPermit permit;
  SavedState state;
  status = ReadState(save->saved_bytes.get(), save->saved_size, kSumKind,
                     accumulator_->options().sum, &state);
  if (!status.ok()) Fail("a state cannot be read: " + status.message());
  save->result = state.num_accumulated();
  bool is_wrong = false;
  GradientSet saved = state.sum.num_gradients > 0 ? gradients_.SetInSaved(state.sum, &is_wrong) : 0;
  for (const SavedGradient& early : state.early) saved |= gradients_.SetInEarly(early);
  save->saved_gradients = saved;
  if (is_wrong || CountOf(saved) != save->result) Fail("a saved sum is wrong");
  for (const Operation& apply : history_.operations) {
    if (apply.kind != Kind::kApply || apply.fault == Fault::kNone) continue;
    if ((saved & SetOf(apply.gradient)) != 0) Fail("a bad gradient is saved");
  }
  save->saved_step = state.global_step;
  save->saved_dropped = state.num_dropped;
  save->saved_contributors.insert(state.contributors.begin(), state.contributors.end());
}

template <class Gradients>
void AccumulatorRun<Gradients>::CheckStatus(const char* what, const Status& status) const {
  const StatusCode code = status.code();
  const bool finds_bad = Gradients::kRefusesLate && fault_percent_ > 0;
  const bool may_be = status.ok() || code == StatusCode::kResourceExhausted ||
                      (code == StatusCode::kInternal && history_.device_fails) ||
                      (code == StatusCode::kInvalidArgument && finds_bad);
  if (!may_be) Fail(std::string(what) + " failed: " + status.message());
}

template <class Gradients>
void AccumulatorRun<Gradients>::Restore(Operation* restore) {
  const Operation* const save =
      restore->save < 0 ? nullptr : &history_.operations[static_cast<size_t>(restore->save)];
  std::vector<char> empty;
  const char* bytes = nullptr;
  size_t size = 0;
  if (save != nullptr && save->returned >= 0 && save->has_succeeded()) {
    bytes = save->saved_bytes.get();
    size = save->saved_size;
    restore->saved_step = save->saved_step;
    restore->saved_dropped = save->saved_dropped;
    restore->saved_contributors = save->saved_contributors;
    restore->saved_gradients = save->saved_gradients;
  } else {
    SavedState state;
    state.global_step = restore->saved_step = restore->step;
    const auto allocate = [&](size_t num_bytes, char** memory) {
      empty.resize(num_bytes);
      *memory = empty.data();
      return Status();
    };
    StateMemory memory(kSumKind, accumulator_->options().sum, state, allocate);
    if (!memory.AllocateWithoutSum().ok()) Fail("a state cannot be written");
    bytes = empty.data();
    size = empty.size();
  }
  Workspace workspace;
  const NewRefusal refusal(refuse_new_percent_);
  const Status status = accumulator_->Restore(bytes, size, workspace);
  restore->code = status.code();
  Reached("Accumulator::Restore", static_cast<int>(restore->code), restore->saved_gradients != 0);
  CheckStatus("a restore", status);
  if (status.ok()) history_.loses_count = true;  // It does not say how many it discards.
}

template <class Gradients>
bool AccumulatorRun<Gradients>::Run() {
  for (int i = 0; i < num_threads_; ++i) {
    Spawn("thread " + std::to_string(i), [this, i] { RunThread(i); });
  }
  TimerQueue& timers = TimerQueue::Global();
  Spawn("timers", [&timers] { timers.Serve(); });
  if (!RunFibers()) return false;
  Spawn("timers", [&timers] { timers.CallRest(); });
  if (!RunFibers()) return false;
  SetWorkspaceFaults({});
  history_.num_accumulated = accumulator_->num_accumulated();
  history_.global_step = accumulator_->global_step();
  history_.num_dropped = accumulator_->num_dropped();
  CheckHistory(history_);
  if (kIsDense) CheckLinearization();
  End();
  return true;
}

// Sparse gradients that arrive while the round is folded join a round that is already complete,
// which a plain accumulator does not do.
template <class Gradients>
void AccumulatorRun<Gradients>::CheckLinearization() {
  const Linearization result = FindLinearization(history_);
  if (result == Linearization::kGivenUp) Fail("the search for a linearization took too long");
  if (result == Linearization::kNone) Fail("no linearization:\n" + history_.ToString());
}

template <class Gradients>
void AccumulatorRun<Gradients>::End() {
  for (const auto& take : takes_) {
    Workspace workspace;
    accumulator_->Cancel(take, workspace);
    take->done = nullptr;
  }
  takes_.clear();
  accumulator_.reset();
  if (budget_.num_held() != 0) Fail("bytes are still held when the accumulator has ended");
  if (TakeNumBuffers() != 0) Fail("a buffer was not released when the accumulator has ended");
}

template <class Gradients>
void RunProgram() {
  auto run = std::make_unique<AccumulatorRun<Gradients>>();
  if (!run->Run()) static_cast<void>(run.release());  // Its fibers are blocked forever.
}

}  // namespace

void RunDenseProgram() { RunProgram<DenseGradients>(); }

void RunSparseProgram() { RunProgram<SparseGradients>(); }

void RunDeviceProgram() { RunProgram<DeviceGradients>(); }

}  // namespace condacc::explorer
