// The state machine of a conditional accumulator.
#ifndef CONDACC_CORE_ACCUMULATOR_ACCUMULATOR_H_
#define CONDACC_CORE_ACCUMULATOR_ACCUMULATOR_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "cc/core/accumulator/apply_result.h"
#include "cc/core/accumulator/pending_takes.h"
#include "cc/core/accumulator/step_gate.h"
#include "cc/core/accumulator/sum_contract.h"
#include "cc/core/base/mutex.h"
#include "cc/core/base/stall_monitor.h"
#include "cc/core/base/status.h"

namespace condacc {

// The report about a take that has waited for long.
struct StallReport {
  int64_t num_accumulated;
  int64_t num_required;
  int64_t global_step;
  int64_t num_dropped;
};

// Accepts gradients that are not stale. Serves takes in the order in which they came, each with all
// gradients that have been accepted when its turn has come and there are enough. A take moves the
// global step on.
//
// `Sum` defines what a gradient is and how gradients are added (see SumContract). Gradients are
// added in order of arrival. The calls themselves do the work, in their own threads and with the
// memory and threads of their `Sum::Workspace`, and never under the lock: one thread at a time
// folds the pending gradients of a round into its sum, while others append to the pending ones. A
// taken round leaves the accumulator at once; the thread that works on it last finishes it and
// completes the take.
//
// Thread-safe. An error leaves everything as it was. Completions run without any lock.
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
    // A take that waits longer is reported once; zero: never.
    std::chrono::milliseconds stall_timeout{0};
    std::function<void(const StallReport&)> on_stall;
    // When a take that was put off for want of memory is tried again, if no call comes before.
    std::chrono::milliseconds retry_delay{500};
  };

  explicit Accumulator(Options options)
      : options_(std::move(options)), round_(std::make_shared<Round>(options_.sum)) {}

  // Adds the gradient unless it is stale. If it names a contributor, it must be of the global step
  // itself and the contributor's first one in the round; gradients with and without a contributor
  // may be mixed. InvalidArgument if the contributor is negative, or if the gradient would be added
  // and does not fit; ResourceExhausted if it needs memory that is not to be had. May throw
  // std::bad_alloc. After an error the contributor may apply another gradient.
  ApplyResult Apply(int64_t local_step, Gradient gradient, Workspace& workspace,
                    std::optional<int64_t> contributor = std::nullopt) CONDACC_EXCLUDES(mu_);

  // Completes `take` now or later. `workspace` must stay valid until then. `keep_alive` is held
  // until then, and keeps the workspace and the accumulator alive. Completions must not throw. They
  // are InvalidArgument if num_required < 1, OutOfRange if the global step cannot move on,
  // FailedPrecondition if the take's turn has come at another step than the one that it names,
  // Cancelled, ResourceExhausted if memory for the value cannot be allocated, or any error that the
  // workspace or the sum reports; after such an error the round's gradients are lost. When memory
  // is refused, only the front take fails: the next one is tried at the next call, or after
  // Options::retry_delay.
  // May throw std::bad_alloc, and then the take was not requested; so may RequestIfReady().
  void Request(const TakePtr& take, std::shared_ptr<void> keep_alive, Workspace& workspace)
      CONDACC_EXCLUDES(mu_);

  // Like Request() if the take need not wait for gradients, for other takes or for the step that
  // it names. Else returns false and has done nothing.
  bool RequestIfReady(const TakePtr& take, Workspace& workspace) CONDACC_EXCLUDES(mu_);

  // Completes the take with Cancelled if it waits, or as soon as it is requested, or when what is
  // being prepared for it is ready. Does nothing to one that is served already.
  // `workspace` serves a take that waited behind it.
  void Cancel(const TakePtr& take, Workspace& workspace) CONDACC_EXCLUDES(mu_);

  // Discards the gradients of the open round, sets the global step, and returns how many gradients
  // were discarded. Waiting takes wait on, but one that there were enough gradients for before is
  // served first. The memory of what a fold is adding is freed when that fold ends. May throw
  // std::bad_alloc, and then nothing was discarded or set.
  int64_t Reset(int64_t global_step) CONDACC_EXCLUDES(mu_);

  // Returns the previous step. Neither gradients nor takes are touched.
  int64_t SetGlobalStep(int64_t global_step) CONDACC_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    return gate_.Set(global_step);
  }
  int64_t global_step() const CONDACC_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    return gate_.global_step();
  }
  int64_t num_dropped() const CONDACC_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    return gate_.num_dropped();
  }
  int64_t num_accumulated() const CONDACC_EXCLUDES(mu_) {
    MutexLock lock(&mu_);
    return round_->count;
  }
  const Options& options() const { return options_; }

 private:
  enum class Phase {
    kOpen,     // Gradients are accepted, and nobody works on the sum.
    kFolding,  // A thread adds pending gradients to the sum; others are accepted meanwhile.
    kClosing,  // A thread gets the memory for a take's value; gradients have to wait.
    kTaken,    // It has left the accumulator. One thread finishes it: its folder, or the taker.
    // A reset has removed it from the accumulator. Its folder, or else the reset, frees it.
    kDiscarded,
    kFinished,
  };

  // The gradients from one take to the next. Guarded by `mu_`, except that the sum is worked on
  // without it in all phases but kOpen.
  struct Round {
    explicit Round(const typename Sum::Options& options) : sum(options) {}

    Phase phase = Phase::kOpen;
    Sum sum;
    int64_t count = 0;      // Gradients accepted.
    int64_t num_added = 0;  // How many of these have been added to the sum.
    TakePtr take;           // The take that got the round, while the phase is kTaken.
    // Those who have a gradient among the accepted ones.
    std::unordered_set<int64_t> contributors;
  };
  using RoundPtr = std::shared_ptr<Round>;

  static constexpr char kCancelled[] = "TakeGrad operation was cancelled";

  // Takes that have failed. They are completed when this goes out of scope, which must be after the
  // lock was released.
  struct FailedTakes {
    typename PendingTakes<Value, Workspace>::TakeList takes;

    FailedTakes() = default;
    ~FailedTakes() {
      for (const TakePtr& take : takes) take->Complete(take->failure, nullptr);
    }
    FailedTakes(const FailedTakes&) = delete;
    FailedTakes& operator=(const FailedTakes&) = delete;
  };

  // Serves the take or fails it, if that can be decided now. Releases and reacquires mu_.
  bool Decide(const TakePtr& take, Workspace& workspace, FailedTakes* failed) CONDACC_REQUIRES(mu_);
  bool IsReady(int64_t count) const CONDACC_REQUIRES(mu_) {
    return !takes_.empty() && count >= takes_.front()->num_required;
  }
  RoundPtr NewRound() CONDACC_REQUIRES(mu_);
  // Whether a gradient may be added now. Counts those that are stale.
  ApplyOutcome Admit(int64_t local_step, std::optional<int64_t> contributor) CONDACC_REQUIRES(mu_);
  // Admits and prepares the gradient. Releases and reacquires mu_.
  ApplyResult Accept(int64_t local_step, std::optional<int64_t> contributor, Workspace& workspace,
                     Gradient* gradient) CONDACC_REQUIRES(mu_);
  // Appends the gradient to the round. Throws std::bad_alloc only, and then nothing has changed.
  Appended Append(std::optional<int64_t> contributor, Gradient gradient) CONDACC_REQUIRES(mu_);
  // Gives the round to the front take if it is ready; a take that cannot be served fails. Releases
  // and reacquires mu_.
  void ServeFront(Workspace& workspace, FailedTakes* failed) CONDACC_REQUIRES(mu_);
  // Schedules another attempt at the front take. Returns false if none could be scheduled.
  bool RetryLater() CONDACC_REQUIRES(mu_);
  void Retry() CONDACC_EXCLUDES(mu_);
  // Does everything that may fail of serving the front take, which stays the front take. Releases
  // and reacquires mu_.
  Status PrepareToServe(const Take& take, RoundPtr* next, Workspace& workspace)
      CONDACC_REQUIRES(mu_);
  Status CheckStep(const Take& take) const CONDACC_REQUIRES(mu_);
  bool IsAtStepOf(const Take& take) const CONDACC_REQUIRES(mu_) {
    return !take.global_step.has_value() || *take.global_step == gate_.global_step();
  }
  // Returns when no take is being served for which there are enough gradients. Releases and
  // reacquires mu_.
  void EndServing(FailedTakes* failed) CONDACC_REQUIRES(mu_);
  // Lets the call that brought gradient number `ordinal` of the round do its share of the adding.
  // If it is urgent, that gradient has been added when this returns. Releases and reacquires mu_.
  void FoldOrWait(const RoundPtr& round, int64_t ordinal, bool is_urgent, Workspace& workspace,
                  FailedTakes* failed) CONDACC_REQUIRES(mu_);
  bool IsWorthFolding(const Round& round) const CONDACC_REQUIRES(mu_);
  // True if a fold now leaves the last gradient of a waiting take nothing to do but to be added.
  bool LacksOneGradient(const Round& round, int64_t num_required) const CONDACC_REQUIRES(mu_);
  // Adds what is pending. Returns false if there was not enough memory. Releases and reacquires
  // mu_.
  bool FoldOnce(const RoundPtr& round, Workspace& workspace, FailedTakes* failed)
      CONDACC_REQUIRES(mu_);
  // Finishes a taken round, and completes its take. No other thread works on it any more. Releases
  // and reacquires mu_.
  void Finish(const RoundPtr& round, Workspace& workspace) CONDACC_REQUIRES(mu_);
  // Frees a discarded round. No other thread works on it any more. Releases and reacquires mu_.
  void Discard(const RoundPtr& round) CONDACC_REQUIRES(mu_);
  void WatchForStall(const TakePtr& take, std::shared_ptr<void> keep_alive) CONDACC_REQUIRES(mu_);
  void ReportStall(const TakePtr& take) CONDACC_EXCLUDES(mu_);
  // Fails a waiting take. Allocates nothing, so that it succeeds when memory is short.
  void Fail(const TakePtr& take, Status status, FailedTakes* failed) CONDACC_REQUIRES(mu_) {
    StallMonitor::Global().Unwatch(take->stall_watch);
    take->failure = std::move(status);
    takes_.MoveTo(&failed->takes, take);
  }
  // Returns an error that names the accumulator, unless memory is too short for that.
  Status Error(StatusCode code, const char* message) const noexcept;

  const Options options_;
  mutable Mutex mu_;
  CondVar added_;  // Some round's num_added or phase has changed.
  StepGate gate_ CONDACC_GUARDED_BY(mu_);
  PendingTakes<Value, Workspace> takes_ CONDACC_GUARDED_BY(mu_);
  RoundPtr round_ CONDACC_GUARDED_BY(mu_);
  RoundPtr spare_round_ CONDACC_GUARDED_BY(mu_);  // Kept so that a take need not allocate one.
  int64_t last_num_required_ CONDACC_GUARDED_BY(mu_) = 0;
  bool will_retry_ CONDACC_GUARDED_BY(mu_) = false;  // A call of Retry() is scheduled.
};

}  // namespace condacc

#endif  // CONDACC_CORE_ACCUMULATOR_ACCUMULATOR_H_
