// The state machine of a conditional accumulator.
#ifndef CONDACC_CORE_ACCUMULATOR_H_
#define CONDACC_CORE_ACCUMULATOR_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "cc/core/mutex.h"
#include "cc/core/pending_takes.h"
#include "cc/core/stall_monitor.h"
#include "cc/core/status.h"
#include "cc/core/step_gate.h"

namespace condacc {

// How far a take has come that waits for long.
struct StallReport {
  int64_t num_accumulated;
  int64_t num_required;
  int64_t global_step;
  int64_t num_dropped;
};

// Accepts gradients that are not stale; serves takes, first come first served, each with all that
// has been accepted when its turn has come and enough is there. A take moves the global step on.
//
// `Sum` says what a gradient is and how gradients are added (see DenseSum). Gradients are added in
// order of arrival. The work is done by the calls themselves, in the threads and with the means
// (`Sum::Workspace`) that they bring, and never under the lock: a round of gradients has one
// worker at a time, who adds what is pending while others append. A taken round leaves the
// accumulator at once; whoever works on it last finishes it and completes the take.
//
// Thread-safe. An error leaves everything as it was. Completions run without any lock.
template <class Sum>
class Accumulator {
 public:
  using Gradient = typename Sum::Gradient;
  using Value = typename Sum::Value;
  using Workspace = typename Sum::Workspace;
  using Take = PendingTake<Value, Workspace>;
  using TakePtr = std::shared_ptr<Take>;

  static constexpr std::chrono::milliseconds kRetryDelay{500};

  struct Options {
    std::string name;
    typename Sum::Options sum;
    // A take that waits longer is reported once; zero: never.
    std::chrono::milliseconds stall_timeout{0};
    std::function<void(const StallReport&)> on_stall;
  };

  explicit Accumulator(Options options)
      : options_(std::move(options)), round_(std::make_shared<Round>(options_.sum)) {}

  // Adds the gradient unless it is stale. InvalidArgument if it is fresh and does not fit;
  // ResourceExhausted if it needs memory that is not to be had. May throw std::bad_alloc.
  Status Apply(int64_t local_step, Gradient gradient, Workspace& workspace, bool* accepted)
      CONDACC_EXCLUDES(mu_);

  // Completes `take` now or later. `workspace` must be of use until then; `keep_alive`, which the
  // take holds, keeps the workspace and the accumulator alive. Completions must not throw. They
  // are: InvalidArgument if num_required < 1, OutOfRange if the global step cannot move on,
  // Cancelled, ResourceExhausted if the value needs memory that is not to be had; and what a
  // workspace or the sum calls a failure, with which the round's gradients are lost. When memory is
  // refused, only the take in front fails: the others wait for the next call or kRetryDelay, when
  // the next one is tried. May throw std::bad_alloc, and then the take was not requested; so may
  // RequestIfReady().
  void Request(const TakePtr& take, std::shared_ptr<void> keep_alive, Workspace& workspace)
      CONDACC_EXCLUDES(mu_);

  // Like Request() if the take need not wait for gradients or for other takes. Else returns false
  // and has done nothing.
  bool RequestIfReady(const TakePtr& take, Workspace& workspace) CONDACC_EXCLUDES(mu_);

  // Completes the take with Cancelled if it waits, or as soon as it is requested, or when what is
  // being prepared for it is ready. Does nothing to one that is served already.
  // `workspace` serves a take that waited behind it.
  void Cancel(const TakePtr& take, Workspace& workspace) CONDACC_EXCLUDES(mu_);

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
  // The gradients from one take to the next. Guarded by `mu_`, but for the sum's work.
  struct Round {
    explicit Round(const typename Sum::Options& options) : sum(options) {}

    Sum sum;
    int64_t count = 0;      // gradients accepted
    int64_t num_added = 0;  // of these, how many have been added
    bool has_worker = false;
    TakePtr take;  // whose the round is, from when it is taken until it is finished
    bool is_taken = false;
    bool is_closing = false;  // the worker prepares what a take will get: nothing may be added now
  };
  using RoundPtr = std::shared_ptr<Round>;

  static constexpr char kCancelled[] = "TakeGrad operation was cancelled";

  // Takes that end without a value; they are told when the lock has been given back.
  using Completions = typename PendingTakes<Value, Workspace>::TakeList;

  // Serves the take or fails it, if that can be decided now.
  bool Decide(const TakePtr& take, Workspace& workspace, Completions* failed) CONDACC_REQUIRES(mu_);
  bool IsReady(int64_t count) const CONDACC_REQUIRES(mu_) {
    return !takes_.empty() && count >= takes_.front()->num_required;
  }
  RoundPtr NewRound() CONDACC_REQUIRES(mu_);
  // Admits and prepares the gradient; false: not accepted, for the reason that `status` tells.
  bool Accept(int64_t local_step, Workspace& workspace, Gradient* gradient, Status* status)
      CONDACC_REQUIRES(mu_);
  // Gives the round to the front take if it is ready; a take that cannot be served fails. Releases
  // and reacquires mu_.
  void ServeFront(Workspace& workspace, Completions* failed) CONDACC_REQUIRES(mu_);
  // Arranges for the front take to be tried again after kRetryDelay. False if that is not possible.
  bool RetryLater() CONDACC_REQUIRES(mu_);
  void Retry() CONDACC_EXCLUDES(mu_);
  Status PrepareToServe(const Take& take, RoundPtr* next, Workspace& workspace)
      CONDACC_REQUIRES(mu_);
  Status CheckStep() const CONDACC_REQUIRES(mu_);
  void Settle(const RoundPtr& round, int64_t ordinal, bool must_add, Workspace& workspace,
              Completions* failed) CONDACC_REQUIRES(mu_);
  bool IsWorthFolding(const Round& round) const CONDACC_REQUIRES(mu_);
  bool IsOneShort(const Round& round, int64_t num_required) const CONDACC_REQUIRES(mu_);
  // False if there was not enough memory.
  bool FoldOnce(const RoundPtr& round, Workspace& workspace, Completions* failed)
      CONDACC_REQUIRES(mu_);
  void Finish(const RoundPtr& round, Workspace& workspace) CONDACC_REQUIRES(mu_);
  void WatchForStall(const TakePtr& take, std::shared_ptr<void> keep_alive) CONDACC_REQUIRES(mu_);
  void ReportStall(const TakePtr& take) CONDACC_EXCLUDES(mu_);
  // Ends a take that waits: it cannot fail, whatever memory there is.
  void Fail(const TakePtr& take, Status status, Completions* failed) CONDACC_REQUIRES(mu_) {
    StallMonitor::Global().Unwatch(take->stall_watch);
    take->failure = std::move(status);
    takes_.MoveTo(failed, take);
  }
  // The message goes short of its context where memory does.
  Status Error(StatusCode code, const char* message) const noexcept;
  static void Complete(const Completions& completions) {
    for (const TakePtr& take : completions) take->Complete(take->failure, nullptr);
  }

  const Options options_;
  mutable Mutex mu_;
  CondVar added_;  // some round's num_added or has_worker changed
  StepGate gate_ CONDACC_GUARDED_BY(mu_);
  PendingTakes<Value, Workspace> takes_ CONDACC_GUARDED_BY(mu_);
  RoundPtr round_ CONDACC_GUARDED_BY(mu_);
  RoundPtr spare_round_ CONDACC_GUARDED_BY(mu_);  // kept, so that a take allocates none
  int64_t last_num_required_ CONDACC_GUARDED_BY(mu_) = 0;
  bool will_retry_ CONDACC_GUARDED_BY(mu_) = false;  // Retry() is going to be called
};

}  // namespace condacc

#include "cc/core/accumulator_impl.h"    // IWYU pragma: export
#include "cc/core/accumulator_rounds.h"  // IWYU pragma: export

#endif  // CONDACC_CORE_ACCUMULATOR_H_
