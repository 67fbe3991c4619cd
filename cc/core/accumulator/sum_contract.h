// What Accumulator asks of the sum of one round's gradients.
#ifndef CONDACC_CORE_ACCUMULATOR_SUM_CONTRACT_H_
#define CONDACC_CORE_ACCUMULATOR_SUM_CONTRACT_H_

#include <cstdint>
#include <type_traits>
#include <utility>

#include "cc/core/base/status.h"

namespace condacc {

// What Append() has done with a gradient.
enum class Appended {
  kInSum,    // It is in the sum, with all that came before it.
  kPending,  // It is to be added by a fold, or at the latest by Finish().
  kUrgent,   // Likewise, but the call that brought it must not return before it has been added.
};

// Each line checks one member of a sum and says what it does. A sum has, beside these, the types
//   Options    what all rounds of an accumulator have in common; outlives the sum;
//   Gradient   what an apply brings;
//   Workspace  the memory and threads that a call lends;
//   Value      what a take gets, with a Status `failure` that says why it is not the sum;
//   Need       what a gradient misses before it can be appended: kNothing, or what Prepare() gives.
//
// The accumulator calls a sum under its lock, except where a line says "unlocked". Of the unlocked
// calls no two run at a time. Gradients may be appended during RunFold(), and nothing happens to
// the sum during the others.
template <class Sum>
struct SumContract {
  using Options = typename Sum::Options;
  using Gradient = typename Sum::Gradient;
  using Workspace = typename Sum::Workspace;
  using Value = typename Sum::Value;
  using Need = typename Sum::Need;

  template <class Member, class Expected>
  static constexpr bool kIs = std::is_convertible_v<Member, Expected>;

  // An empty sum. It keeps the reference.
  static_assert(std::is_constructible_v<Sum, const Options&>);

  // Whether the gradient fits the accumulator and what is in the sum: InvalidArgument if not.
  static_assert(kIs<decltype(&Sum::Check), Status (Sum::*)(const Gradient&) const>);
  // What a gradient that fits needs before it can be appended.
  static_assert(kIs<decltype(&Sum::NeedOf), Need (Sum::*)(const Gradient&) const>);
  // Unlocked, several at a time: gives the gradient what it needs. On an error nothing has changed.
  static_assert(
      kIs<decltype(&Sum::Prepare), Status (*)(const Options&, Need, Workspace&, Gradient*)>);
  // Takes over a gradient that needs nothing. Throws std::bad_alloc only, and then nothing has
  // changed.
  static_assert(kIs<decltype(&Sum::Append), Appended (Sum::*)(Gradient)>);

  // Whether what is pending should be added now. `take_is_near`: a take will probably come next,
  // and adds what is pending in the same pass in which it divides.
  static_assert(kIs<decltype(&Sum::WantsFold), bool (Sum::*)(bool take_is_near) const>);
  // Whether a fold now, while one gradient is missing for a take, makes that take much faster.
  static_assert(kIs<decltype(&Sum::WantsFoldAhead), bool (Sum::*)() const>);
  // Whether so much is pending that whoever brings more should wait for a fold.
  static_assert(kIs<decltype(&Sum::IsOverfull), bool (Sum::*)() const>);

  // Starts to fold: to add the gradients that have been pending longest. Returns how many.
  static_assert(noexcept(std::declval<Sum&>().BeginFold()));
  static_assert(kIs<decltype(&Sum::BeginFold), int64_t (Sum::*)()>);
  // Unlocked: does the work.
  static_assert(kIs<decltype(&Sum::RunFold), void (Sum::*)(Workspace&)>);
  // Returns whether the gradients have been added. If memory was short, they are pending as before.
  static_assert(noexcept(std::declval<Sum&>().EndFold()));
  static_assert(kIs<decltype(&Sum::EndFold), bool (Sum::*)()>);

  // True: PrepareFinish() has to be called before Finish(), and nothing is appended in between.
  static_assert(std::is_same_v<decltype(Sum::kFinishNeedsMemory), const bool>);
  // Unlocked: gets all memory that Finish() needs. ResourceExhausted, or std::bad_alloc, if it is
  // short; nothing has been prepared then.
  static Status PrepareFinish(Sum& sum, Workspace& workspace) {
    if constexpr (Sum::kFinishNeedsMemory) return sum.PrepareFinish(workspace);
    return Status();
  }
  // Gives up what PrepareFinish() got.
  static void AbandonFinish(Sum& sum) {
    if constexpr (Sum::kFinishNeedsMemory) sum.AbandonFinish();
  }
  // Unlocked: what all gradients come to. Cannot fail. Only Clear() may follow.
  static_assert(kIs<decltype(&Sum::Finish), Value (Sum::*)(Workspace&)>);
  // Unlocked: makes it an empty sum.
  static_assert(kIs<decltype(&Sum::Clear), void (Sum::*)()>);
};

}  // namespace condacc

#endif  // CONDACC_CORE_ACCUMULATOR_SUM_CONTRACT_H_
