// The interface that Accumulator expects of a class that sums the gradients of one round.
#ifndef CONDACC_CORE_ACCUMULATOR_SUM_CONTRACT_H_
#define CONDACC_CORE_ACCUMULATOR_SUM_CONTRACT_H_

#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "cc/core/base/status.h"

namespace condacc {

// The result of Append().
enum class Appended {
  kInSum,       // The sum contains the gradient and all that came before it.
  kPending,     // A fold will add the gradient, or at the latest Finish().
  kMustAddNow,  // Like kPending, but the apply must not return before the gradient has been added.
};

// Each static_assert checks one member of a sum, and the comment above it says what the member
// does. Besides, a sum defines these types:
//   Options    The options of an accumulator, which all of its rounds share. They outlive the sum.
//   Gradient   A gradient as an apply passes it.
//   Workspace  The memory and threads that the caller provides.
//   Value      The result of a take. Its Status `failure`, if not OK, says why it is invalid.
//   Missing    What Prepare() must still supply before Append(), or kNothing.
//
// The accumulator calls a method under its lock, unless the comment says "unlocked". No two
// unlocked methods of one sum run at the same time (Prepare() is static). While RunFold() runs,
// gradients may be appended. While another unlocked method runs, nothing else changes the sum, but
// methods that are const may be called.
template <class Sum>
struct SumContract {
  using Options = typename Sum::Options;
  using Gradient = typename Sum::Gradient;
  using Workspace = typename Sum::Workspace;
  using Value = typename Sum::Value;
  using Missing = typename Sum::Missing;

  template <class Member, class Expected>
  static constexpr bool kIs = std::is_convertible_v<Member, Expected>;

  // Makes an empty sum. It keeps the reference.
  static_assert(std::is_constructible_v<Sum, const Options&>);

  // Returns InvalidArgument if the gradient does not fit the accumulator or the gradients in the
  // sum.
  static_assert(kIs<decltype(&Sum::Check), Status (Sum::*)(const Gradient&) const>);
  // Returns what a gradient that fits lacks before it can be appended.
  static_assert(kIs<decltype(&Sum::MissingFrom), Missing (Sum::*)(const Gradient&) const>);
  // Unlocked, and called concurrently by several threads: gives the gradient what it lacks. After
  // an error, the gradient is not used any more.
  static_assert(
      kIs<decltype(&Sum::Prepare), Status (*)(const Options&, Missing, Workspace&, Gradient*)>);
  // Takes over a gradient that lacks nothing. If it throws std::bad_alloc, nothing has changed.
  static_assert(kIs<decltype(&Sum::Append), Appended (Sum::*)(Gradient)>);

  // The `num_missing` of WantsFold() if nobody knows when the next take comes.
  static constexpr int64_t kUnknown = std::numeric_limits<int64_t>::max();
  // Returns whether the pending gradients should be added now. `num_missing` is how many gradients
  // the next take lacks: if 0, it probably comes next, and adds them in the same pass in which it
  // divides; if 1, a take waits that may be faster if all but its last gradient have been added.
  static_assert(kIs<decltype(&Sum::WantsFold), bool (Sum::*)(int64_t num_missing) const>);
  // Returns whether so much is pending that an apply should wait for a fold before it returns.
  static_assert(kIs<decltype(&Sum::IsOverfull), bool (Sum::*)() const>);

  // Starts a fold, which adds the gradients that have been pending longest. Returns their number.
  static_assert(noexcept(std::declval<Sum&>().BeginFold()));
  static_assert(kIs<decltype(&Sum::BeginFold), int64_t (Sum::*)()>);
  // Unlocked: adds the gradients of the fold that was started.
  static_assert(noexcept(std::declval<Sum&>().RunFold(std::declval<Workspace&>())));
  static_assert(kIs<decltype(&Sum::RunFold), void (Sum::*)(Workspace&)>);
  // Ends the fold. Returns whether its gradients have been added. If memory was short, they are
  // pending as before.
  static_assert(noexcept(std::declval<Sum&>().EndFold()));
  static_assert(kIs<decltype(&Sum::EndFold), bool (Sum::*)()>);

  // If true, PrepareFinish() has to be called before Finish(), and nothing is appended in between.
  static_assert(std::is_same_v<decltype(Sum::kFinishNeedsMemory), const bool>);
  // Unlocked: allocates all memory that Finish() needs. If memory is short, returns
  // ResourceExhausted or throws std::bad_alloc, and nothing has been prepared. Likewise if
  // gradients turn out to be bad only now: it returns the error of the first of them, and
  // Refused() names them. They remain in the sum, and PrepareFinish() refuses them again, until
  // RemoveRefused(). Only sums with kFinishNeedsMemory have it.
  static Status PrepareFinish(Sum& sum, Workspace& workspace) {
    static_assert(kIs<decltype(&Sum::PrepareFinish), Status (Sum::*)(Workspace&)>);
    return sum.PrepareFinish(workspace);
  }
  // Frees the memory that PrepareFinish() has allocated. Only sums with kFinishNeedsMemory have it.
  static void AbandonFinish(Sum& sum) {
    static_assert(kIs<decltype(&Sum::AbandonFinish), void (Sum::*)()>);
    sum.AbandonFinish();
  }
  // Returns the numbers of the gradients that the last PrepareFinish() has refused, ascending.
  // Gradients are numbered from 1 in order of Append(). Only sums with kFinishNeedsMemory have it.
  static const std::vector<int64_t>& Refused(const Sum& sum) { return sum.refused(); }
  // Removes the gradients that the last PrepareFinish() has refused. Only sums with
  // kFinishNeedsMemory have it.
  static void RemoveRefused(Sum& sum) {
    static_assert(noexcept(sum.RemoveRefused()));
    sum.RemoveRefused();
  }
  // Unlocked: returns the sum or mean of all gradients. Cannot fail for want of memory. Only
  // Clear() may follow.
  static_assert(noexcept(std::declval<Sum&>().Finish(std::declval<Workspace&>())));
  static_assert(kIs<decltype(&Sum::Finish), Value (Sum::*)(Workspace&)>);
  // Unlocked: frees all gradients, so that the sum is empty.
  static_assert(noexcept(std::declval<Sum&>().Clear()));
  static_assert(kIs<decltype(&Sum::Clear), void (Sum::*)()>);
};

}  // namespace condacc

#endif  // CONDACC_CORE_ACCUMULATOR_SUM_CONTRACT_H_
