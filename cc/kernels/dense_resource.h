// The dense accumulator as a TensorFlow resource.
#ifndef CONDACC_KERNELS_DENSE_RESOURCE_H_
#define CONDACC_KERNELS_DENSE_RESOURCE_H_

#include <cstdint>
#include <utility>

#include "cc/core/accumulator.h"
#include "cc/core/dense_sum.h"
#include "cc/core/element_type.h"
#include "cc/core/shape.h"
#include "cc/kernels/accumulator_resource.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/tensor_shape.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/lib/core/threadpool.h"

namespace condacc {

// A tensor as the core sees it. One of no elements has no memory, but is a block all the same.
class TensorBlock {
 public:
  TensorBlock() = default;
  explicit TensorBlock(tensorflow::Tensor tensor) : tensor_(std::move(tensor)), is_set_(true) {}
  TensorBlock(TensorBlock&& other) noexcept
      : tensor_(std::move(other.tensor_)), is_set_(std::exchange(other.is_set_, false)) {}
  TensorBlock& operator=(TensorBlock&& other) noexcept {
    tensor_ = std::move(other.tensor_);
    is_set_ = std::exchange(other.is_set_, false);
    return *this;
  }

  void* data() const { return tensor_.data(); }
  explicit operator bool() const { return is_set_; }
  const tensorflow::Tensor& tensor() const { return tensor_; }

 private:
  tensorflow::Tensor tensor_;
  bool is_set_ = false;
};

// Works with the memory and the threads of the op that `ctx` belongs to. Only Allocate() needs the
// op to be running.
class CpuDenseWorkspace : public DenseWorkspace<TensorBlock> {
 public:
  explicit CpuDenseWorkspace(tensorflow::OpKernelContext* ctx);

  Status Allocate(ElementType type, const Shape& shape, TensorBlock* block) override;
  void Sum(const DenseSumArgs& args) override;

 private:
  ParallelFor Threads() const;

  tensorflow::OpKernelContext* const ctx_;
  tensorflow::thread::ThreadPool* const pool_;
};

class DenseResource : public AccumulatorResource {
 public:
  using Core = Accumulator<DenseSum<TensorBlock>>;
  static constexpr char kKind[] = "dense";

  explicit DenseResource(const AccumulatorSpec& spec);

  Core& core() { return core_; }
  int64_t num_accumulated() const override { return core_.num_accumulated(); }
  int64_t num_dropped() const override { return core_.num_dropped(); }
  int64_t global_step() const override { return core_.global_step(); }
  int64_t SetGlobalStep(int64_t step) override { return core_.SetGlobalStep(step); }

 private:
  Core core_;
};

Shape ShapeOf(const tensorflow::TensorShape& shape);
Shape ShapeOf(const tensorflow::PartialTensorShape& shape);

}  // namespace condacc

#endif  // CONDACC_KERNELS_DENSE_RESOURCE_H_
