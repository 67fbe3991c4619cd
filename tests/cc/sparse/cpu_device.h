// A device that is the CPU: it runs the steps that GPUs run, one after the other.
#ifndef CONDACC_TESTS_SPARSE_CPU_DEVICE_H_
#define CONDACC_TESTS_SPARSE_CPU_DEVICE_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/base/float16.h"
#include "cc/core/sparse/device_merge.h"
#include "cc/core/sparse/device_rows.h"
#include "cc/core/sparse/sparse_sum.h"
#include "cc/gpu/row_merge.h"
#include "cc/gpu/row_merge_steps.h"
#include "tests/cc/dense/test_buffer.h"
#include "tests/cc/sparse/sparse_support.h"

namespace condacc {

// float16 or bfloat16 with the conversions that CUDA's types have.
template <class Bits>
class Narrow {
 public:
  Narrow() = default;
  explicit Narrow(float value) : bits_(Bits::FromFloat(value)) {}
  explicit operator float() const { return Bits::ToFloat(bits_); }

 private:
  Bits bits_;
};

// Replaces the launcher for GPUs.
struct CpuLauncher {
  using Float16 = Narrow<condacc::Float16>;
  using BFloat16 = Narrow<condacc::BFloat16>;

  template <typename Step>
  Status ForEach(int64_t num_items, const Step& step) {
    for (int64_t i = 0; i < num_items; ++i) step(i);
    return Status();
  }
  template <typename Step>
  Status ForEachUneven(int64_t num_items, const Step& step) {
    return ForEach(num_items, step);
  }
  template <class RowSum>
  Status Run(const SumLongRows<RowSum>& step) {
    for (uint32_t i = 0; i < step.long_rows.counts->num_long_rows; ++i) {
      const int64_t row = step.long_rows.rows[i];
      const RowSegments& segments = step.sum.segments;
      const int64_t first = segments.begin(row);
      const int64_t end = segments.end(row);
      const int64_t packs = step.sum.packs_per_row;
      for (int64_t c = 0; c < packs; ++c) step.sum.SumPack(row * packs + c, c, first, end);
      if (step.counts != nullptr) step.counts[row] = segments.Count(first, end);
    }
    return Status();
  }
};

class CpuDevice : public DeviceWorkspace {
 public:
  Status Allocate(ElementType type, const Shape& shape, Buffer* buffer) override {
    return memory_.Allocate(type, shape, buffer);
  }
  void Add(const DenseAddArgs& args) override { memory_.Add(args); }
  Status Clear(void* to, size_t num_bytes) override { return memory_.Clear(to, num_bytes); }
  Status Copy(const void* from, size_t num_bytes, void* to) override {
    if (num_bytes > 0) std::memcpy(to, from, num_bytes);
    return Status();
  }
  Status CopyNow(const void* from, size_t num_bytes, void* to) override {
    if (refuses_) return Refusal();
    ++num_waits_;
    return Copy(from, num_bytes, to);
  }
  Status Widen(const int32_t* from, size_t size, int64_t* to) override {
    std::copy_n(from, size, to);
    return Status();
  }
  Status SizeOfMemory(const DeviceMergeArgs& args, size_t* num_bytes) override {
    return WithKey(args, [&](auto key) {
      *num_bytes = MergeMemory<decltype(key)>(args, 0).num_bytes;
      return Status();
    });
  }
  Status Sort(const DeviceMergeArgs& args, DeviceMergeReport* report) override {
    if (refuses_) return Refusal();
    ++num_sorts_;
    if (on_sort_ != nullptr) on_sort_();
    return WithKey(args, [&](auto key) { return SortKeys<decltype(key)>(args, report); });
  }
  Status Write(const DeviceMergeArgs& args, const DeviceMergeOutput& output) override {
    return refuses_ ? Refusal() : WriteMerge(args, output, launcher_);
  }

  void Refuse(bool refuses) { refuses_ = refuses; }
  // Calls `on_sort` at the beginning of each sort.
  void OnSort(std::function<void()> on_sort) { on_sort_ = std::move(on_sort); }
  int num_sorts() const { return num_sorts_; }
  // The number of copies from or to memory of the host.
  int num_waits() const { return num_waits_; }
  TestWorkspace& memory() { return memory_; }

 private:
  static Status Refusal() { return Status(StatusCode::kInternal, "The device refuses"); }

  template <typename Key>
  Status SortKeys(const DeviceMergeArgs& args, DeviceMergeReport* report) {
    const MergeMemory<Key> memory(args, 0);
    *memory.counts = {kNoBadEntry, 0};
    const Status status = FillMerge(args, memory, launcher_);
    const auto size = static_cast<size_t>(args.num_entries);
    std::copy_n(memory.unsorted_entries, size, memory.entries);
    std::stable_sort(memory.entries, memory.entries + size, [&](uint32_t a, uint32_t b) {
      return memory.unsorted_keys[a] < memory.unsorted_keys[b];
    });
    for (size_t i = 0; i < size; ++i) memory.keys[i] = memory.unsorted_keys[memory.entries[i]];
    if (!LocateMerge(args, memory, launcher_).ok()) return Refusal();
    const IsRowStart<Key> is_start{memory.keys};
    for (uint32_t i = 0; i < size; ++i) {
      if (is_start(i)) memory.starts[report->num_rows++] = i;
    }
    if (memory.counts->first_bad_entry != kNoBadEntry) {
      report->bad_entry = static_cast<int64_t>(memory.counts->first_bad_entry);
    }
    return status;
  }

  TestWorkspace memory_;
  CpuLauncher launcher_;
  bool refuses_ = false;
  std::function<void()> on_sort_;
  int num_sorts_ = 0;
  int num_waits_ = 0;
};

using DeviceTake = SparseTake;

}  // namespace condacc

#endif  // CONDACC_TESTS_SPARSE_CPU_DEVICE_H_
