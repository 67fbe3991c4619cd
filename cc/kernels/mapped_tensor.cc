#include "cc/kernels/mapped_tensor.h"

#include <malloc.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <thread>
#include <utility>

#include "cc/core/base/trim_schedule.h"
#include "tensorflow/core/framework/allocation_description.pb.h"
#include "tensorflow/core/platform/refcount.h"

namespace condacc {
namespace {

using tensorflow::TensorBuffer;

constexpr size_t kHugePage = size_t{2} << 20;

// Owns a mapping, in which the data begins where a huge page does.
class MappedBuffer : public TensorBuffer {
 public:
  // Null if there is no memory.
  static TensorBuffer* New(size_t num_bytes) {
    const size_t mapped_bytes = num_bytes + kHugePage;
    void* const mapping =
        mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) return nullptr;
    TensorBuffer* const buffer = new (std::nothrow) MappedBuffer(mapping, mapped_bytes, num_bytes);
    if (buffer == nullptr) munmap(mapping, mapped_bytes);
    return buffer;
  }

  size_t size() const override { return size_; }
  TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(tensorflow::AllocationDescription* description) const override {
    description->set_requested_bytes(static_cast<int64_t>(size_));
    description->set_allocator_name("condacc_mapped");
  }

 private:
  MappedBuffer(void* mapping, size_t mapped_bytes, size_t size)
      : TensorBuffer(FirstHugePage(mapping)),
        mapping_(mapping),
        mapped_bytes_(mapped_bytes),
        size_(size) {
    // Faults are a tenth of the price in huge pages. The rest at the end is left to small ones.
    madvise(data(), size / kHugePage * kHugePage, MADV_HUGEPAGE);
  }
  ~MappedBuffer() override { munmap(mapping_, mapped_bytes_); }

  static void* FirstHugePage(void* mapping) {
    const uintptr_t begin = reinterpret_cast<uintptr_t>(mapping);
    return reinterpret_cast<void*>((begin + kHugePage - 1) / kHugePage * kHugePage);
  }

  void* const mapping_;
  const size_t mapped_bytes_;
  const size_t size_;
};

}  // namespace

bool MapTensor(tensorflow::DataType dtype, const tensorflow::TensorShape& shape,
               tensorflow::Tensor* tensor) {
  const size_t num_bytes = static_cast<size_t>(shape.num_elements()) *
                           static_cast<size_t>(tensorflow::DataTypeSize(dtype));
  tensorflow::core::RefCountPtr<TensorBuffer> buffer(MappedBuffer::New(num_bytes));
  if (buffer == nullptr) return false;
  *tensor = tensorflow::Tensor(dtype, shape, std::move(buffer));
  return true;
}

void DiscardMapped(const tensorflow::Tensor& tensor, size_t num_bytes) {
  const size_t num_discarded = num_bytes / kHugePage * kHugePage;
  if (num_discarded > 0) madvise(tensor.data(), num_discarded, MADV_DONTNEED);
}

void NoteFreedHeap(size_t num_bytes) {
#ifdef __GLIBC__
  static TrimSchedule schedule;
  if (!schedule.IsDueAfter(num_bytes, TrimSchedule::Clock::now())) return;
  try {
    std::thread([] { malloc_trim(0); }).detach();
  } catch (const std::exception&) {
    // No thread can be started now. The memory stays in the heap until trimming is due again.
  }
#endif
}

}  // namespace condacc
