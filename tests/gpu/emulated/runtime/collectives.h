// PTX's instructions that threads of a warp or of a block execute together.
#ifndef CONDACC_TESTS_GPU_EMULATED_RUNTIME_COLLECTIVES_H_
#define CONDACC_TESTS_GPU_EMULATED_RUNTIME_COLLECTIVES_H_

#include <cstdint>

#include "tests/gpu/emulated/runtime/block.h"
#include "tests/gpu/emulated/runtime/thread.h"

namespace condacc {
namespace emulated {

enum Shuffle { kUp, kDown, kIndex };

// Lanes that meet must execute the same one of these.
enum Exchanges { kBallot, kShuffling };

inline void Barrier(Thread* c, uint32_t number, uint32_t count) {
  c->block->WaitAtBarrier(c, number, count);
}

inline uint32_t CountedAtBarrier(Thread* c, uint32_t number, bool holds) {
  return c->block->CountAtBarrier(c, number, holds);
}

inline uint32_t Ballot(Thread* c, bool holds, uint32_t mask) {
  const WarpValues& values = c->block->Exchange(c, kBallot, holds ? 1 : 0, mask);
  uint32_t result = 0;
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    if (values[lane] != 0) result |= 1u << lane;
  }
  return result & mask;
}

// `limits` holds the last lane and, from bit 8, the mask of a part of the warp. `in_range` becomes
// whether the lane asked for is in that part; otherwise the result is the caller's own value.
inline uint32_t Shuffled(Thread* c, uint32_t value, uint32_t operand, uint32_t limits,
                         uint32_t mask, Shuffle how, bool* in_range) {
  const WarpValues& values = c->block->Exchange(c, kShuffling + how, value, mask);
  const int lane = static_cast<int>(c->lane);
  const int by = static_cast<int>(operand & 31);
  const int segment = static_cast<int>(limits >> 8 & 31);
  const int first = lane & segment;
  const int last = first | (static_cast<int>(limits & 31) & ~segment);
  const int from[] = {lane - by, lane + by, first | (by & ~segment)};
  *in_range = how == kUp ? from[how] >= last : from[how] <= last;
  const int source = *in_range ? from[how] : lane;
  if ((mask >> source & 1) == 0) Fail(c, "shuffle from a lane that takes no part");
  return static_cast<uint32_t>(values[source]);
}

}  // namespace emulated
}  // namespace condacc

#endif  // CONDACC_TESTS_GPU_EMULATED_RUNTIME_COLLECTIVES_H_
