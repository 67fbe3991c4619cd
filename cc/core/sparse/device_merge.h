// What a device is asked to do to merge the rows of sparse gradients that lie in its memory.
#ifndef CONDACC_CORE_SPARSE_DEVICE_MERGE_H_
#define CONDACC_CORE_SPARSE_DEVICE_MERGE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "cc/core/base/status.h"
#include "cc/core/sparse/sparse_merge.h"
#include "cc/core/sparse/sparse_workspace.h"

namespace condacc {

// A gradient, or rows that were merged before. Entries, one for each row of each source, are
// numbered from source to source. The addresses are the device's.
struct DeviceSource {
  const int64_t* rows = nullptr;
  const void* values = nullptr;
  int64_t first_entry = 0;
  int64_t num_dense_rows = -1;  // rows must be lower; -1: any may come
};

struct DeviceMergeArgs {
  RowLayout layout;
  std::vector<DeviceSource> sources;  // in order of arrival
  int64_t num_entries = 0;
  // So many entries, those of the first source, are merged rows: their values are sums, in the
  // layout's sum type, and `merged_counts` tells how many gradients each was in.
  int64_t num_merged = 0;
  const int64_t* merged_counts = nullptr;
  int num_row_bits = 64;   // good rows need no more
  void* memory = nullptr;  // of the device, to work in; aligned to 256 bytes
};

struct DeviceMergeReport {
  int64_t num_rows = 0;    // different ones
  int64_t bad_entry = -1;  // the first whose row is negative or too high
  int64_t bad_row = 0;     // which that is
};

// Where the merged rows are put, ascending, with their sums.
struct DeviceMergeOutput {
  int64_t num_rows = 0;
  int64_t* rows = nullptr;
  void* values = nullptr;
  bool values_are_sums = false;  // of the sum type, instead of the gradients'
  int64_t* counts = nullptr;     // of gradients that each row was in; may be null
  int64_t divisor = 1;           // 0: each row is divided by its count
};

// How many bits the rows below `num_dense_rows` (-1: any) take.
constexpr int NumRowBits(int64_t num_dense_rows) {
  if (num_dense_rows < 0) return 64;
  int bits = 1;
  while (bits < 63 && ((num_dense_rows - 1) >> bits) > 0) ++bits;
  return bits;
}

// Memory of a device. What is done there is queued and not waited for, if nothing else is said.
// Internal: the device refused.
class DeviceSparseWorkspace : public SparseWorkspace {
 public:
  // The size of `args.memory`.
  virtual Status SizeOfMemory(const DeviceMergeArgs& args, size_t* num_bytes) = 0;
  // Sorts the entries, stably, and counts the rows. Waits for the device.
  virtual Status Sort(const DeviceMergeArgs& args, DeviceMergeReport* report) = 0;
  // After Sort() of the same arguments. Additions happen in order of arrival for each row.
  virtual Status Write(const DeviceMergeArgs& args, const DeviceMergeOutput& output) = 0;
};

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_DEVICE_MERGE_H_
