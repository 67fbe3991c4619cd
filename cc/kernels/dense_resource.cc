#define EIGEN_USE_THREADS
#include "cc/kernels/dense_resource.h"

#include <chrono>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>

#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/lib/core/threadpool.h"
#include "tensorflow/core/platform/logging.h"

namespace condacc {
namespace {

using tensorflow::DataType;
using tensorflow::OpKernelContext;
using tensorflow::TensorShape;

ElementType ElementTypeOf(DataType dtype) {
  switch (dtype) {
    case tensorflow::DT_HALF:
      return ElementType::kFloat16;
    case tensorflow::DT_BFLOAT16:
      return ElementType::kBFloat16;
    case tensorflow::DT_DOUBLE:
      return ElementType::kFloat64;
    case tensorflow::DT_COMPLEX64:
      return ElementType::kComplex64;
    case tensorflow::DT_COMPLEX128:
      return ElementType::kComplex128;
    case tensorflow::DT_INT32:
      return ElementType::kInt32;
    case tensorflow::DT_INT64:
      return ElementType::kInt64;
    default:  // the op's definition admits no others
      return ElementType::kFloat32;
  }
}

DataType DataTypeOf(ElementType type) {
  switch (type) {
    case ElementType::kFloat16:
      return tensorflow::DT_HALF;
    case ElementType::kBFloat16:
      return tensorflow::DT_BFLOAT16;
    case ElementType::kFloat32:
      return tensorflow::DT_FLOAT;
    case ElementType::kFloat64:
      return tensorflow::DT_DOUBLE;
    case ElementType::kComplex64:
      return tensorflow::DT_COMPLEX64;
    case ElementType::kComplex128:
      return tensorflow::DT_COMPLEX128;
    case ElementType::kInt32:
      return tensorflow::DT_INT32;
    case ElementType::kInt64:
      return tensorflow::DT_INT64;
  }
  return tensorflow::DT_INVALID;
}

std::chrono::milliseconds StallTimeout() {
  constexpr double kDefaultSeconds = 60;
  const char* text = std::getenv("TF_CONDACC_STALL_WARNING_SECS");
  char* end = nullptr;
  double seconds = text == nullptr ? kDefaultSeconds : std::strtod(text, &end);
  if (text != nullptr && (end == text || !(seconds < 1e9))) seconds = kDefaultSeconds;
  return std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3));
}

DenseResource::Core::Options CoreOptions(const AccumulatorSpec& spec) {
  DenseResource::Core::Options options;
  options.name = spec.name;
  options.sum.type = ElementTypeOf(spec.dtype);
  options.sum.shape = ShapeOf(spec.shape);
  options.sum.mean = spec.reduction_type == "MEAN";
  options.stall_timeout = StallTimeout();
  options.on_stall = [name = spec.name](const StallReport& report) {
    LOG(WARNING) << "A take of accumulator '" << name << "' waits for long: it has "
                 << report.num_accumulated << " of " << report.num_required
                 << " gradients at global step " << report.global_step << ", and "
                 << report.num_dropped << " stale gradients were dropped so far.";
  };
  return options;
}

template <typename TfShape>
Shape ConvertShape(const TfShape& tf_shape) {
  Shape shape;
  for (int i = 0; i < tf_shape.dims(); ++i) shape.AddDim(tf_shape.dim_size(i));
  return shape;
}

}  // namespace

Shape ShapeOf(const TensorShape& shape) { return ConvertShape(shape); }

Shape ShapeOf(const tensorflow::PartialTensorShape& shape) {
  return shape.unknown_rank() ? Shape::UnknownRank() : ConvertShape(shape);
}

DenseResource::DenseResource(const AccumulatorSpec& spec)
    : AccumulatorResource(spec), core_(CoreOptions(spec)) {}

Status CpuDenseWorkspace::Allocate(ElementType type, const Shape& shape, TensorBlock* block) {
  TensorShape tf_shape;
  for (int i = 0; i < shape.rank(); ++i) tf_shape.AddDim(shape.dim(i));
  tensorflow::Tensor tensor;
  const absl::Status status = ctx_->allocate_temp(DataTypeOf(type), tf_shape, &tensor);
  if (!status.ok()) {
    return Status(StatusCode::kResourceExhausted, std::string(status.message()));
  }
  *block = TensorBlock(std::move(tensor));
  return Status();
}

void CpuDenseWorkspace::Sum(const DenseSumArgs& args) { SumDense(args, Threads()); }

CpuDenseWorkspace::CpuDenseWorkspace(OpKernelContext* ctx)
    : ctx_(ctx), pool_(ctx->device()->tensorflow_cpu_worker_threads()->workers) {}

ParallelFor CpuDenseWorkspace::Threads() const {
  return
      [pool = pool_](size_t total, size_t block, const std::function<void(size_t, size_t)>& body) {
        const auto params =
            tensorflow::thread::ThreadPool::SchedulingParams::Fixed(static_cast<int64_t>(block));
        pool->ParallelFor(static_cast<int64_t>(total), params, [&body](int64_t begin, int64_t end) {
          body(static_cast<size_t>(begin), static_cast<size_t>(end));
        });
      };
}

}  // namespace condacc
