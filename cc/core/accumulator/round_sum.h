// The interface of a class that sums the gradients of one round.
#ifndef CONDACC_CORE_ACCUMULATOR_ROUND_SUM_H_
#define CONDACC_CORE_ACCUMULATOR_ROUND_SUM_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "cc/core/accumulator/gradient.h"
#include "cc/core/accumulator/sum_options.h"
#include "cc/core/accumulator/workspace.h"
#include "cc/core/base/buffer.h"
#include "cc/core/base/element_type.h"
#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"

namespace condacc {

// The result of MissingFrom(): what Supply() must still supply before Append().
enum class Missing {
  kNothing,
  kResultMemory,   // Memory for the result: the gradient is the first and not owned.
  kFloat32Memory,  // Memory for a float32 sum.
  kKeptCopy,       // Memory that may be kept. The indices of a sparse gradient are checked, too.
};

// The result of Append().
enum class Appended {
  kInSum,       // The sum contains the gradient and all that are added before it.
  kPending,     // A fold, or at the latest Finish(), will add the gradient.
  kMustAddNow,  // Like kPending, but the apply must not return before the gradient has been added.
};

// A sum advises its accumulator what to do about the pending gradients.
enum class Advice {
  kLeave,          // Nothing: more should come first, or the take adds them in its own pass.
  kFold,           // Add them now.
  kFoldElsewhere,  // Add them in a separate thread: that takes much longer than starting one.
  kMustFold,       // Add some of them before an apply returns, or wait for the thread that does.
};

enum class SumKind { kDense, kSparse };

// A gradient that was early when it was saved; see RoundSum. The pointers point to the gradient
// itself or into the bytes of a state, perhaps unaligned.
struct SavedGradient {
  Shape shape;                    // Shape of the values: [...], or [n, d1, ...] if sparse.
  const char* indices = nullptr;  // [n] int64, if sparse
  const char* values = nullptr;   // Of the accumulator's type.
  int64_t index_bound = -1;       // See Addend.
  int64_t contributor = 0;
  double weight = 1;
};

// A sum as it is saved. The pointers point into the bytes of a state, perhaps unaligned.
struct SavedSum {
  int64_t num_gradients = 0;
  double total_weight = 0;
  Shape shape;                    // Shape of the values: [...], or [n, d1, ...] if sparse.
  const char* indices = nullptr;  // [n] int64, ascending and unique, if sparse
  const char* weights = nullptr;  // [n] double: of the gradients that contain the row, if sparse
  const char* values = nullptr;   // Of the type that SumTypeOf() returns.
};

// Memory for the parts of a SavedSum, of the same types. Indices and weights are unused if dense.
struct SumMemory {
  int64_t* indices = nullptr;
  double* weights = nullptr;
  void* values = nullptr;
};
class StateMemory;  // Supplies such memory; see saved_state.h.

// Gradients are added in the order in which they are appended. If SumOptions demands the order of
// contributors, the accumulator appends a gradient after those of all lower contributors; until
// then it is early, and not in the sum. The last step of a round adds the early ones as well.
//
// The accumulator calls each method under its lock, unless the comment says "unlocked". Supply()
// may run at any time. Of the other unlocked methods, one at a time runs for a sum. Gradients may
// be appended during RunFold() and RunSave(). During the others, only const methods may be called.
class RoundSum {
 public:
  // Keeps a reference to the options.
  explicit RoundSum(const SumOptions& options) : options_(options) {}
  virtual ~RoundSum() { Hold(-held_bytes_); }
  RoundSum(const RoundSum&) = delete;
  RoundSum& operator=(const RoundSum&) = delete;

  // Returns InvalidArgument if the gradient does not fit the accumulator or the other gradients of
  // the round: those in the sum, or an early one whose values have shape `early`, unless it is
  // null.
  virtual Status Check(const Gradient& gradient, const Shape* early) const = 0;
  // Returns what a gradient that has passed Check() still lacks for Append() or, if it is early,
  // for being kept until then.
  virtual Missing MissingFrom(const Gradient& gradient, bool is_early) const = 0;
  // Unlocked, and called concurrently by several threads: gives the gradient what it lacks. Uses
  // only the options. After an error, the gradient must not be used again.
  virtual Status Supply(Missing missing, Workspace& workspace, Gradient* gradient) const = 0;
  // Takes over the buffers of a gradient that lacks nothing. If it throws std::bad_alloc, nothing
  // has changed, not even the gradient.
  virtual Appended Append(Gradient&& gradient) = 0;
  // Takes from a new early gradient what Supply() gave it for the sum.
  virtual void MoveMemoryFrom(Gradient* /*early*/) noexcept {}

  // What is known about the take that comes next.
  struct NextTake {
    // The number of gradients that it lacks, or kUnknown. If 0, the take adds what is pending in
    // the same pass in which it divides.
    int64_t num_missing;
    // Whether it is waiting. Otherwise `num_missing` supposes that it requires as many gradients as
    // the last one.
    bool is_waiting;
    // Bytes of the values of the last result. The next one is probably of similar size.
    size_t last_result_bytes = 0;
  };
  static constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();
  // Returns what the apply that has come, or a take that has, should do about the pending
  // gradients.
  virtual Advice Advise(const NextTake& next_take) const = 0;

  // Starts a fold, which adds the gradients that come next. Returns their number.
  virtual int64_t BeginFold() noexcept = 0;
  // Unlocked: adds the gradients of the fold.
  virtual void RunFold(Workspace& workspace) noexcept = 0;
  // Ends the fold. Returns whether its gradients were added. If memory was short, they are pending
  // again.
  virtual bool EndFold() noexcept = 0;

  virtual SumKind kind() const { return SumKind::kDense; }
  // Notes the gradients that the sum has now for RunSave(), and returns their total weight.
  // EndSave() follows. May throw std::bad_alloc.
  virtual double BeginSave() { return 0; }
  // Unlocked: asks for memory once, and writes the sum of the noted gradients to it, of which there
  // are some. Changes nothing. Returns an error if memory is refused, if an earlier fold has
  // failed, or if an index is found to be bad. May throw std::bad_alloc.
  virtual Status RunSave(Workspace& /*workspace*/, StateMemory& /*memory*/) { return Status(); }
  virtual void EndSave() {}
  // Unlocked: makes an empty sum the saved one. Returns InvalidArgument if that does not fit the
  // options, whose kind and type it has. After an error, only Clear() may follow. May throw
  // std::bad_alloc.
  virtual Status Restore(const SavedSum& /*saved*/, Workspace& /*workspace*/) { return Status(); }

  // If true, PrepareFinish() is called unlocked, when no other thread works on the sum. Otherwise
  // it is called under the lock, and uses no more than addresses need.
  virtual bool needs_preparation() const { return false; }
  // Allocates all memory that Finish() needs to add the early gradients after all others. They must
  // not move until Finish() has ended, and nothing may be appended before it. If memory is short,
  // returns ResourceExhausted or throws std::bad_alloc, and nothing has been prepared.
  virtual Status PrepareFinish(std::vector<Gradient*> early, Workspace& workspace) = 0;
  // Returns the shape of the values that Finish() will return, after PrepareFinish().
  virtual const Shape& value_shape() const = 0;
  // Frees the memory that PrepareFinish() has allocated.
  virtual void AbandonFinish() = 0;
  // Unlocked: returns the sum or mean of all gradients, or the failure of an earlier step. Cannot
  // fail for lack of memory. Only Clear() may follow.
  virtual Value Finish(Workspace& workspace) noexcept = 0;
  // Unlocked: frees all gradients, so that the sum is empty.
  virtual void Clear() noexcept = 0;

 protected:
  // Moves the gradient's values to memory that may be kept.
  Status CopyValues(Workspace& workspace, Gradient* gradient) const {
    const Shape& shape = gradient->shape;
    Buffer copy;
    Status status = workspace.Allocate(options_.type, shape, &copy);
    if (status.ok()) {
      const size_t num_bytes = NumBytes(options_.type, shape);
      status = workspace.Copy(gradient->values.data(), num_bytes, copy.data());
    }
    gradient->values = std::move(copy);
    gradient->owned = status.ok();
    return status;
  }

  // Adds to the bytes that count against the budget, modulo 2^64: a negated number subtracts.
  void Hold(size_t bytes) noexcept {
    held_bytes_ += bytes;
    options_.budget->Add(bytes);
  }

  const SumOptions& options_;
  double total_weight_ = 0;  // Of the gradients in the sum, added in their order.
  size_t held_bytes_ = 0;    // Whatever is left of them is subtracted in the end.
};

// Makes an empty sum, which keeps a reference to the options.
using SumFactory = std::unique_ptr<RoundSum> (*)(const SumOptions& options);

}  // namespace condacc

#endif  // CONDACC_CORE_ACCUMULATOR_ROUND_SUM_H_
