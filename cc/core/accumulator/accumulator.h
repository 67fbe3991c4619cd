// The state machine of a conditional accumulator.
#ifndef CONDACC_CORE_ACCUMULATOR_ACCUMULATOR_H_
#define CONDACC_CORE_ACCUMULATOR_ACCUMULATOR_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "cc/core/accumulator/apply_result.h"
#include "cc/core/accumulator/pending_takes.h"
#include "cc/core/accumulator/stall_report.h"
#include "cc/core/accumulator/step_counter.h"
#include "cc/core/accumulator/sum_contract.h"
#include "cc/core/base/mutex.h"
#include "cc/core/base/status.h"
#include "cc/core/base/timer_queue.h"

namespace condacc {

// Accepts gradients that are not stale, and serves takes in the order in which they came. A take is
// served when all takes before it have ended and enough gradients have been accepted. It gets all
// of them, and moves the global step on by one.
//
// `Sum` defines what a gradient is and how gradients are added (see SumContract). Gradients are
// added in order of arrival. The threads that call the accumulator do the work, never under the
// lock, and with the memory and threads of the `Sum::Workspace` that each call passes. One thread
// at a time folds the pending gradients of a round into its sum, while other threads append further
// ones. A round leaves the accumulator as soon as it is taken. If a thread is folding it at that
// time, that thread finishes the round and completes the take; otherwise, the thread that serves
// the take does.
//
// Thread-safe. An error leaves everything as it was, except that a take that fails because of bad
// gradients removes these. Completions run without any lock.
template <class Sum>
class Accumulator {
 public:
  using Contract = SumContract<Sum>;
  using Gradient = typename Contract::Gradient;
  using Value = typename Contract::Value;
  using Workspace = typename Contract::Workspace;
  using Take = PendingTake<Value, Workspace>;
  using TakePtr = std::shared_ptr<Take>;

  struct Options {
    std::string name;
    typename Sum::Options sum;
    // A take that waits for longer is reported once. Zero means never.
    std::chrono::milliseconds stall_timeout{0};
    std::function<void(const StallReport&)> on_stall;
    // If memory for a take is refused, the take behind it is tried again after this time, unless
    // another call tries it before.
    std::chrono::milliseconds retry_delay{500};
  };

  explicit Accumulator(Options options)
      : options_(std::move(options)), round_(std::make_shared<Round>(options_.sum)) {}

  // Adds the gradient unless it is stale. A gradient that names a contributor is added only if its
  // local step is the global step and the contributor has no gradient in the round yet. Gradients
  // with and without a contributor may be mixed. Returns InvalidArgument if the contributor is
  // negative, or if the gradient would be added and does not fit, and ResourceExhausted if memory
  // that it needs is refused. May throw std::bad_alloc. After an error, the contributor may apply
  // another gradient.
  ApplyResult Apply(int64_t local_step, Gradient gradient, Workspace& workspace,
                    std::optional<int64_t> contributor = std::nullopt) CONDACC_EXCLUDES(mu_);

  // Completes `take`, before this returns or later. Until then, `keep_alive` is held, and has to
  // keep the workspace and the accumulator alive. The completion must not throw. Its status may be
  // - InvalidArgument if num_required < 1;
  // - OutOfRange if the global step cannot move on;
  // - FailedPrecondition if the take names another step than that at which its turn comes;
  // - Cancelled after Cancel();
  // - ResourceExhausted if memory for the value is refused;
  // - any error that the sum or the workspace reports;
  // - the error of bad gradients that the sum notices only when the take is prepared. They leave
  //   the round and its count, and all others stay for the next take.
  // Other gradients of the round are lost only if the error is reported in the value
  // (`Value::failure`).
  // When memory is refused, only the front take fails: the next one is tried at the next call, or
  // after Options::retry_delay.
  // May throw std::bad_alloc, and then the take was not requested.
  void Request(const TakePtr& take, std::shared_ptr<void> keep_alive, Workspace& workspace)
      CONDACC_EXCLUDES(mu_);

  // Does what Request() does and returns true, if the take need not wait for gradients, for other
  // takes or for the step that it names. Otherwise, does nothing and returns false. The caller
  // keeps the workspace and the accumulator alive until the completion. May throw std::bad_alloc,
  // and then the take was not requested.
  bool TryServe(const TakePtr& take, Workspace& workspace) CONDACC_EXCLUDES(mu_);

  // Completes the take with Cancelled if it waits. A take that has not been requested yet is
  // completed with Cancelled by Request(); a take whose value is being prepared, after the
  // preparation. Does nothing to a take that has been served. `workspace` is used to serve the take
  // behind it.
  void Cancel(const TakePtr& take, Workspace& workspace) CONDACC_EXCLUDES(mu_);

  // Discards the gradients of the open round, sets the global step, and returns how many gradients
  // were discarded. If `only_forward`, neither is done unless the global step becomes higher.
  // Waiting takes go on waiting, except that a take for which there were enough gradients is served
  // first. If a fold is adding some of the discarded gradients, the thread that folds frees them
  // afterwards. May throw std::bad_alloc, and then nothing was discarded or set.
  int64_t Reset(int64_t global_step, bool only_forward = false) CONDACC_EXCLUDES(mu_);

  // Sets the global step and returns the previous one. Neither gradients nor takes are touched.
  int64_t SetGlobalStep(int64_t global_step) CONDACC_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    return step_counter_.Set(global_step);
  }
  int64_t global_step() const CONDACC_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    return step_counter_.global_step();
  }
  int64_t num_dropped() const CONDACC_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    return step_counter_.num_dropped();
  }
  int64_t num_accumulated() const CONDACC_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    return round_->count;
  }
  const Options& options() const { return options_; }

 private:
  enum class Phase {
    kOpen,     // Gradients are accepted, and no thread works on the sum.
    kFolding,  // A thread, the folder, adds pending gradients to the sum. Others are accepted.
    kPreparingTake,  // A thread allocates the memory for a take's value. Applies wait.
    // The round has left the accumulator. Its folder finishes it or, if there was none, the thread
    // that served the take.
    kTaken,
    // A reset has removed the round from the accumulator. Its folder frees it or, if there was
    // none, the reset.
    kDiscarded,
    kFinished,  // The take has its value, or the gradients have been freed.
  };

  // The gradients between one take, or reset, and the next. Guarded by `mu_`, except that the
  // thread that works on the sum does so without the lock.
  struct Round {
    explicit Round(const typename Sum::Options& options) : sum(options) {}

    Phase phase = Phase::kOpen;
    Sum sum;
    int64_t num_appended = 0;  // Number of gradients appended to the sum.
    int64_t count = 0;         // Number of these that the round has, without refused ones.
    // Number of appended gradients that have been added to the sum or refused. They are the first
    // ones, unless some that come later were refused.
    int64_t num_added = 0;
    TakePtr take;  // The take that got the round, while the phase is kTaken.
    // The contributors of the round's gradients, and the number of each among the appended ones.
    std::unordered_map<int64_t, int64_t> contributors;
  };
  using RoundPtr = std::shared_ptr<Round>;
  using FailedTakes = condacc::FailedTakes<Value, Workspace>;

  static constexpr char kCancelled[] = "TakeGrad operation was cancelled";

  // Serves the take if it need not wait, and fails it if it is not valid, was cancelled or cannot
  // be served. If it has to wait, does nothing and returns false. Releases and reacquires mu_.
  bool ServeOrFailNow(const TakePtr& take, Workspace& workspace, FailedTakes* failed)
      CONDACC_REQUIRES(mu_);
  // True if the front take is satisfied by `count` gradients.
  bool IsReady(int64_t count) const CONDACC_REQUIRES(mu_) {
    return !takes_.empty() && count >= takes_.front()->num_required;
  }
  // Returns an empty round, the spare one if possible. May throw std::bad_alloc.
  RoundPtr NewRound() CONDACC_REQUIRES(mu_);
  // Returns kAdded if the local step and the contributor allow the gradient to be added now, and
  // otherwise the outcome of the apply. Counts the gradient as dropped if it is stale.
  ApplyOutcome CheckStepAndContributor(int64_t local_step, std::optional<int64_t> contributor)
      CONDACC_REQUIRES(mu_);
  // Checks whether the gradient may be added, and provides what it needs to be appended. Waits
  // while the value of a take is being prepared. Releases and reacquires mu_.
  ApplyResult Accept(int64_t local_step, std::optional<int64_t> contributor, Workspace& workspace,
                     Gradient* gradient) CONDACC_REQUIRES(mu_);
  // Appends the gradient to the round. Throws std::bad_alloc only, and then nothing has changed.
  Appended Append(std::optional<int64_t> contributor, Gradient gradient) CONDACC_REQUIRES(mu_);
  // Gives the round to the front take if there are enough gradients for it, and finishes the round
  // unless it has a folder. A take that cannot be served fails. Releases and reacquires mu_.
  void ServeFront(Workspace& workspace, FailedTakes* failed) CONDACC_REQUIRES(mu_);
  // Schedules another attempt at the front take. Returns false if none could be scheduled.
  bool RetryLater() CONDACC_REQUIRES(mu_);
  // Makes the attempt that RetryLater() has scheduled.
  void Retry() CONDACC_EXCLUDES(mu_);
  // Does everything of serving the front take that may fail, and outputs the round that is to
  // follow. The take stays in front. Releases and reacquires mu_.
  Status PrepareToServe(const Take& take, RoundPtr* next, Workspace& workspace)
      CONDACC_REQUIRES(mu_);
  // Removes the gradients that the sum has refused when it was prepared.
  void RemoveRefused(Round* round) CONDACC_REQUIRES(mu_);
  // Returns an error if the take cannot be served at the current global step.
  Status CheckStep(const Take& take) const CONDACC_REQUIRES(mu_);
  bool IsAtStepOf(const Take& take) const CONDACC_REQUIRES(mu_) {
    return !take.global_step.has_value() || *take.global_step == step_counter_.global_step();
  }
  // Waits until the takes for which there are enough gradients have been served. Releases and
  // reacquires mu_.
  void AwaitReadyTakes(FailedTakes* failed) CONDACC_REQUIRES(mu_);
  // Lets the call that appended gradient number `ordinal` of the round (counted from 1) do its
  // share of the adding. If `is_urgent`, that gradient has been added when this returns. Releases
  // and reacquires mu_.
  void FoldOrWait(const RoundPtr& round, int64_t ordinal, bool is_urgent, Workspace& workspace,
                  FailedTakes* failed) CONDACC_REQUIRES(mu_);
  // True if the pending gradients of the round should be added now, rather than later.
  bool IsWorthFolding(const Round& round) const CONDACC_REQUIRES(mu_);
  // True if a take of `num_required` gradients lacks just one, and adding the others before it
  // comes makes the take faster.
  bool LacksOneGradient(const Round& round, int64_t num_required) const CONDACC_REQUIRES(mu_);
  // Adds pending gradients, as the folder of the round. If the round was taken or discarded
  // meanwhile, finishes or frees it. Returns false if there was not enough memory. Releases and
  // reacquires mu_.
  bool FoldOnce(const RoundPtr& round, Workspace& workspace, FailedTakes* failed)
      CONDACC_REQUIRES(mu_);
  // Finishes a taken round, and completes its take. No other thread works on the round any more.
  // Releases and reacquires mu_.
  void Finish(const RoundPtr& round, Workspace& workspace) CONDACC_REQUIRES(mu_);
  // Frees the gradients of a discarded round. No other thread works on the round any more. Releases
  // and reacquires mu_.
  void Discard(const RoundPtr& round) CONDACC_REQUIRES(mu_);
  // Has the take reported if it waits for longer than Options::stall_timeout.
  void WatchForStall(const TakePtr& take, std::shared_ptr<void> keep_alive) CONDACC_REQUIRES(mu_);
  void ReportStall(const TakePtr& take) CONDACC_EXCLUDES(mu_);
  // Fails a waiting take. Allocates nothing, so that it succeeds when memory is short.
  void Fail(const TakePtr& take, Status status, FailedTakes* failed) CONDACC_REQUIRES(mu_) {
    TimerQueue::Global().Cancel(take->stall_timer);
    take->failure = std::move(status);
    takes_.MoveTo(&failed->takes, take);
  }
  // Returns an error that names the accumulator, unless memory is too short for that.
  Status Error(StatusCode code, const char* message) const noexcept;

  const Options options_;
  mutable Mutex mu_;
  CondVar added_;  // Notified when num_added or the phase of a round has changed.
  StepCounter step_counter_ CONDACC_GUARDED_BY(mu_);
  PendingTakes<Value, Workspace> takes_ CONDACC_GUARDED_BY(mu_);
  RoundPtr round_ CONDACC_GUARDED_BY(mu_);
  RoundPtr spare_round_ CONDACC_GUARDED_BY(mu_);  // Kept so that a take need not allocate one.
  // The num_required of the take that was served last; 0 before the first.
  int64_t last_num_required_ CONDACC_GUARDED_BY(mu_) = 0;
  bool will_retry_ CONDACC_GUARDED_BY(mu_) = false;  // A call of Retry() is scheduled.
};

}  // namespace condacc

#endif  // CONDACC_CORE_ACCUMULATOR_ACCUMULATOR_H_
