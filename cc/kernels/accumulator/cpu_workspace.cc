#include "cc/kernels/accumulator/cpu_workspace.h"

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "cc/kernels/base/settings.h"
#include "cc/kernels/base/tf_conversions.h"
#include "cc/memory/heap_trim.h"
#include "cc/memory/mapped_buffer.h"
#include "cc/memory/page_pool.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/tensor.h"

namespace condacc {

using tensorflow::Allocator;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::thread::ThreadPool;

namespace {

Allocator* AllocatorOf(tensorflow::DeviceBase* device) {
  return device->GetAllocator(tensorflow::AllocatorAttributes());
}

// Returns the threads of the device itself. A run may have threads of its own
// (RunOptions.Experimental.use_run_handler_pool), which a device that stands in for the real one
// gives its ops. Nothing may be left in their queue when the run ends, but a ThreadTeam does not
// wait for helpers that have not begun.
ThreadPool* PoolOf(tensorflow::DeviceBase* device) {
  return device->UnderlyingDevice()->tensorflow_cpu_worker_threads()->workers;
}

size_t BytesOf(ElementType type, const TensorShape& shape) {
  return static_cast<size_t>(shape.num_elements()) * SizeOf(type);
}

Status Refused(ElementType type, const Shape& shape) {
  return Status(StatusCode::kResourceExhausted,
                "Out of memory: expected to allocate a tensor of shape " + shape.ToString() +
                    " and dtype " + tensorflow::DataTypeString(DataTypeOf(type)));
}

}  // namespace

CpuWorkspace::CpuWorkspace(tensorflow::OpKernelContext* ctx)
    : CpuWorkspace(AllocatorOf(ctx->device()), PoolOf(ctx->device())) {}

CpuWorkspace::CpuWorkspace(Allocator* allocator, ThreadPool* pool)
    : allocator_(allocator), parallel_for_([this, pool](size_t total, size_t chunk, LoopBody body) {
        if (!team_.has_value()) {
          team_.emplace(
              static_cast<size_t>(pool->NumThreads() - 1),
              [pool](std::function<void()> function) { pool->Schedule(std::move(function)); });
        }
        team_->For(total, chunk, body);
      }) {}

CpuWorkspace::~CpuWorkspace() {
  // Where memory is short, gradients need it more than the next sums and results do.
  if (HostHoldBudget().IsExceeded()) PagePool::Global().TrimTo(0);
  // This is done here and not in NoteFreed(), because starting the thread that trims takes time,
  // and takes may be waiting for the fold.
  if (freed_bytes_ > 0) NoteFreedHeap(freed_bytes_);
}

Status CpuWorkspace::Allocate(ElementType type, const Shape& shape, Buffer* buffer) {
  // glibc reuses freed memory up to this size, whose pages need not be made again.
  constexpr size_t kMaxUnmapped = size_t{32} << 20;
  TensorShape tf_shape;
  if (!ConvertShape(shape, &tf_shape).ok()) return Refused(type, shape);
  const size_t num_bytes = BytesOf(type, tf_shape);
  if (num_bytes <= kMaxUnmapped) {
    *buffer = NewTensor(type, tf_shape);
  } else if (Buffer mapping = MapBuffer(num_bytes)) {
    *buffer = TensorBufferOf(std::move(mapping), num_bytes);
  }
  return *buffer ? Status() : Refused(type, shape);
}

Buffer CpuWorkspace::AllocateInner(size_t num_bytes) {
  constexpr size_t kMinMapped = size_t{4} << 20;  // The last huge page is used in part.
  if (num_bytes >= kMinMapped) return MapBuffer(num_bytes);
  const auto num_words = static_cast<int64_t>((num_bytes + sizeof(int64_t) - 1) / sizeof(int64_t));
  return NewTensor(ElementType::kInt64, TensorShape({num_words}));
}

Buffer CpuWorkspace::NewTensor(ElementType type, const TensorShape& shape) const {
  Tensor tensor(allocator_, DataTypeOf(type), shape);
  if (!tensor.IsInitialized()) {
    PagePool::Global().TrimTo(0);
    tensor = Tensor(allocator_, DataTypeOf(type), shape);
  }
  return tensor.IsInitialized() ? BufferOf(tensor) : Buffer();
}

ThreadStarter CpuThreadStarter(tensorflow::OpKernelConstruction* ctx) {
  // TensorFlow's devices share one pool of threads, which never ends, unless this is set.
  static const bool may_end = std::getenv("TF_OVERRIDE_GLOBAL_THREADPOOL") != nullptr;
  if (may_end) return nullptr;
  Allocator* const allocator = AllocatorOf(ctx->device());
  ThreadPool* const pool = PoolOf(ctx->device());
  return [allocator, pool](const WorkspaceUser& work) {
    try {
      std::thread([allocator, pool, work] {
        CpuWorkspace workspace(allocator, pool);
        work(workspace);
      }).detach();
    } catch (const std::system_error&) {
      return false;  // No thread can be started now.
    }
    return true;
  };
}

}  // namespace condacc
