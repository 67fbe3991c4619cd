#include "cc/kernels/accumulator/device.h"

#include "cc/core/sparse/host_rows.h"
#include "cc/core/sparse/sparse_sum.h"
#include "cc/kernels/base/settings.h"
#include "tensorflow/core/framework/types.h"
#if defined(CONDACC_CUDA)
#include "cc/core/sparse/device_rows.h"
#include "cc/gpu/dense_launch.h"
#include "cc/kernels/base/gpu_stream.h"
#endif

namespace condacc {
namespace {

template <class Made>
Workspace& MakeWorkspace(tensorflow::OpKernelContext* ctx, OpWorkspace* memory) {
  return memory->emplace<Made>(ctx);
}

constexpr Device kCpu = {MakeWorkspace<CpuWorkspace>,
                         NewSparseSum<HostRows>,
                         CpuThreadStarter,
                         [](tensorflow::OpKernelContext*) { return Status(); },
                         HostHoldBudget,
                         [] { return SumOptions(); },
                         /*merges_wait=*/false};
#if defined(CONDACC_CUDA)
constexpr Device kGpu = {MakeWorkspace<GpuWorkspace>,
                         NewSparseSum<DeviceRows>,
                         [](tensorflow::OpKernelConstruction*) { return ThreadStarter(); },
                         CheckGpu,
                         GpuHoldBudget,
                         [] { return SumOptions::OfQueue(kMaxDenseInputs); },
                         /*merges_wait=*/true};
#endif

}  // namespace

const Device& DeviceOf([[maybe_unused]] const tensorflow::OpKernelConstruction* ctx) {
#if defined(CONDACC_CUDA)
  if (ctx->device_type() == tensorflow::DEVICE_GPU) return kGpu;
#endif
  return kCpu;
}

}  // namespace condacc
