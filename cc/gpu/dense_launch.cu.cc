#include "cc/gpu/dense_launch.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "cc/core/base/element_type.h"
#include "cc/gpu/dense_pass.h"
#include "cc/gpu/kernel_launch.h"

namespace condacc {
namespace {

constexpr char kWhat[] = "a dense sum";

template <typename T, typename First, typename Out>
Status QueueTyped(const DenseAddArgs& args, int64_t size, cudaStream_t stream) {
  const SumItems<DensePass<T, First, Out>> sum(args, size);
  return QueueForEach(sum.num_items(), sum, stream, kWhat);
}

template <typename T>
Status QueueNarrow(const DenseAddArgs& args, int64_t size, cudaStream_t stream) {
  if (args.first_is_float32) {
    return args.out_is_float32 ? QueueTyped<T, float, float>(args, size, stream)
                               : QueueTyped<T, float, T>(args, size, stream);
  }
  return args.out_is_float32 ? QueueTyped<T, T, float>(args, size, stream)
                             : QueueTyped<T, T, T>(args, size, stream);
}

// Complex numbers are added, and divided by a real number, as pairs of real numbers.
Status Queue(const DenseAddArgs& args, cudaStream_t stream) {
  const auto size = static_cast<int64_t>(args.num_elements * NumParts(args.type));
  switch (args.type) {
    case ElementType::kFloat16:
      return QueueNarrow<__half>(args, size, stream);
    case ElementType::kBFloat16:
      return QueueNarrow<__nv_bfloat16>(args, size, stream);
    case ElementType::kFloat32:
    case ElementType::kComplex64:
      return QueueTyped<float, float, float>(args, size, stream);
    case ElementType::kFloat64:
    case ElementType::kComplex128:
      return QueueTyped<double, double, double>(args, size, stream);
    case ElementType::kInt32:
      return QueueTyped<uint32_t, uint32_t, uint32_t>(args, size, stream);
    case ElementType::kInt64:
      return QueueTyped<uint64_t, uint64_t, uint64_t>(args, size, stream);
  }
  return CudaStatus(cudaErrorInvalidValue, kWhat);
}

bool IsValid(const DenseAddArgs& args) {
  return args.divisor > 0 && args.first != nullptr && args.out != nullptr &&
         std::all_of(args.inputs, args.inputs + args.num_inputs,
                     [](const void* input) { return input != nullptr; });
}

}  // namespace

Status QueueDenseAdd(const DenseAddArgs& args, cudaStream_t stream) {
  if (args.num_elements == 0) return Status();
  if (args.num_inputs > kMaxDenseInputs) {
    return Status(StatusCode::kResourceExhausted,
                  "Expected at most " + std::to_string(kMaxDenseInputs) +
                      " gradients to be added at once, got " + std::to_string(args.num_inputs));
  }
  if (!IsValid(args)) return CudaStatus(cudaErrorInvalidValue, kWhat);
  return Queue(args, stream);
}

}  // namespace condacc
