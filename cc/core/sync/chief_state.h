// The chief of a gate.
#ifndef CONDACC_CORE_SYNC_CHIEF_STATE_H_
#define CONDACC_CORE_SYNC_CHIEF_STATE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cc/core/base/reached.h"

namespace condacc {

// A process and graph that acts for a chief, and one of its sessions. The view refers to a name
// that somebody else owns.
struct ChiefView {
  std::string_view name;
  int64_t session = 0;
};
struct Chief {
  std::string name;
  int64_t session = 0;

  ChiefView view() const { return {name, session}; }
};

inline bool operator==(ChiefView a, ChiefView b) {
  return a.session == b.session && a.name == b.name;
}

// The chief that a gate belongs to, and what it has done with the gate. The gate belongs to the
// chief that prepared it last; only another Prepare() changes that. A volunteer is a chief that has
// prepared the gate only because nobody else had. Not thread-safe.
class ChiefState {
 public:
  enum class Phase {
    kShut,       // No chief has ever prepared the gate.
    kPreparing,  // The chief resets accumulators and is about to open the gate.
    kOpen,       // Workers can claim slots.
    kDismissed,  // The chief has failed. Workers wait for the next one.
    kClosed,     // The chief has ended the training.
  };

  // The number of replaced chiefs, and of dismissed ones, that are remembered. A call of an older
  // one is treated as that of an unknown chief.
  static constexpr size_t kMaxRemembered = 1000;

  bool is_open() const { return phase_ == Phase::kOpen; }
  bool is_closed() const { return phase_ == Phase::kClosed; }
  bool is_dismissed() const { return phase_ == Phase::kDismissed; }
  bool has_been_prepared() const { return phase_ != Phase::kShut; }
  // Returns whether the gate belongs to a volunteer.
  bool is_volunteer() const { return is_volunteer_; }
  // Returns a number that grows with each change that matters to waits.
  int64_t num_changes() const { return num_changes_; }

  // Returns whether the gate belongs to the chief. A session in which the chief has not prepared
  // the gate acts for the session in which it has.
  bool Is(ChiefView chief) const { return IsNamed(chief.name) && !WasReplaced(chief); }
  bool IsNamed(std::string_view name) const { return has_been_prepared() && name == chief_.name; }
  // Returns whether another Prepare() has taken the gate from the chief, which was no volunteer.
  bool WasReplaced(ChiefView chief) const { return Contains(replaced_, chief); }
  // Returns whether the chief was dismissed after its last Prepare(). It need not own the gate.
  bool WasDismissed(ChiefView chief) const { return Contains(dismissed_, chief); }
  // Returns whether `chief` is about to open the gate.
  bool IsPreparing(ChiefView chief) const {
    return phase_ == Phase::kPreparing && chief == chief_.view();
  }
  // Returns whether a Prepare() would only repeat the chief's last one. The first one that is not
  // that of a volunteer always begins anew: weights may have been restored before it.
  bool GoesOn(ChiefView chief, bool volunteers) const {
    return (phase_ == Phase::kPreparing || phase_ == Phase::kOpen) && chief == chief_.view() &&
           (volunteers || !is_volunteer_);
  }
  // Returns whether a volunteer may prepare the gate: nobody else has opened it, or that was a
  // volunteer that has ended, or it was an earlier session of the same chief.
  bool MayVolunteer(ChiefView chief) const {
    if (WasReplaced(chief)) return false;
    if (!has_been_prepared() || IsNamed(chief.name)) return true;
    return is_volunteer_ && (!is_open() || is_gone_);
  }

  // Makes sure that the next Prepare() gets its memory. May throw std::bad_alloc.
  void Reserve() { replaced_.reserve(replaced_.size() + 1); }
  // Makes the gate the chief's. Reserve() must have been called before.
  void Prepare(Chief chief, bool volunteers) noexcept {
    CONDACC_REACHED("prepare", static_cast<int>(phase_), volunteers, IsNamed(chief.name));
    const bool had_chief = has_been_prepared() && !is_volunteer_;
    const bool is_same = IsNamed(chief.name);
    // A chief stays one in its next session, even if that begins with its queue runner.
    is_volunteer_ = volunteers && !had_chief;
    is_gone_ = false;
    if (had_chief || is_same) Remember(&replaced_, std::move(chief_));
    chief_ = std::move(chief);
    Remove(&replaced_, chief_.view());
    Remove(&dismissed_, chief_.view());
    SetPhase(Phase::kPreparing);
  }
  // The methods below are called only for the chief that the gate belongs to.
  void Open() noexcept {
    CONDACC_REACHED("open", static_cast<int>(phase_));
    SetPhase(Phase::kOpen);
  }
  void Close() noexcept {
    CONDACC_REACHED("close", static_cast<int>(phase_));
    SetPhase(Phase::kClosed);
  }
  // Notes whether the process of the chief is known to have ended.
  void SetGone(bool is_gone) noexcept { is_gone_ = is_gone; }

  // Dismisses a chief, whether or not it owns the gate. Training that has ended stays ended. May
  // throw std::bad_alloc, and then nothing has changed.
  void Dismiss(const Chief& chief) {
    CONDACC_REACHED("dismiss", static_cast<int>(phase_), Is(chief.view()));
    if (!WasDismissed(chief.view())) Remember(&dismissed_, chief);
    SetPhase(Is(chief.view()) && !is_closed() ? Phase::kDismissed : phase_);
  }

 private:
  void SetPhase(Phase phase) noexcept {
    phase_ = phase;
    ++num_changes_;
  }
  static bool Contains(const std::vector<Chief>& chiefs, ChiefView chief) {
    return std::any_of(chiefs.begin(), chiefs.end(),
                       [chief](const Chief& each) { return each.view() == chief; });
  }
  // Adds a chief. If there are more than kMaxRemembered then, forgets the one that was added first.
  static void Remember(std::vector<Chief>* chiefs, Chief chief) {
    chiefs->push_back(std::move(chief));
    if (chiefs->size() > kMaxRemembered) chiefs->erase(chiefs->begin());
  }
  static void Remove(std::vector<Chief>* chiefs, ChiefView chief) noexcept {
    const auto is_it = [chief](const Chief& each) { return each.view() == chief; };
    chiefs->erase(std::remove_if(chiefs->begin(), chiefs->end(), is_it), chiefs->end());
  }

  Phase phase_ = Phase::kShut;
  int64_t num_changes_ = 0;
  Chief chief_;
  bool is_volunteer_ = false;
  bool is_gone_ = false;
  std::vector<Chief> replaced_;
  std::vector<Chief> dismissed_;
};

}  // namespace condacc

#endif  // CONDACC_CORE_SYNC_CHIEF_STATE_H_
