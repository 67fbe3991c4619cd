// The slots of a round: one for each gradient that the round averages.
#ifndef CONDACC_CORE_SYNC_SLOTS_H_
#define CONDACC_CORE_SYNC_SLOTS_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "cc/core/base/reached.h"

namespace condacc {

// A slot is free, held by a step, or complete, which means that every accumulator has its
// gradient. Not thread-safe.
class Slots {
 public:
  static constexpr int kNone = -1;

  explicit Slots(int count) : slots_(static_cast<size_t>(count)) {}

  // Begins a round: all slots are free.
  void FreeAll() noexcept {
    for (Slot& slot : slots_) slot = Slot();
  }

  // Gives the first free slot to `holder`. Returns kNone if there is none.
  int Hold(uint64_t holder) noexcept {
    for (size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].state != State::kFree) continue;
      CONDACC_REACHED("slot is held");
      slots_[i] = {State::kHeld, holder};
      return static_cast<int>(i);
    }
    return kNone;
  }

  // Frees a slot, unless it is complete or has been given to another holder since.
  void Free(int slot, uint64_t holder) noexcept {
    Slot& freed = slots_[static_cast<size_t>(slot)];
    const bool is_held = freed.state == State::kHeld && freed.holder == holder;
    CONDACC_REACHED("slot is freed", static_cast<int>(freed.state), is_held);
    if (is_held) freed = Slot();
  }

  // Frees all slots that are held.
  void FreeHeld() noexcept {
    for (Slot& slot : slots_) {
      if (slot.state == State::kHeld) slot = Slot();
    }
  }

  // Completes a slot, whether or not the caller still holds it: once the caller has pushed all
  // gradients of the slot, they are in the accumulators, even if the slot has been given to another
  // holder. Returns false if the slot was already complete.
  bool Complete(int slot) noexcept {
    CONDACC_REACHED("slot is complete", static_cast<int>(slots_[static_cast<size_t>(slot)].state));
    return std::exchange(slots_[static_cast<size_t>(slot)].state, State::kComplete) !=
           State::kComplete;
  }

  int size() const { return static_cast<int>(slots_.size()); }
  int num_free() const { return Count(State::kFree); }
  int num_held() const { return Count(State::kHeld); }
  int num_complete() const { return Count(State::kComplete); }

 private:
  enum class State { kFree, kHeld, kComplete };
  struct Slot {
    State state = State::kFree;
    uint64_t holder = 0;
  };

  int Count(State state) const {
    int count = 0;
    for (const Slot& slot : slots_) count += slot.state == state ? 1 : 0;
    return count;
  }

  std::vector<Slot> slots_;
};

}  // namespace condacc

#endif  // CONDACC_CORE_SYNC_SLOTS_H_
