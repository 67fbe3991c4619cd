// The format in which the state of an accumulator is saved.
//
// A state is a StateHeader and the arrays of StateArray, little-endian, each from the next multiple
// of 64 bytes on. Its size is such a multiple, too. Bytes that nothing uses are 0. The bytes depend
// on what was accumulated, and not on how much of it had been folded.
//
// If `num_contributors` is not 0, gradients are added in the order of their contributors, and the
// sum is that of the first contributors of which none is missing. The gradients of the others are
// early; see EarlyGradients.
#ifndef CONDACC_CORE_ACCUMULATOR_SAVED_STATE_H_
#define CONDACC_CORE_ACCUMULATOR_SAVED_STATE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cc/core/accumulator/round_sum.h"
#include "cc/core/accumulator/sum_options.h"
#include "cc/core/base/function_ref.h"
#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"

namespace condacc {

struct StateHeader {
  char magic[8];
  uint32_t version;
  uint32_t description_size;
  uint64_t num_bytes;  // Size of the state.
  int64_t global_step;
  int64_t num_dropped;
  int64_t last_dropped_step;
  // The gradients that are not early: their number, total weight, and the rank of their values. If
  // all are early, this is the rank of one of them, and -1 if there are none.
  int64_t num_gradients;
  double total_weight;
  int64_t value_rank;
  uint64_t num_come;  // Number of contributors of whom there are gradients.
  uint64_t num_early;
  uint64_t num_early_rows;  // 0 if dense.
};

// The arrays of a state. Those of rows are empty if the accumulator is dense.
enum StateArray {
  kDescription,   // [description_size] char: the accumulator, in words.
  kDims,          // [value_rank] int64: of the values. The first one of rows is their number.
  kContributors,  // [num_come] int64, in ascending order. The last ones are those who are early.
  kEarlyWeights,  // [num_early] double
  kEarlyRows,     // [num_early] int64: the number of rows of each early gradient.
  kIndices,       // [num_rows] int64, in ascending order and without repeats.
  kWeights,       // [num_rows] double: the weight of the gradients that contain the row.
  kValues,        // The sum, of the type that SumTypeOf() returns; empty if all are early.
  kEarlyIndices,  // [num_early_rows] int64
  kEarlyValues,   // Of the accumulator's type: of one early gradient after the other.
  kNumStateArrays
};

// Where the arrays of a state are.
struct StateLayout {
  size_t offsets[kNumStateArrays];
  size_t ends[kNumStateArrays];
  size_t num_bytes;  // Size of the state.
};

// A state in memory.
struct SavedState {
  int64_t global_step = 0;
  int64_t num_dropped = 0;
  int64_t last_dropped_step = 0;
  std::vector<int64_t> contributors;  // Those of the round's gradients, in ascending order.
  SavedSum sum;  // Its counts and its total weight are 0 if it has no gradients.
  std::vector<SavedGradient> early;

  int64_t num_accumulated() const { return sum.num_gradients + static_cast<int64_t>(early.size()); }
};

// The memory to which a state is written. The sum says how large it must be, because only the sum
// knows how many rows it has.
class StateMemory {
 public:
  // Allocates memory of `num_bytes` bytes, aligned to 64 bytes.
  using Allocator = FunctionRef<Status(size_t num_bytes, char** memory)>;

  // Keeps references to all arguments.
  StateMemory(SumKind kind, const SumOptions& options, const SavedState& state, Allocator allocate)
      : kind_(kind), options_(options), state_(state), allocate_(allocate) {}

  // Allocates the memory for a sum whose values have this shape, and writes everything to it but
  // the arrays of the sum, whose addresses it outputs, and those of early gradients. Called once,
  // or not at all. May throw std::bad_alloc.
  Status Allocate(const Shape& values, SumMemory* sum);
  // Does the same if the sum has no gradients.
  Status AllocateWithoutSum();
  // Writes the arrays of early gradients, after that. Returns InvalidArgument if an index is bad.
  Status WriteEarly(Workspace& workspace) const;

 private:
  template <typename T>
  T* Array(StateArray array) const {
    return reinterpret_cast<T*>(memory_ + layout_.offsets[array]);
  }

  const SumKind kind_;
  const SumOptions& options_;
  const SavedState& state_;
  const Allocator allocate_;
  StateLayout layout_ = {};
  char* memory_ = nullptr;
};

// Reads a state. Its pointers point into `bytes`, perhaps unaligned. Returns
// InvalidArgument if the bytes are no state, or the state of an accumulator of another kind or with
// other options. Does not read indices, the weights of rows and values, and allocates no more than
// the bytes warrant. May throw std::bad_alloc.
Status ReadState(const char* bytes, size_t num_bytes, SumKind kind, const SumOptions& options,
                 SavedState* state);

}  // namespace condacc

#endif  // CONDACC_CORE_ACCUMULATOR_SAVED_STATE_H_
