#include "cc/kernels/accumulator/device.h"

#include <limits>

#include "cc/core/sparse/host_rows.h"
#include "cc/core/sparse/sparse_sum.h"
#include "cc/kernels/accumulator/cpu_workspace.h"
#include "cc/kernels/base/settings.h"
#include "tensorflow/core/framework/types.h"
#if defined(CONDACC_CUDA)
#include "cc/core/sparse/device_rows.h"
#include "cc/gpu/dense_launch.h"
#include "cc/kernels/accumulator/gpu_workspace.h"
#include "cc/kernels/base/gpu_stream.h"
#endif

namespace condacc {
namespace {

template <class Made>
void MakeWorkspace(tensorflow::OpKernelContext* ctx, OpWorkspace* workspace) {
  workspace->Make<Made>(ctx);
}

constexpr Device kCpu = {MakeWorkspace<CpuWorkspace>,
                         NewSparseSum<HostRows>,
                         CpuThreadStarter,
                         [](tensorflow::OpKernelContext*) { return Status(); },
                         HostHoldBudget,
                         /*adds_small_at_once=*/true,
                         /*max_inputs=*/std::numeric_limits<size_t>::max(),
                         /*merges_wait=*/false};
#if defined(CONDACC_CUDA)
// Adding two gradients in one pass costs less than two passes, however small they are.
constexpr Device kGpu = {MakeWorkspace<GpuWorkspace>,
                         NewSparseSum<DeviceRows>,
                         [](tensorflow::OpKernelConstruction*) { return ThreadStarter(); },
                         CheckGpu,
                         GpuHoldBudget,
                         /*adds_small_at_once=*/false,
                         /*max_inputs=*/kMaxDenseInputs,
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
