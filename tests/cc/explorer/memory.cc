#include "tests/cc/explorer/memory.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "cc/core/math/dense_math.h"
#include "cc/core/sparse/row_format.h"
#include "tests/cc/explorer/fibers/fibers.h"

namespace condacc::explorer {
namespace {

struct Memory {
  char* data;
  size_t num_bytes;
  bool is_owned;
};

int64_t num_buffers = 0;
WorkspaceFaults faults;

void Free(void* owner) {
  auto* const memory = static_cast<Memory*>(owner);
  if (memory->is_owned) {
    std::memset(memory->data, 0x5b, memory->num_bytes);
    delete[] memory->data;
  }
  delete memory;
  --num_buffers;
}

void Refill(void* owner, size_t num_bytes) {
  auto* const memory = static_cast<Memory*>(owner);
  if (num_bytes > memory->num_bytes) Abort("more is in use than there is");
  std::memset(memory->data + num_bytes, 0xcb, memory->num_bytes - num_bytes);
}

void FreeFirst(void* owner, size_t num_bytes) {
  auto* const memory = static_cast<Memory*>(owner);
  if (num_bytes > memory->num_bytes) Abort("more is freed than there is");
  std::memset(memory->data, 0x5b, num_bytes);
}

Buffer BufferOf(char* data, size_t num_bytes, bool is_owned) {
  ++num_buffers;
  return Buffer(data, new Memory{data, num_bytes, is_owned}, Free, Refill, FreeFirst);
}

Status Allocate(size_t num_bytes, Buffer* buffer) {
  Point("allocates");
  const NewPermit permit;
  if (Chance(faults.refused_percent)) return Status(StatusCode::kResourceExhausted, "refused");
  *buffer = NewBuffer(num_bytes);
  return Status();
}

// The time jumps to the end of the sleep only when all other fibers wait.
void BeSlow() {
  constexpr Time kLong = 1000000;  // About as long as the timeout of a stall.
  if (faults.slow_percent > 0 && Chance(faults.slow_percent)) Sleep(kLong + Draw(200));
}

}  // namespace

Buffer NewBuffer(size_t num_bytes) { return BufferOf(new char[num_bytes + 1], num_bytes, true); }

Buffer BorrowedBuffer(void* data, size_t num_bytes) {
  return BufferOf(static_cast<char*>(data), num_bytes, false);
}

int64_t TakeNumBuffers() { return std::exchange(num_buffers, 0); }

void SetWorkspaceFaults(const WorkspaceFaults& new_faults) { faults = new_faults; }

void UseChecker::Check() const {
  if (!is_alive_) Abort("a workspace is used after its end");
  if (HoldsLock()) Abort("a workspace is used under a lock");
}

Status ExplorerDenseWorkspace::Allocate(ElementType type, const Shape& shape, Buffer* buffer) {
  use_.Check();
  const int64_t num_elements = std::min(shape.num_elements(), kMaxElements);
  return explorer::Allocate(static_cast<size_t>(num_elements) * SizeOf(type), buffer);
}

Status ExplorerDenseWorkspace::Copy(const void* from, size_t num_bytes, void* to) {
  use_.Check();
  Point("copies");
  constexpr auto kLarge = static_cast<size_t>(kLargeSize);
  const bool is_large = num_bytes >= kLarge;  // The elements in memory are fewer.
  std::memcpy(to, from, is_large ? num_bytes / kLarge * kMaxElements : num_bytes);
  return Status();
}

// Other fibers run between the read and the write, so a concurrent sum in the same memory loses
// something.
void ExplorerDenseWorkspace::Add(const DenseAddArgs& args) {
  use_.Check();
  Point("begins a sum");
  DenseAddArgs part = args;
  part.num_elements = std::min(args.num_elements, static_cast<size_t>(kMaxElements));
  int64_t result[kMaxElements];
  part.out = result;
  AddDense(part, [](size_t total, size_t, LoopBody body) { body(0, total); });
  Point("has read for a sum");
  BeSlow();
  use_.Check();
  const size_t size = args.out_is_float32 ? sizeof(float) : SizeOf(args.type);
  std::memcpy(args.out, result, part.num_elements * size);
  Point("ends a sum");
}

ExplorerWorkspace::ExplorerWorkspace()
    : parallel_for_([](size_t total, size_t chunk, const auto& body) {
        for (size_t begin = 0; begin < total; begin += chunk) {
          Point("runs a chunk");
          BeSlow();
          body(begin, std::min(total, begin + chunk));
        }
      }) {}

Status ExplorerSparseWorkspace::Allocate(ElementType type, const Shape& shape, Buffer* buffer) {
  use_.Check();
  return explorer::Allocate(static_cast<size_t>(shape.num_elements()) * SizeOf(type), buffer);
}

Buffer ExplorerWorkspace::AllocateInner(size_t num_bytes) {
  use_.Check();
  Buffer buffer;
  (void)explorer::Allocate(num_bytes, &buffer);
  return buffer;
}

const ParallelFor& ExplorerWorkspace::parallel_for() const {
  use_.Check();
  return parallel_for_;
}

namespace {

// An entry of a merge, in the memory of the merge.
struct DeviceEntry {
  int64_t index;
  int64_t number;
  const void* values;
  int64_t count;  // Number of gradients: more than one for a merged row.
  bool is_bad;
};

// Calls `use(entry)` for each entry, in order of arrival.
template <class Use>
void ForEachEntry(const DeviceMergeArgs& args, const Use& use) {
  size_t source = 0;
  for (int64_t number = 0; number < args.num_entries; ++number) {
    while (source + 1 < args.sources.size() && args.sources[source + 1].first_entry <= number) {
      ++source;
    }
    const DeviceSource& from = args.sources[source];
    const int64_t i = number - from.first_entry;
    const int64_t index = from.indices[i];
    const auto* const values = static_cast<const char*>(from.values) +
                               static_cast<size_t>(i) * args.layout.width * sizeof(int64_t);
    const bool is_merged = number < args.num_merged;
    const bool is_bad = index < 0 || (from.index_bound >= 0 && index >= from.index_bound);
    use(DeviceEntry{index, number, values, is_merged ? args.merged_counts[number] : 1, is_bad});
  }
}

template <class T>
void AddRow(const DeviceEntry* first, const DeviceEntry* end, size_t width, double divisor,
            void* row) {
  for (size_t column = 0; column < width; ++column) {
    T sum = 0;
    for (const DeviceEntry* entry = first; entry != end; ++entry) {
      sum += static_cast<const T*>(entry->values)[column];
    }
    static_cast<T*>(row)[column] =
        divisor == 1 ? sum : static_cast<T>(sum / static_cast<T>(divisor));
  }
}

}  // namespace

Status ExplorerDeviceWorkspace::Begin(const char* what) const {
  use_.Check();
  Point(what);
  BeSlow();
  const NewPermit permit;
  return Chance(faults.failed_percent) ? Status(StatusCode::kInternal, "The device refuses")
                                       : Status();
}

Status ExplorerDeviceWorkspace::Allocate(ElementType type, const Shape& shape, Buffer* buffer) {
  use_.Check();
  return explorer::Allocate(static_cast<size_t>(shape.num_elements()) * SizeOf(type), buffer);
}

void ExplorerDeviceWorkspace::Add(const DenseAddArgs& /*args*/) {
  Abort("sparse gradients are added like dense ones");
}

Status ExplorerDeviceWorkspace::Clear(void* to, size_t num_bytes) {
  std::memset(to, 0, num_bytes);
  return Status();
}

Status ExplorerDeviceWorkspace::Copy(const void* from, size_t num_bytes, void* to) {
  if (num_bytes > 0) std::memcpy(to, from, num_bytes);
  return Status();
}

Status ExplorerDeviceWorkspace::CopyNow(const void* from, size_t num_bytes, void* to) {
  Status status = Begin("copies between device and host");
  return status.ok() ? Copy(from, num_bytes, to) : status;
}

Status ExplorerDeviceWorkspace::Widen(const int32_t* from, size_t size, int64_t* to) {
  std::copy_n(from, size, to);
  return Status();
}

Status ExplorerDeviceWorkspace::SizeOfMemory(const DeviceMergeArgs& args, size_t* num_bytes) {
  *num_bytes = static_cast<size_t>(args.num_entries) * sizeof(DeviceEntry);
  return Status();
}

Status ExplorerDeviceWorkspace::Sort(const DeviceMergeArgs& args, DeviceMergeReport* report) {
  Status status = Begin("sorts on the device");
  if (!status.ok()) return status;
  auto* const entries = static_cast<DeviceEntry*>(args.memory);
  ForEachEntry(args, [&](const DeviceEntry& entry) {
    entries[entry.number] = entry;
    if (entry.is_bad && report->bad_entry < 0) report->bad_entry = entry.number;
  });
  std::sort(entries, entries + args.num_entries, [](const DeviceEntry& a, const DeviceEntry& b) {
    return a.index != b.index ? a.index < b.index : a.number < b.number;
  });
  for (int64_t i = 0; i < args.num_entries; ++i) {
    if (i == 0 || entries[i].index != entries[i - 1].index) ++report->num_rows;
  }
  return status;
}

Status ExplorerDeviceWorkspace::Write(const DeviceMergeArgs& args,
                                      const DeviceMergeOutput& output) {
  Status status = Begin("merges on the device");
  if (!status.ok()) return status;
  const auto* const entries = static_cast<const DeviceEntry*>(args.memory);
  const DeviceEntry* const end = entries + args.num_entries;
  int64_t row = 0;
  for (const DeviceEntry* first = entries; first != end; ++row) {
    const DeviceEntry* next = first;
    int64_t count = 0;
    for (; next != end && next->index == first->index; ++next) count += next->count;
    if (row >= output.num_rows) Abort("a merge has more rows than its sort has counted");
    output.indices[row] = first->index;
    if (output.counts != nullptr) output.counts[row] = count;
    const double divisor =
        output.divisor == kOfEachRow ? static_cast<double>(count) : output.divisor;
    char* const to = static_cast<char*>(output.values) +
                     static_cast<size_t>(row) * args.layout.width * sizeof(int64_t);
    (args.layout.type == ElementType::kFloat64
         ? AddRow<double>
         : AddRow<int64_t>)(first, next, args.layout.width, divisor, to);
    first = next;
  }
  if (row != output.num_rows) Abort("a merge has fewer rows than its sort has counted");
  Point("has merged on the device");
  return status;
}

}  // namespace condacc::explorer
