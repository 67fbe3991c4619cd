// The CUDA launchers for programs in other languages. The functions copy the text of an error to
// `error`, of 256 bytes, and return whether there was none.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "cc/core/base/element_type.h"
#include "cc/core/base/status.h"
#include "cc/core/math/dense_math.h"
#include "cc/core/sparse/device_merge.h"
#include "cc/gpu/cuda_stream.h"
#include "cc/gpu/dense_launch.h"
#include "cc/gpu/sparse_merge.h"

namespace {

bool Told(const condacc::Status& status, char* error) {
  if (status.ok()) return true;
  const size_t size = std::min<size_t>(status.message().size(), 255);
  std::memcpy(error, status.message().data(), size);
  error[size] = '\0';
  return false;
}

// `type` is the number of a condacc::ElementType.
condacc::DenseAddArgs ArgsOfSum(int type, size_t size, void* out, const void* first,
                                const void** inputs, size_t num_inputs, int64_t divisor) {
  condacc::DenseAddArgs args;
  args.type = static_cast<condacc::ElementType>(type);
  args.num_elements = size;
  args.out = out;
  args.first = first;
  args.inputs = inputs;
  args.num_inputs = num_inputs;
  args.divisor = divisor;
  return args;
}

// Returns the arguments for merging gradients of `size` slices of `width` elements each. There is
// no bound if `index_bound` is -1.
condacc::DeviceMergeArgs ArgsOfMerge(int type, const int64_t** indices, const void** values,
                                     size_t num_gradients, int64_t size, size_t width,
                                     int64_t index_bound, void* memory) {
  condacc::DeviceMergeArgs args;
  args.layout = {static_cast<condacc::ElementType>(type), width};
  for (size_t i = 0; i < num_gradients; ++i) {
    args.sources.push_back({indices[i], values[i], args.num_entries, index_bound});
    args.num_entries += size;
  }
  args.num_index_bits = condacc::NumIndexBits(index_bound);
  args.memory = memory;
  return args;
}

}  // namespace

extern "C" {

bool condacc_dense_sum(int type, size_t size, void* out, const void* first, const void** inputs,
                       size_t num_inputs, int64_t divisor, cudaStream_t stream, char* error) {
  const auto args = ArgsOfSum(type, size, out, first, inputs, num_inputs, divisor);
  return Told(condacc::QueueDenseAdd(args, stream), error);
}

// Outputs the host's time for one of many sums that are queued, in nanoseconds.
bool condacc_dense_sum_host_time(int type, size_t size, void* out, const void* first,
                                 const void** inputs, size_t num_inputs, int repeats,
                                 cudaStream_t stream, double* nanoseconds, char* error) {
  const auto args = ArgsOfSum(type, size, out, first, inputs, num_inputs, 1);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < repeats; ++i) {
    if (!Told(condacc::QueueDenseAdd(args, stream), error)) return false;
  }
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  *nanoseconds = took.count() / repeats;
  return true;
}

bool condacc_merge_memory(int type, const int64_t** indices, const void** values,
                          size_t num_gradients, int64_t size, size_t width, int64_t index_bound,
                          size_t* num_bytes, char* error) {
  const auto args =
      ArgsOfMerge(type, indices, values, num_gradients, size, width, index_bound, nullptr);
  return Told(condacc::SizeOfMergeMemory(args, num_bytes), error);
}

// Merges the gradients to their sum or, if `divisor` is 0, to the mean of each row. `out_indices`
// and `out_values` have room for all slices of all gradients.
bool condacc_merge(int type, const int64_t** indices, const void** values, size_t num_gradients,
                   int64_t size, size_t width, int64_t index_bound, int64_t divisor, void* memory,
                   int64_t* out_indices, void* out_values, int64_t* num_rows, cudaStream_t stream,
                   char* error) {
  const auto args =
      ArgsOfMerge(type, indices, values, num_gradients, size, width, index_bound, memory);
  condacc::DeviceMergeReport report;
  if (!Told(condacc::SortRows(args, stream, &report), error)) return false;
  condacc::DeviceMergeOutput output;
  output.num_rows = *num_rows = report.num_rows;
  output.indices = out_indices;
  output.values = out_values;
  output.divisor = divisor;
  return Told(condacc::QueueWrite(args, output, stream), error);
}

}  // extern "C"
