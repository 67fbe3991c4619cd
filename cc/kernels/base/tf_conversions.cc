#include "cc/kernels/base/tf_conversions.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "cc/memory/held_bytes.h"
#include "tensorflow/core/common_runtime/dma_helper.h"
#include "tensorflow/core/framework/allocation_description.pb.h"

namespace condacc {

using tensorflow::DataType;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;
using tensorflow::TensorBuffer;
using tensorflow::TensorShape;

namespace {

// The memory of a tensor in a mapping of its own.
class MappedTensorBuffer : public TensorBuffer {
 public:
  MappedTensorBuffer(Buffer mapping, size_t num_bytes)
      : TensorBuffer(mapping.data()), mapping_(std::move(mapping)), num_bytes_(num_bytes) {}

  // Returns the buffer of the first reference to `tensor_buffer`.
  static Buffer BufferOf(MappedTensorBuffer* tensor_buffer) {
    TensorBuffer* const owner = tensor_buffer;
    return Buffer(
        owner->data(), owner, [](void* each) { static_cast<TensorBuffer*>(each)->Unref(); },
        [](void* each, size_t num_bytes) {
          static_cast<MappedTensorBuffer*>(static_cast<TensorBuffer*>(each))
              ->mapping_.RefillAfter(num_bytes);
        });
  }

  size_t size() const override { return num_bytes_; }
  TensorBuffer* root_buffer() override { return this; }
  void FillAllocationDescription(tensorflow::AllocationDescription* description) const override {
    description->set_requested_bytes(static_cast<int64_t>(num_bytes_));
    description->set_ptr(reinterpret_cast<uintptr_t>(data()));
  }

 private:
  const Buffer mapping_;
  const size_t num_bytes_;
};

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

size_t RootBytes(TensorBuffer* buffer) {
  // A tensor without elements may have no buffer.
  return buffer == nullptr ? 0 : buffer->root_buffer()->size();
}

void Unref(void* tensor_buffer) {
  if (tensor_buffer == nullptr) return;
  auto* const buffer = static_cast<TensorBuffer*>(tensor_buffer);
  HeldBytes::Global().Remove(RootBytes(buffer));
  buffer->Unref();
}

TensorBuffer* MemoryOf(const Tensor& tensor) {
  return const_cast<TensorBuffer*>(tensorflow::DMAHelper::buffer(&tensor));
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

absl::Status ConvertShape(const Shape& shape, TensorShape* tf_shape) {
  // If TensorFlow is refused the memory for another dimension, its shape is left so that it must
  // not even be destroyed.
  union Unfinished {
    Unfinished() : value() {}
    ~Unfinished() {}
    TensorShape value;
  } made;
  absl::Status status;
  for (int i = 0; i < shape.rank() && status.ok(); ++i) {
    status = made.value.AddDimWithStatus(shape.dim(i));
  }
  *tf_shape = std::move(made.value);
  return status;
}

Shape ShapeOf(const tensorflow::PartialTensorShape& tf_shape) {
  if (tf_shape.unknown_rank()) return Shape::UnknownRank();
  Shape shape;
  for (int i = 0; i < tf_shape.dims(); ++i) shape.AddDim(tf_shape.dim_size(i));
  return shape;
}

Buffer BufferOf(const Tensor& tensor) {
  TensorBuffer* const buffer = MemoryOf(tensor);
  if (buffer != nullptr) buffer->Ref();
  HeldBytes::Global().Add(RootBytes(buffer));
  return Buffer(tensor.data(), buffer, Unref);
}

Buffer TensorBufferOf(Buffer mapping, size_t num_bytes) {
  return MappedTensorBuffer::BufferOf(new MappedTensorBuffer(std::move(mapping), num_bytes));
}

bool OwnsInput(OpKernelContext* ctx, int index) {
  constexpr size_t kSmallBytes = 4096;
  const Tensor& input = ctx->input(index);
  const std::unique_ptr<Tensor> forwarded = ctx->forward_input(
      index, OpKernelContext::Params::kNoReservation, input.dtype(), input.shape(),
      ctx->input_memory_type(index), tensorflow::AllocatorAttributes());
  return forwarded != nullptr && input.IsAligned() &&
         RootBytes(MemoryOf(input)) <= 2 * input.TotalBytes() + kSmallBytes;
}

}  // namespace condacc
