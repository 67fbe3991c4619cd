// PTX's instructions that threads of a warp or of a block execute together.
#ifndef CONDACC_TESTS_GPU_EMULATED_RUNTIME_COLLECTIVES_H_
#define CONDACC_TESTS_GPU_EMULATED_RUNTIME_COLLECTIVES_H_

#include <algorithm>
#include <cstdint>

#include "tests/gpu/emulated/runtime/block.h"
#include "tests/gpu/emulated/runtime/thread.h"

namespace condacc {
namespace emulated {

enum Shuffle { kUp, kDown, kButterfly, kIndex };
enum Reduction { kAdd, kMin, kMax, kAnd, kOr, kXor };

// Lanes that meet must execute the same one of these.
enum Exchanges { kBallot, kMatching, kReducing, kShuffling };

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

// The lanes of `mask` that have the same value.
inline uint32_t Matching(Thread* c, uint64_t value, uint32_t mask) {
  const WarpValues& values = c->block->Exchange(c, kMatching, value, mask);
  uint32_t result = 0;
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    if (values[lane] == value) result |= 1u << lane;
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
  const int from[] = {lane - by, lane + by, lane ^ by, first | (by & ~segment)};
  *in_range = how == kUp ? from[how] >= last : from[how] <= last;
  const int source = *in_range ? from[how] : lane;
  if ((mask >> source & 1) == 0) Fail(c, "shuffle from a lane that takes no part");
  return static_cast<uint32_t>(values[source]);
}

template <typename T>
T ReducedPair(T a, T b, Reduction how) {
  switch (how) {
    case kAdd:
      return static_cast<T>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
    case kMin:
      return std::min(a, b);
    case kMax:
      return std::max(a, b);
    case kAnd:
      return a & b;
    case kOr:
      return a | b;
    case kXor:
      return a ^ b;
  }
  return a;
}

inline uint32_t Reduced(Thread* c, uint32_t value, uint32_t mask, Reduction how, bool is_signed) {
  const WarpValues& values = c->block->Exchange(c, kReducing, value, mask);
  uint32_t result = value;
  bool is_first = true;
  for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
    if ((mask >> lane & 1) == 0) continue;
    const auto next = static_cast<uint32_t>(values[lane]);
    if (is_first) {
      result = next;
    } else if (is_signed) {
      result = static_cast<uint32_t>(
          ReducedPair(static_cast<int32_t>(result), static_cast<int32_t>(next), how));
    } else {
      result = ReducedPair(result, next, how);
    }
    is_first = false;
  }
  return result;
}

}  // namespace emulated
}  // namespace condacc

#endif  // CONDACC_TESTS_GPU_EMULATED_RUNTIME_COLLECTIVES_H_
