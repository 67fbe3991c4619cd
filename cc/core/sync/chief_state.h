// The chief of a gate.
#ifndef CONDACC_CORE_SYNC_CHIEF_STATE_H_
#define CONDACC_CORE_SYNC_CHIEF_STATE_H_

#include <string>
#include <utility>

namespace condacc {

// The chief that a gate belongs to, and what it has done with the gate. The gate belongs to the
// chief that prepared it last; only another Prepare() changes that. Not thread-safe.
class ChiefState {
 public:
  enum class Phase {
    kShut,       // No chief has ever prepared the gate.
    kPreparing,  // The chief resets accumulators and is about to open the gate.
    kOpen,       // Workers can claim slots.
    kDismissed,  // The chief has failed. Workers wait for the next one.
    kClosed,     // The chief has ended the training.
  };

  Phase phase() const { return phase_; }
  bool is_open() const { return phase_ == Phase::kOpen; }
  bool is_closed() const { return phase_ == Phase::kClosed; }
  bool is_dismissed() const { return phase_ == Phase::kDismissed; }
  bool has_been_prepared() const { return phase_ != Phase::kShut; }

  // Returns whether the gate belongs to `chief`.
  bool Is(const std::string& chief) const { return has_been_prepared() && chief == chief_; }
  // Returns whether `chief` is about to open the gate.
  bool IsPreparing(const std::string& chief) const {
    return phase_ == Phase::kPreparing && chief == chief_;
  }

  void Prepare(std::string chief) noexcept {
    chief_.swap(chief);
    phase_ = Phase::kPreparing;
  }
  // The methods below are called only for the chief that the gate belongs to.
  void Open() noexcept { phase_ = Phase::kOpen; }
  void Close() noexcept { phase_ = Phase::kClosed; }
  // Does nothing if the gate is closed: training that has ended stays ended.
  void Dismiss() noexcept {
    if (!is_closed()) phase_ = Phase::kDismissed;
  }

 private:
  Phase phase_ = Phase::kShut;
  std::string chief_;
};

}  // namespace condacc

#endif  // CONDACC_CORE_SYNC_CHIEF_STATE_H_
