// Sums long rows, with all threads of a block working on one row. For .cu.cc files.
//
// The elements of a column are added one after the other, in order of arrival, so that the sum has
// the same bits as on the CPU. Only the loads can run in parallel. So all threads of a block load
// the packs of many entries, a tile, into shared memory. Then a few of them, one for each column,
// add the tile while the next one is being loaded.
#ifndef CONDACC_GPU_LONG_ROWS_H_
#define CONDACC_GPU_LONG_ROWS_H_

#include <cuda_runtime.h>

#include <cstdint>

#include "cc/gpu/elements.h"
#include "cc/gpu/kernel_launch.h"
#include "cc/gpu/row_merge.h"
#include "cc/gpu/row_sum.h"

namespace condacc {

inline constexpr int kLoadsOfTile = 4;  // Packs of a tile that a thread loads.
inline constexpr int kEntryStride = kThreads / kPacksOfChunk;
inline constexpr int kEntriesOfTile = kEntryStride * kLoadsOfTile;

static_assert(kEntriesOfTile == kThreads, "each thread counts one entry of a tile");

// The shared memory of a block: one tile is written while the other is read.
template <class RowSum>
struct LongRowMemory {
  static constexpr int kColumns = kPacksOfChunk * RowSum::kPack;

  alignas(kVectorBytes) typename RowSum::Element tiles[2][kEntriesOfTile][kColumns];
  unsigned long long num_gradients;
};

// One thread's part of the sum of a chunk of a row.
template <class RowSum>
class LongRowThread {
 public:
  using T = typename RowSum::Element;
  using Memory = LongRowMemory<RowSum>;

  __device__ LongRowThread(const RowSum& sum, int64_t row, int64_t chunk, bool needs_count)
      : sum_(sum),
        row_(row),
        end_(sum.segments.end(row)),
        first_(sum.segments.begin(row)),
        first_column_(chunk * Memory::kColumns),
        pack_(chunk * kPacksOfChunk + threadIdx.x % kPacksOfChunk),
        needs_count_(needs_count) {}

  // Writes the sum, and returns the row's count, or 0 if it is not needed. All threads of the block
  // must call this, and synchronize before the memory is used again.
  __device__ int64_t Run(Memory* memory) {
    FindValues(first_ + 1);
    if (threadIdx.x == 0) {
      memory->num_gradients = needs_count_ ? sum_.segments.FirstCount(first_) : 0;
    }
    const bool adds = threadIdx.x < Memory::kColumns && Column() < Width();
    typename RowSum::Sum total{};
    if (adds) total = First();
    LoadTile(first_ + 1);
    FindValues(first_ + 1 + kEntriesOfTile);
    unsigned long long num_gradients = 0;
    int buffer = 0;
    for (int64_t tile = first_ + 1; tile < end_; tile += kEntriesOfTile) {
      num_gradients += contributors_[0] != contributors_[1] ? 1 : 0;
      Store(memory->tiles[buffer]);
      __syncthreads();
      LoadTile(tile + kEntriesOfTile);
      FindValues(tile + 2 * kEntriesOfTile);
      if (adds) Add(memory->tiles[buffer], tile, &total);
      buffer ^= 1;
    }
    if (needs_count_) atomicAdd(&memory->num_gradients, num_gradients);
    __syncthreads();
    const auto count = static_cast<int64_t>(memory->num_gradients);
    if (adds) {
      sum_.out[row_ * Width() + Column()] =
          RowSum::Finished(total, sum_.divisor == 0 ? static_cast<double>(count) : sum_.divisor);
    }
    return count;
  }

 private:
  // The number of entries that are loaded from shared memory before the first of them is added.
  // They take 32 registers.
  static constexpr int kEntriesAtOnce = sizeof(T) == 8 ? 16 : 32;

  __device__ int64_t Width() const { return sum_.packs_per_row * RowSum::kPack; }
  // The column that this thread adds, if it adds one.
  __device__ int64_t Column() const { return first_column_ + threadIdx.x; }
  // The position in the tile of one of the entries whose packs this thread loads.
  __device__ static int Place(int load) {
    return static_cast<int>(threadIdx.x) / kPacksOfChunk + load * kEntryStride;
  }

  __device__ typename RowSum::Sum First() const {
    using Sum = typename RowSum::Sum;
    const char* const values = sum_.segments.values[first_];
    if (sum_.segments.IsMerged(first_)) return LoadConstantPack<Sum, 1>(values, Column()).values[0];
    return static_cast<Sum>(LoadConstantPack<T, 1>(values, Column()).values[0]);
  }

  // Loads the addresses of the entries of a tile, whose packs LoadTile() loads next.
  __device__ void FindValues(int64_t tile) {
#pragma unroll
    for (int k = 0; k < kLoadsOfTile; ++k) {
      const int64_t i = tile + Place(k);
      values_[k] = i < end_ ? sum_.segments.values[i] : nullptr;
    }
  }

  // Starts to load this thread's part of a tile, and the contributors of the entry that it counts
  // and of the entry before. Using them before Add() would wait for memory.
  __device__ void LoadTile(int64_t tile) {
#pragma unroll
    for (int k = 0; k < kLoadsOfTile; ++k) {
      if (values_[k] != nullptr && pack_ < sum_.packs_per_row) {
        loaded_[k] = LoadConstantPack<T, RowSum::kPack>(values_[k], pack_);
      }
    }
    const int64_t i = tile + threadIdx.x;
    const bool counts = needs_count_ && i < end_;
    for (int k = 0; k < 2; ++k) {
      contributors_[k] = counts ? sum_.segments.contributors[i - k] : 0;
    }
  }

  __device__ void Store(T (*tile)[Memory::kColumns]) const {
#pragma unroll
    for (int k = 0; k < kLoadsOfTile; ++k) {
      StorePack(loaded_[k], tile[Place(k)], threadIdx.x % kPacksOfChunk);
    }
  }

  __device__ void Add(const T (*tile)[Memory::kColumns], int64_t begin,
                      typename RowSum::Sum* total) const {
    const int size = static_cast<int>(min(end_ - begin, int64_t{kEntriesOfTile}));
    int i = 0;
#pragma unroll 1
    for (; i + kEntriesAtOnce <= size; i += kEntriesAtOnce) {
      AddSome(tile + i, kEntriesAtOnce, total);
    }
    if (i < size) AddSome(tile + i, size - i, total);
  }

  // Adds at most kEntriesAtOnce entries. All are loaded before the first is added.
  __device__ void AddSome(const T (*entries)[Memory::kColumns], int size,
                          typename RowSum::Sum* total) const {
    T loaded[kEntriesAtOnce];
#pragma unroll
    for (int i = 0; i < kEntriesAtOnce; ++i) {
      if (i < size) loaded[i] = entries[i][threadIdx.x];
    }
#pragma unroll
    for (int i = 0; i < kEntriesAtOnce; ++i) {
      if (i < size) *total += static_cast<typename RowSum::Sum>(loaded[i]);
    }
  }

  const RowSum& sum_;
  const int64_t row_;
  const int64_t end_;
  const int64_t first_;  // The row's first entry, which is added before the tiles.
  const int64_t first_column_;
  const int64_t pack_;
  const bool needs_count_;
  const char* values_[kLoadsOfTile];
  Pack<T, RowSum::kPack> loaded_[kLoadsOfTile] = {};
  uint32_t contributors_[2] = {};
};

// Each block sums chunks of rows. The first chunk's block writes the count.
template <class RowSum>
__global__ void __launch_bounds__(kThreads)
    SumLongRowsInBlocks(const __grid_constant__ SumLongRows<RowSum> step) {
  __shared__ LongRowMemory<RowSum> memory;
  const int64_t num_chunks = step.num_chunks();
  const int64_t num_items = step.long_rows.counts->num_long_rows * num_chunks;
  for (int64_t item = blockIdx.x; item < num_items; item += gridDim.x) {
    const int64_t row = step.long_rows.rows[item / num_chunks];
    const int64_t chunk = item % num_chunks;
    const bool writes_count = step.counts != nullptr && chunk == 0;
    LongRowThread<RowSum> thread(step.sum, row, chunk, writes_count || step.sum.divisor == 0);
    const int64_t count = thread.Run(&memory);
    if (writes_count && threadIdx.x == 0) step.counts[row] = count;
    __syncthreads();
  }
}

}  // namespace condacc

#endif  // CONDACC_GPU_LONG_ROWS_H_
