// The format in which the state of an accumulator is saved.
//
// A state is one string of bytes, little-endian, in this order:
//   magic: 8 bytes; version: uint32; kind: uint32; dtype: uint32; reduction: uint32;
//   num_contributors: int64; num_bytes: uint64;
//   the accumulator's shape;
//   global_step, num_dropped, last_dropped_step: int64;
//   the number of the gradients that are not early: int64, and their total weight: double;
//   the number of contributors of whom there are gradients: uint64, and, in ascending order, each
//   of them (int64);
//   the number of early gradients: uint64;
//   if some gradients are not early: the shape of the sum's values, and its indices (int64),
//   weights (double) and values;
//   of each early gradient, which is that of one of the last contributors: its weight (double), the
//   shape of its values, its indices, and its values.
// Indices, weights of rows and values begin at multiples of 64 bytes, and dense gradients have only
// values. A shape is its rank and its dimensions, all int64. An unknown rank or dimension is -1.
// The values of a sum are of the type in which sums are kept: float32 for float16 and bfloat16.
// Bytes that nothing uses are 0.
//
// If `num_contributors` is not 0, gradients are added in the order of their contributors, and the
// sum is that of the first contributors of which none is missing. The others are early; see
// RoundSum.
//
// The bytes depend on what was accumulated, and not on how much of it had been folded.
#ifndef CONDACC_CORE_ACCUMULATOR_SAVED_STATE_H_
#define CONDACC_CORE_ACCUMULATOR_SAVED_STATE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cc/core/accumulator/round_sum.h"
#include "cc/core/accumulator/sum_options.h"
#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"

namespace condacc {

struct SavedState {
  int64_t global_step = 0;
  int64_t num_dropped = 0;
  int64_t last_dropped_step = 0;
  std::vector<int64_t> contributors;  // Those of the round's gradients, in ascending order.
  SavedSum sum;  // Its counts and its total weight are 0 if it has no gradients.
  // The gradients of the last contributors, if they are early.
  std::vector<SavedGradient> early;

  int64_t num_accumulated() const { return sum.num_gradients + static_cast<int64_t>(early.size()); }
};

// Returns the size of a state of an accumulator with these options, and sets the offsets of the
// indices, weights and values of its sum, and of early gradients, in `*places`. The shape of the
// sum must be known.
struct SumPlaces {
  size_t indices = 0;
  size_t weights = 0;
  size_t values = 0;
  struct Early {
    size_t indices = 0;
    size_t values = 0;
  };
  std::vector<Early> early;
};
size_t SizeOfState(SumKind kind, const SumOptions& options, const SavedState& state,
                   SumPlaces* places);

// Writes everything but indices, the weights of rows and values to `memory`, which has
// SizeOfState() bytes.
void WriteState(SumKind kind, const SumOptions& options, const SavedState& state, char* memory);

// Reads a state. Its pointers point into `bytes`, perhaps unaligned. Returns
// InvalidArgument if the bytes are no state, or the state of an accumulator of another kind or with
// other options. Does not read indices, the weights of rows and values, and allocates no more than
// the bytes warrant. May throw std::bad_alloc.
Status ReadState(const char* bytes, size_t num_bytes, SumKind kind, const SumOptions& options,
                 SavedState* state);

}  // namespace condacc

#endif  // CONDACC_CORE_ACCUMULATOR_SAVED_STATE_H_
