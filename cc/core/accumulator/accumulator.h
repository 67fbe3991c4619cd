// The state machine of a conditional accumulator.
#ifndef CONDACC_CORE_ACCUMULATOR_ACCUMULATOR_H_
#define CONDACC_CORE_ACCUMULATOR_ACCUMULATOR_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cc/core/accumulator/apply_result.h"
#include "cc/core/accumulator/early_gradients.h"
#include "cc/core/accumulator/gradient.h"
#include "cc/core/accumulator/pending_take.h"
#include "cc/core/accumulator/round_sum.h"
#include "cc/core/accumulator/saved_state.h"
#include "cc/core/accumulator/stall_report.h"
#include "cc/core/accumulator/stall_watch.h"
#include "cc/core/accumulator/step_counter.h"
#include "cc/core/accumulator/workspace.h"
#include "cc/core/base/mutex.h"
#include "cc/core/base/status.h"
#include "cc/core/base/wait_list.h"

namespace condacc {

// Accepts gradients that are not stale, and serves takes in the order in which they arrive. A take
// is served once all earlier takes have ended and enough gradients have been accepted. It receives
// all accepted gradients and advances the global step by one.
//
// A RoundSum adds the gradients in order of arrival, or in the order of their contributors (see
// SumOptions), so that the sum has the same bits however they arrive. The calling threads, or
// threads that they start for long folds, do this work without the lock, using the memory and
// threads of a Workspace. One thread at a time folds the pending gradients of a round into its sum
// while other threads append more. A round leaves the accumulator as soon as it is taken. If a
// thread is folding the round at that moment, that thread finishes it and completes the take;
// otherwise the thread that serves the take does. A sparse round is taken only when no thread works
// on it.
//
// Thread-safe. Bad input, or a failure to allocate a tensor, leaves the state unchanged. Methods
// may throw std::bad_alloc, after which the accumulator remains usable and nothing has been added,
// taken or requested. Completions run without any lock.
//
// Example:
//
//   Accumulator accumulator({NewDenseSum, options});
//   const ApplyResult result = accumulator.Apply(accumulator.global_step(), gradient, workspace);
//   if (result.is_added()) {
//     auto take = std::make_shared<PendingTake>(
//         /*num_required=*/8, [](const Status& status, Value* mean) { ... });
//     // This call runs the completion, or the Apply() that adds the eighth gradient does.
//     accumulator.Request(take, shared_workspace, *shared_workspace);
//   }
class Accumulator {
 public:
  using Take = PendingTake;
  using TakePtr = std::shared_ptr<Take>;

  struct Options {
    SumFactory new_sum;
    SumOptions sum;
    // A stall that lasts longer than this is reported; see StallWatch. Zero means never.
    std::chrono::milliseconds stall_timeout{0};
    std::function<void(const StallReport&)> on_stall;
    // If set, an Apply() that need not wait for a long fold leaves it to such a thread. The thread
    // keeps the accumulator alive until `work` has returned and been destroyed.
    ThreadStarter start_thread;
  };

  explicit Accumulator(Options options)
      : options_(std::move(options)),
        stalls_(options_.on_stall == nullptr ? std::chrono::milliseconds(0)
                                             : options_.stall_timeout),
        round_(std::make_shared<Round>(options_)) {}

  // Adds the gradient unless it is stale. A gradient that names a contributor is added only if its
  // local step is the global step and the contributor has no gradient in the round yet. Gradients
  // with and without a contributor may be mixed, unless they are added in the order of
  // contributors. Returns InvalidArgument if the contributor is negative or, in that case, missing
  // or too high; if the weight is negative or not finite; or if a gradient that would otherwise be
  // added does not fit. Returns ResourceExhausted if memory for it cannot be allocated. After an
  // error, the contributor may apply another gradient.
  ApplyResult Apply(int64_t local_step, Gradient gradient, Workspace& workspace)
      CONDACC_EXCLUDES(mu_);

  // Completes `take`, before this returns or later. Holds `keep_alive` until then, which must keep
  // the workspace and the accumulator alive. The completion must not throw. Its status is OK or
  // - InvalidArgument if num_required < 1, or if it is higher than the number of contributors in
  //   whose order gradients are added;
  // - OutOfRange if the global step cannot advance;
  // - FailedPrecondition if the take names a step other than the global step when its turn comes;
  // - Cancelled after Cancel();
  // - ResourceExhausted if memory for the value cannot be allocated;
  // - any error that the sum or the workspace reports.
  // The gradients of the round are lost only if the sum reports the error in `Value::failure`.
  void Request(const TakePtr& take, std::shared_ptr<void> keep_alive, Workspace& workspace)
      CONDACC_EXCLUDES(mu_);

  // Does what Request() does and returns true if the take need not wait for gradients, for other
  // takes or for the step that it names. Otherwise does nothing and returns false. The caller keeps
  // the workspace and the accumulator alive until the completion.
  bool TryServe(const TakePtr& take, Workspace& workspace) CONDACC_EXCLUDES(mu_);

  // Completes the take with Cancelled if it is waiting. If it has not been requested yet, Request()
  // completes it with Cancelled. If its value is being prepared, the preparing thread does so
  // afterwards. Does nothing to a take that has been served. `workspace` is used to serve the next
  // take.
  void Cancel(const TakePtr& take, Workspace& workspace) CONDACC_EXCLUDES(mu_);

  // Discards the gradients of the open round, sets the global step, and returns the number of
  // discarded gradients. If `only_forward`, does so only if the global step increases. Waiting
  // takes keep waiting, except that a take that has enough gradients is served first; Reset() may
  // have to wait for that. If a fold is adding some of the discarded gradients, the folding thread
  // frees them afterwards.
  int64_t Reset(int64_t global_step, bool only_forward = false) CONDACC_EXCLUDES(mu_);

  // Writes the state (steps, counts, contributors and the sum; see saved_state.h) to memory that it
  // asks for once. Waits until no other thread works on the sum. While the sum is copied, gradients
  // may be applied, which are then not in the state. All folds and takes wait for the copy, so
  // applies may wait if too much is pending. Changes nothing. Returns ResourceExhausted if memory
  // is refused, and the error with which the take of the round would fail.
  Status Save(Workspace& workspace, StateMemory::Allocator allocate) CONDACC_EXCLUDES(mu_);

  // Replaces the open round, the global step and the number of dropped gradients by those of a
  // state. Otherwise does what Reset() does, and serves the front take if the restored round has
  // enough gradients for it. After an error, nothing has changed: InvalidArgument if the bytes are
  // damaged, or are the state of an accumulator of another kind, type, shape, reduction or number
  // of contributors in whose order it adds; ResourceExhausted if memory is refused.
  Status Restore(const char* bytes, size_t num_bytes, Workspace& workspace) CONDACC_EXCLUDES(mu_);

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
    return round_->num_accumulated();
  }
  const Options& options() const { return options_; }

 private:
  // Where a round is in its life cycle.
  enum class Place {
    kOpen,       // The round is in the accumulator and accepts gradients.
    kTaken,      // A take owns the round, which has yet to be finished.
    kDiscarded,  // A reset has removed the round, which has yet to be freed.
    kGone,       // The take has its value, or the gradients have been freed.
  };
  // At most one thread at a time works on the sum of a round, without the lock. This tells how, as
  // long as other threads may find the round: only one thread finishes or frees it in the end.
  enum class Work {
    kNone,
    kFolding,    // The thread (the folder) adds pending gradients. New ones are still accepted.
                 // The folder may have yet to begin.
    kPreparing,  // The thread allocates the memory for a take's value. Applies wait.
    kSaving,     // The thread copies the sum. New gradients are still accepted.
  };

  // The gradients between one take or reset and the next. Guarded by `mu_`, except that the thread
  // that works on the sum uses it without the lock.
  struct Round {
    explicit Round(const Options& options)
        : sum(options.new_sum(options.sum)), early(options.sum) {}

    int64_t num_accumulated() const { return num_appended + static_cast<int64_t>(early.size()); }

    Place place = Place::kOpen;
    Work work = Work::kNone;
    const std::unique_ptr<RoundSum> sum;
    // Number of gradients appended to the sum. If they are appended in the order of contributors,
    // they are those of contributors 0 to num_appended - 1.
    int64_t num_appended = 0;
    int64_t num_added = 0;  // Number of appended gradients that have been added: the first ones.
    EarlyGradients early;
    TakePtr take;  // The take that owns the round, until it is finished.
    // The contributors of the round's gradients. There may be thousands.
    // The hash is a class of this library, so that the functions of the set are, too. TensorFlow
    // may export those of std::unordered_set<int64_t>, compiled with another version of the
    // standard library, and its functions and ours would free a node twice if memory is refused.
    struct Hash {
      size_t operator()(int64_t contributor) const { return std::hash<int64_t>()(contributor); }
    };
    using Contributors = std::unordered_set<int64_t, Hash>;
    Contributors contributors;
  };
  using RoundPtr = std::shared_ptr<Round>;

  // The takes that fail during a call. The lock, which is the other base class of Call, completes
  // them in its destructor.
  struct EndedTakes {
    WaitList<Take> ended;
  };
  // A call, which holds the lock and lends its workspace. The takes that fail are completed when it
  // has released the lock, and not earlier, because it may use the workspace of one of them.
  class CONDACC_SCOPED_CAPABILITY Call : public EndedTakes, public CompletingLock<Take> {
   public:
    Call(Mutex* mutex, Workspace& lent) CONDACC_ACQUIRE(mutex)
        : CompletingLock(mutex, &ended), workspace(lent) {}
    ~Call() CONDACC_RELEASE() {}

    Workspace& workspace;
  };

  // The next step for a round; see NextAction().
  enum class Action { kNone, kServe, kFinish, kFree };

  // Returns an error if the contributor is not one that an apply may have.
  Status CheckContributor(std::optional<int64_t> contributor) const;
  // Returns kAdded if the local step and the contributor allow the gradient to be added now, and
  // otherwise the outcome of the apply. Counts the gradient as dropped if it is stale.
  ApplyOutcome CheckStepAndContributor(int64_t local_step, std::optional<int64_t> contributor)
      CONDACC_REQUIRES(mu_);
  // Checks whether the gradient may be added, and supplies what it lacks for Append(). Waits while
  // the value of a take is being prepared.
  ApplyResult Accept(int64_t local_step, Workspace& workspace, Gradient* gradient)
      CONDACC_REACQUIRES(mu_);
  // Returns whether the gradient has come before that of a lower contributor; see EarlyGradients.
  bool IsEarly(const Gradient& gradient) const CONDACC_REQUIRES(mu_) {
    return options_.sum.in_order_of_contributors() && *gradient.contributor > round_->num_appended;
  }
  // Adds the gradient to the round. If it throws, nothing has changed. Returns whether it must be
  // added to the sum before its apply returns.
  bool Append(Gradient&& gradient) CONDACC_REQUIRES(mu_);
  // Appends a gradient to the sum of the round. If it throws, nothing has changed.
  Appended AppendToSum(Gradient&& gradient) CONDACC_REQUIRES(mu_);
  // Appends the early gradients that follow those in the sum. If it throws, some of them are still
  // early.
  void AppendReady() CONDACC_REQUIRES(mu_);
  // Makes sure that an empty round is ready to follow the current one, so that neither a take nor a
  // reset needs memory.
  void ReserveRound() CONDACC_REQUIRES(mu_);

  // Returns an error if the take is not valid or was cancelled.
  Status CheckTake(const Take& take) const CONDACC_REQUIRES(mu_);
  // Returns an error if the take cannot be served at the current global step.
  Status CheckStep(const Take& take) const CONDACC_REQUIRES(mu_);
  bool HasEnoughFor(const Take& take) const CONDACC_REQUIRES(mu_) {
    return round_->num_accumulated() >= take.num_required;
  }
  bool IsAtStepOf(const Take& take) const CONDACC_REQUIRES(mu_) {
    return !take.global_step.has_value() || *take.global_step == step_counter_.global_step();
  }
  // Returns whether the front take has enough gradients.
  bool IsFrontReady() const CONDACC_REQUIRES(mu_) {
    return !takes_.empty() && HasEnoughFor(*takes_.front());
  }
  // Queues a take that has passed CheckTake(), and serves it if possible.
  void Enqueue(const TakePtr& take, std::shared_ptr<void> keep_alive, Call* call)
      CONDACC_REACQUIRES(mu_);
  // Ends a take, which may be in `takes_`, with an error.
  void Fail(Take* take, Status status, Call* call) CONDACC_REQUIRES(mu_);

  // Returns what the calling thread must do with a round after an event: a gradient was appended, a
  // take has come or gone, or a thread has ended its work on the round. While a thread works on the
  // sum, only one thing is possible, because that thread asks again afterwards: an open round whose
  // sum needs no preparation is served.
  Action NextAction(const Round& round) const CONDACC_REQUIRES(mu_);
  // Performs the actions for a round until none is left.
  void Proceed(const RoundPtr& round, Call* call) CONDACC_REACQUIRES(mu_);
  // Gives the round to the front take, or ends the take with an error.
  void Serve(Call* call) CONDACC_REACQUIRES(mu_);
  // Allocates the memory for finishing the round and for handing out its value. After an error, the
  // round is unchanged.
  Status PrepareTake(const Take& take, Workspace& workspace) CONDACC_REACQUIRES(mu_);
  // Allocates that memory. Needs no lock as long as no other thread works on the sum.
  static Status AllocateFor(const Take& take, Round* round, Workspace& workspace) noexcept;
  // Finishes a taken round, and completes its take.
  void Finish(const RoundPtr& round, Workspace& workspace) CONDACC_REACQUIRES(mu_);
  // Frees the gradients of a discarded round.
  void Free(const RoundPtr& round) CONDACC_REACQUIRES(mu_);
  // Ends the work on a round that is empty again, and keeps the round for reuse.
  void Retire(const RoundPtr& round) CONDACC_REQUIRES(mu_);

  // Asks the sum at least once whether to fold. Then folds or waits for a fold, again and again if
  // necessary, until the gradient of this number has been added or the sum advises to leave what is
  // pending. If `must_add`, the gradient has been added when this returns.
  void FoldOrWait(const RoundPtr& round, int64_t number, bool must_add, Call* call)
      CONDACC_REACQUIRES(mu_);
  RoundSum::NextTake ExpectTake(const Round& round) const CONDACC_REQUIRES(mu_);
  // Adds pending gradients as the folder of the round, and then calls Proceed(). Returns false if
  // there was not enough memory.
  bool Fold(const RoundPtr& round, Call* call) CONDACC_REACQUIRES(mu_);

  // Ends the state kFolding or kSaving of a round, and then calls Proceed().
  void EndWork(const RoundPtr& round, Call* call) CONDACC_REACQUIRES(mu_);
  // Starts a thread that folds the round. Returns false if no thread can be started. Then the
  // round is not folding.
  bool StartFolder(const RoundPtr& round, Call* call) CONDACC_REACQUIRES(mu_);
  // Folds the round in that thread, if it still has to be folded.
  void RunFolder(const RoundPtr& round, Workspace& workspace) CONDACC_EXCLUDES(mu_);

  // Adds saved early gradients to a round that has the saved sum.
  Status AddEarly(const std::vector<SavedGradient>& saved, Workspace& workspace,
                  Round* round) const;
  // Writes a state whose sum has yet to be copied, unlocked.
  Status WriteRound(RoundSum& sum, SavedState* state, Workspace& workspace,
                    StateMemory::Allocator allocate) const noexcept;

  // Schedules the next report in case the take waits for so long.
  void WatchForStall(const TakePtr& take, const std::shared_ptr<void>& keep_alive)
      CONDACC_REQUIRES(mu_);
  // Reports a stall, if a report is due, and schedules the next one, if the take still waits.
  void ReportStall(const TakePtr& take, const std::shared_ptr<void>& keep_alive)
      CONDACC_EXCLUDES(mu_);
  // Describes the stall of a take. `began` is when it began to wait, or empty if it does not wait.
  StallReport DescribeStall(const Take& take,
                            std::optional<StallWatch::Clock::time_point> began) const
      CONDACC_REQUIRES(mu_);

  const Options options_;
  mutable Mutex mu_;
  CondVar changed_;  // Notified when work on a round ends or num_added changes, and by Reset() and
                     // Cancel().
  StepCounter step_counter_ CONDACC_GUARDED_BY(mu_);
  StallWatch stalls_ CONDACC_GUARDED_BY(mu_);
  WaitList<Take> takes_ CONDACC_GUARDED_BY(mu_);
  RoundPtr round_ CONDACC_GUARDED_BY(mu_);
  RoundPtr next_round_ CONDACC_GUARDED_BY(mu_);  // Not null if `round_` has gradients.
  // The num_required of the last served take, and the bytes of its values, or 0 before the first.
  int64_t last_num_required_ CONDACC_GUARDED_BY(mu_) = 0;
  size_t last_result_bytes_ CONDACC_GUARDED_BY(mu_) = 0;
};

}  // namespace condacc

#endif  // CONDACC_CORE_ACCUMULATOR_ACCUMULATOR_H_
