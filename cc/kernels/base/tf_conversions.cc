#include "cc/kernels/base/tf_conversions.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cc/memory/mapped_buffer.h"
#include "tensorflow/core/common_runtime/dma_helper.h"
#include "tensorflow/core/framework/allocation_description.pb.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/lib/core/threadpool.h"

namespace condacc {

using tensorflow::DataType;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorBuffer;
using tensorflow::TensorShape;

namespace {

struct TypePair {
  DataType dtype;
  ElementType type;
};

constexpr TypePair kTypes[] = {
    {tensorflow::DT_HALF, ElementType::kFloat16},
    {tensorflow::DT_BFLOAT16, ElementType::kBFloat16},
    {tensorflow::DT_FLOAT, ElementType::kFloat32},
    {tensorflow::DT_DOUBLE, ElementType::kFloat64},
    {tensorflow::DT_COMPLEX64, ElementType::kComplex64},
    {tensorflow::DT_COMPLEX128, ElementType::kComplex128},
    {tensorflow::DT_INT32, ElementType::kInt32},
    {tensorflow::DT_INT64, ElementType::kInt64},
};

template <typename TfShape>
Shape ConvertShape(const TfShape& tf_shape) {
  Shape shape;
  for (int i = 0; i < tf_shape.dims(); ++i) shape.AddDim(tf_shape.dim_size(i));
  return shape;
}

absl::Status ConvertShape(const Shape& shape, TensorShape* tf_shape) {
  absl::Status status;
  for (int i = 0; i < shape.rank() && status.ok(); ++i) {
    status = tf_shape->AddDimWithStatus(shape.dim(i));
  }
  return status;
}

// Returns the size of a tensor in bytes, or 0 if its shape is too large for a tensor.
size_t BytesOf(ElementType type, const Shape& shape) {
  TensorShape tf_shape;
  if (!ConvertShape(shape, &tf_shape).ok()) return 0;
  return static_cast<size_t>(tf_shape.num_elements()) * SizeOf(type);
}

void Unref(void* tensor_buffer) {
  if (tensor_buffer != nullptr) static_cast<TensorBuffer*>(tensor_buffer)->Unref();
}

// The memory of a tensor in a mapping of its own.
class MappedTensorBuffer : public TensorBuffer {
 public:
  MappedTensorBuffer(Buffer mapping, size_t num_bytes)
      : TensorBuffer(mapping.data()), mapping_(std::move(mapping)), num_bytes_(num_bytes) {}

  size_t size() const override { return num_bytes_; }
  TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(tensorflow::AllocationDescription* description) const override {
    description->set_requested_bytes(static_cast<int64_t>(num_bytes_));
    description->set_ptr(reinterpret_cast<uintptr_t>(data()));
  }

  static void Discard(void* owner, size_t num_bytes) { MappingOf(owner).DiscardFirst(num_bytes); }
  static void Refill(void* owner, size_t num_bytes) { MappingOf(owner).RefillAfter(num_bytes); }
  static constexpr Buffer::Parts kParts = {Discard, Refill};

 private:
  static const Buffer& MappingOf(void* owner) {
    // The owner of a tensor's memory is passed as a TensorBuffer.
    return static_cast<MappedTensorBuffer*>(static_cast<TensorBuffer*>(owner))->mapping_;
  }

  const Buffer mapping_;
  const size_t num_bytes_;
};

size_t RootBytes(const Tensor& tensor) {
  const TensorBuffer* buffer = tensorflow::DMAHelper::buffer(&tensor);
  return buffer == nullptr ? 0 : const_cast<TensorBuffer*>(buffer)->root_buffer()->size();
}

}  // namespace

ElementType ElementTypeOf(DataType dtype) {
  for (const TypePair& pair : kTypes) {
    if (pair.dtype == dtype) return pair.type;
  }
  return ElementType::kFloat32;  // Not reached: the ops admit no other dtypes.
}

DataType DataTypeOf(ElementType type) {
  for (const TypePair& pair : kTypes) {
    if (pair.type == type) return pair.dtype;
  }
  return tensorflow::DT_INVALID;
}

Shape ShapeOf(const TensorShape& shape) { return ConvertShape(shape); }

Shape ShapeOf(const tensorflow::PartialTensorShape& shape) {
  return shape.unknown_rank() ? Shape::UnknownRank() : ConvertShape(shape);
}

Buffer BufferOf(const Tensor& tensor) {
  // A tensor without elements may have no buffer.
  auto* const buffer = const_cast<TensorBuffer*>(tensorflow::DMAHelper::buffer(&tensor));
  if (buffer != nullptr) buffer->Ref();
  return Buffer(tensor.data(), buffer, Unref);
}

Tensor TensorOf(const Buffer& buffer, ElementType type, const Shape& shape) {
  TensorShape tf_shape;
  // Cannot fail: memory of that shape has been allocated.
  ConvertShape(shape, &tf_shape).IgnoreError();
  return Tensor(DataTypeOf(type), tf_shape, static_cast<TensorBuffer*>(buffer.owner()));
}

bool OwnsInput(OpKernelContext* ctx, int index) {
  constexpr size_t kSmallBytes = 4096;
  const Tensor& input = ctx->input(index);
  const std::unique_ptr<Tensor> forwarded = ctx->forward_input(
      index, OpKernelContext::Params::kNoReservation, input.dtype(), input.shape(),
      ctx->input_memory_type(index), tensorflow::AllocatorAttributes());
  return forwarded != nullptr && input.IsAligned() &&
         RootBytes(input) <= 2 * input.TotalBytes() + kSmallBytes;
}

Status AllocateBuffer(OpKernelContext* ctx, ElementType type, const Shape& shape, Buffer* buffer) {
  TensorShape tf_shape;
  absl::Status status = ConvertShape(shape, &tf_shape);
  Tensor tensor;
  if (status.ok()) status = ctx->allocate_temp(DataTypeOf(type), tf_shape, &tensor);
  if (!status.ok()) {
    return Status(StatusCode::kResourceExhausted, std::string(status.message()));
  }
  *buffer = BufferOf(tensor);
  return Status();
}

Status AllocateHostBuffer(OpKernelContext* ctx, ElementType type, const Shape& shape,
                          Buffer* buffer) {
  // glibc reuses freed memory up to this size, whose pages need not be made again.
  constexpr size_t kMinMappedBytes = size_t{32} << 20;
  const size_t num_bytes = BytesOf(type, shape);
  if (num_bytes <= kMinMappedBytes) return AllocateBuffer(ctx, type, shape, buffer);
  Buffer mapping = MapBuffer(num_bytes);
  if (!mapping) return Status(StatusCode::kResourceExhausted, "Out of memory");
  auto* const tensor_buffer = new MappedTensorBuffer(std::move(mapping), num_bytes);
  *buffer = Buffer(tensor_buffer->data(), static_cast<TensorBuffer*>(tensor_buffer), Unref,
                   &MappedTensorBuffer::kParts);
  return Status();
}

Status AllocateInnerBuffer(OpKernelContext* ctx, ElementType type, const Shape& shape,
                           Buffer* buffer) {
  constexpr size_t kMinMappedBytes = size_t{8} << 20;
  const size_t num_bytes = BytesOf(type, shape);
  if (num_bytes < kMinMappedBytes) return AllocateBuffer(ctx, type, shape, buffer);
  *buffer = MapBuffer(num_bytes);
  return *buffer ? Status() : Status(StatusCode::kResourceExhausted, "Out of memory");
}

ParallelFor DeviceThreads(OpKernelContext* ctx) {
  tensorflow::thread::ThreadPool* const pool =
      ctx->device()->tensorflow_cpu_worker_threads()->workers;
  return [pool](size_t total, size_t chunk, const std::function<void(size_t, size_t)>& body) {
    // TensorFlow before 2.21 does not have SchedulingParams::Fixed(), and 2.21 calls this
    // constructor deprecated.
    using tensorflow::thread::ThreadPool;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    const ThreadPool::SchedulingParams params(ThreadPool::SchedulingStrategy::kFixedBlockSize,
                                              /*cost_per_unit=*/std::nullopt,
                                              static_cast<int64_t>(chunk));
#pragma GCC diagnostic pop
    pool->ParallelFor(static_cast<int64_t>(total), params, [&body](int64_t begin, int64_t end) {
      body(static_cast<size_t>(begin), static_cast<size_t>(end));
    });
  };
}

}  // namespace condacc
