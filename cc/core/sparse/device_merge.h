// The interface to a device that merges sparse gradients in its own memory.
#ifndef CONDACC_CORE_SPARSE_DEVICE_MERGE_H_
#define CONDACC_CORE_SPARSE_DEVICE_MERGE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cc/core/accumulator/workspace.h"
#include "cc/core/base/status.h"
#include "cc/core/sparse/row_format.h"

namespace condacc {

// A gradient, or the rows merged before. Each slice of a gradient and each merged row is an entry.
// Entries are numbered consecutively across sources. The pointers are device addresses.
struct DeviceSource {
  const int64_t* indices = nullptr;  // [n]
  const void* values = nullptr;      // [n, width]
  int64_t first_entry = 0;           // Number of the source's first entry.
  int64_t index_bound = -1;          // Indices must be lower. -1 means no bound.
};

struct DeviceMergeArgs {
  SliceLayout layout;
  std::vector<DeviceSource> sources;  // In order of arrival.
  int64_t num_entries = 0;
  // The first `num_merged` entries are the rows merged before. If there are any, they are the first
  // source. Their values are sums, of the layout's sum type. `merged_counts` [num_merged] has the
  // number of gradients that contain each row.
  int64_t num_merged = 0;
  const int64_t* merged_counts = nullptr;
  int num_index_bits = 64;  // Number of bits of valid indices.
  void* memory = nullptr;   // Device memory to work in.
};

struct DeviceMergeReport {
  int64_t num_rows = 0;    // Number of different indices.
  int64_t bad_entry = -1;  // First entry whose index is negative or too high, or -1.
};

// The memory that receives the merged rows, in ascending order.
struct DeviceMergeOutput {
  int64_t num_rows = 0;
  int64_t* indices = nullptr;    // [num_rows]
  void* values = nullptr;        // [num_rows, width]
  bool values_are_sums = false;  // If true, values are of the sum type, not of the gradients'.
  int64_t* counts = nullptr;     // [num_rows] number of gradients with the row; may be null.
  double divisor = 1;            // kOfEachRow means that each row is divided by its count.
};

// Returns how many bits the indices below `index_bound` need (-1 means no bound).
constexpr int NumIndexBits(int64_t index_bound) {
  if (index_bound < 0) return 64;
  int bits = 1;
  while (bits < 63 && ((index_bound - 1) >> bits) > 0) ++bits;
  return bits;
}

// Works with the memory of a device. Methods queue their work and do not wait for it, unless the
// comment says so. They return Internal if the device refuses the work.
class DeviceWorkspace : public Workspace {
 public:
  // Outputs the size that `args.memory` must have.
  virtual Status SizeOfMemory(const DeviceMergeArgs& args, size_t* num_bytes) = 0;
  // Sorts the entries by index, stably, and counts the different indices. Waits for the device.
  virtual Status Sort(const DeviceMergeArgs& args, DeviceMergeReport* report) = 0;
  // Adds the values of each row in order of arrival, and writes the output. May be called once
  // after each Sort(), with the same arguments and the number of rows that it reported.
  virtual Status Write(const DeviceMergeArgs& args, const DeviceMergeOutput& output) = 0;
};

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_DEVICE_MERGE_H_
