#include "tests/cc/explorer/memory.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "cc/core/dense/dense_math.h"
#include "tests/cc/explorer/fibers/fibers.h"

namespace condacc::explorer {
namespace {

struct Memory {
  char* data;
  size_t num_bytes;
  bool is_owned;
};

int64_t num_buffers = 0;
int refuse_percent = 0;

void Free(void* owner) {
  auto* const memory = static_cast<Memory*>(owner);
  if (memory->is_owned) {
    std::memset(memory->data, 0x5b, memory->num_bytes);
    delete[] memory->data;
  }
  delete memory;
  --num_buffers;
}

void Discard(void* owner, size_t num_bytes) {
  auto* const memory = static_cast<Memory*>(owner);
  if (num_bytes > memory->num_bytes) Abort("more is discarded than there is");
  std::memset(memory->data, 0xcb, num_bytes);
}

void Refill(void* owner, size_t num_bytes) {
  auto* const memory = static_cast<Memory*>(owner);
  if (num_bytes > memory->num_bytes) Abort("more is in use than there is");
  std::memset(memory->data + num_bytes, 0xcb, memory->num_bytes - num_bytes);
}

constexpr Buffer::Parts kParts = {Discard, Refill};

Buffer BufferOf(char* data, size_t num_bytes, bool is_owned) {
  ++num_buffers;
  return Buffer(data, new Memory{data, num_bytes, is_owned}, Free, &kParts);
}

Status Allocate(size_t num_bytes, Buffer* buffer) {
  Point("allocates");
  if (Chance(refuse_percent)) return Status(StatusCode::kResourceExhausted, "refused");
  *buffer = NewBuffer(num_bytes);
  return Status();
}

}  // namespace

Buffer NewBuffer(size_t num_bytes) { return BufferOf(new char[num_bytes + 1], num_bytes, true); }

Buffer BorrowedBuffer(void* data, size_t num_bytes) {
  return BufferOf(static_cast<char*>(data), num_bytes, false);
}

int64_t TakeNumBuffers() { return std::exchange(num_buffers, 0); }

void RefuseMemory(int percent) { refuse_percent = percent; }

void UseChecker::Check() const {
  if (!is_alive_) Abort("a workspace is used after its end");
  if (HoldsLock()) Abort("a workspace is used under a lock");
}

Status ExplorerDenseWorkspace::Allocate(ElementType type, const Shape& shape, Buffer* buffer) {
  use_.Check();
  const int64_t num_elements = std::min(shape.num_elements(), kMaxElements);
  return explorer::Allocate(static_cast<size_t>(num_elements) * SizeOf(type), buffer);
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
  AddDense(part);
  Point("has read for a sum");
  use_.Check();
  const size_t size = args.out_is_float32 ? sizeof(float) : SizeOf(args.type);
  std::memcpy(args.out, result, part.num_elements * size);
  Point("ends a sum");
}

ExplorerWorkspace::ExplorerWorkspace()
    : parallel_for_([](size_t total, size_t chunk, const auto& body) {
        for (size_t begin = 0; begin < total; begin += chunk) {
          Point("runs a chunk");
          body(begin, std::min(total, begin + chunk));
        }
      }) {}

Status ExplorerSparseWorkspace::Allocate(ElementType type, const Shape& shape, Buffer* buffer) {
  use_.Check();
  return explorer::Allocate(static_cast<size_t>(shape.num_elements()) * SizeOf(type), buffer);
}

const ParallelFor& ExplorerWorkspace::parallel_for() const {
  use_.Check();
  return parallel_for_;
}

}  // namespace condacc::explorer
