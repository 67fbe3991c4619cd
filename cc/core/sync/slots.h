// The slots of a round: one for each gradient that the round averages.
#ifndef CONDACC_CORE_SYNC_SLOTS_H_
#define CONDACC_CORE_SYNC_SLOTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cc/core/base/invariant.h"
#include "cc/core/base/reached.h"

namespace condacc {

// A slot is free, held by a step, or complete, which means that every accumulator has its
// gradient. Not thread-safe.
class Slots {
 public:
  static constexpr int kNone = -1;

  explicit Slots(int count) : slots_(static_cast<size_t>(count)), num_free_(count) {}

  // Begins a round: all slots are free.
  void FreeAll() noexcept {
    for (Slot& slot : slots_) slot = Slot();
    num_free_ = size();
    num_held_ = 0;
    none_free_before_ = 0;
  }

  // Gives the first free slot to `holder`. Returns kNone if there is none.
  int Hold(uint64_t holder) noexcept {
    if (num_free_ == 0) return kNone;
    while (slots_[none_free_before_].state != State::kFree) ++none_free_before_;
    CONDACC_REACHED("slot is held");
    slots_[none_free_before_] = {State::kHeld, holder};
    --num_free_;
    ++num_held_;
    return static_cast<int>(none_free_before_);
  }

  // Frees a slot, unless it is complete or has been given to another holder since.
  void Free(int slot, uint64_t holder) noexcept {
    CONDACC_INVARIANT(slot >= 0 && slot < size());
    const auto freed = static_cast<size_t>(slot);
    const bool is_held = slots_[freed].state == State::kHeld && slots_[freed].holder == holder;
    CONDACC_REACHED("slot is freed", static_cast<int>(slots_[freed].state), is_held);
    if (is_held) Free(freed);
  }

  // Frees all slots that are held.
  void FreeHeld() noexcept {
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].state == State::kHeld) Free(i);
    }
  }

  // Completes a slot, whether or not the caller still holds it: once the caller has pushed all
  // gradients of the slot, they are in the accumulators, even if the slot has been given to another
  // holder. Returns false if the slot was already complete.
  bool Complete(int slot) noexcept {
    CONDACC_INVARIANT(slot >= 0 && slot < size());
    const State before = std::exchange(slots_[static_cast<size_t>(slot)].state, State::kComplete);
    CONDACC_REACHED("slot is complete", static_cast<int>(before));
    if (before == State::kFree) --num_free_;
    if (before == State::kHeld) --num_held_;
    return before != State::kComplete;
  }

  int size() const { return static_cast<int>(slots_.size()); }
  int num_free() const { return num_free_; }
  int num_held() const { return num_held_; }
  int num_complete() const { return size() - num_free_ - num_held_; }

  // Returns whether the numbers that are kept are those of the slots; only for invariants.
  bool CountsAreRight() const {
    const auto count = [this](State state) {
      return static_cast<int>(std::count_if(
          slots_.begin(), slots_.end(), [state](const Slot& slot) { return slot.state == state; }));
    };
    return std::pair(count(State::kFree), count(State::kHeld)) == std::pair(num_free_, num_held_);
  }

 private:
  enum class State { kFree, kHeld, kComplete };
  struct Slot {
    State state = State::kFree;
    uint64_t holder = 0;
  };

  void Free(size_t held) noexcept {
    slots_[held] = Slot();
    ++num_free_;
    --num_held_;
    none_free_before_ = std::min(none_free_before_, held);
  }

  std::vector<Slot> slots_;
  // The numbers of slots in two states, and where to look for a free one. They are kept because a
  // method that concerns one slot must not take longer if there are more slots.
  int num_free_;
  int num_held_ = 0;
  size_t none_free_before_ = 0;  // No slot before this one is free.
};

}  // namespace condacc

#endif  // CONDACC_CORE_SYNC_SLOTS_H_
