// Kernels of the ops that sum the gradients of one step's towers.
#define EIGEN_USE_THREADS
#include <cstddef>
#include <cstdint>
#include <limits>

#include "cc/kernels/apply_take_ops.h"
#include "cc/kernels/core_resource.h"
#include "cc/kernels/dense_traits.h"
#include "cc/kernels/sparse_traits.h"
#include "tensorflow/core/framework/op_kernel.h"
#if defined(CONDACC_CUDA)
#include "cc/kernels/gpu_dense_workspace.h"
#include "cc/kernels/gpu_sparse_workspace.h"
#endif

namespace condacc {
namespace {

using tensorflow::DEVICE_CPU;
using tensorflow::OpKernelContext;

// A sum of towers is an accumulator of a kind of its own. Its gradients are added as they come and
// not held back: a step has many such sums at once, and none may grow with the number of towers.
template <class Workspace>
struct DenseTowerTraits : DenseTraitsOn<Workspace> {
  static constexpr char kKind[] = "dense tower";

  static DenseOptions SumOptions(const AccumulatorSpec& spec) {
    DenseOptions options = DenseTraitsOn<Workspace>::SumOptions(spec);
    options.small_bytes = std::numeric_limits<size_t>::max();
    return options;
  }
};

template <class Workspace>
struct SparseTowerTraits : SparseTraitsOn<Workspace> {
  static constexpr char kKind[] = "sparse tower";

  static SparseOptions<TensorBlock> SumOptions(const AccumulatorSpec& spec) {
    SparseOptions<TensorBlock> options = SparseTraitsOn<Workspace>::SumOptions(spec);
    if (!Workspace::kFoldWaits) options.fold_bytes = 0;
    // The mean of the towers, as of dense gradients: not that of those which have the row.
    if (spec.reduction_type == "MEAN") options.reduction = SparseReduction::kGlobalMean;
    return options;
  }
};

// Every execution makes a sum, which lives as long as its handle: at most until its step ends.
template <class Traits>
class TowerSumOp : public CoreHandleOp<Traits> {
 public:
  explicit TowerSumOp(tensorflow::OpKernelConstruction* ctx) : CoreHandleOp<Traits>(ctx) {
    bool anonymous = false;
    OP_REQUIRES_OK(ctx, ctx->GetAttr("anonymous", &anonymous));
    OP_REQUIRES(ctx, anonymous,
                absl::InvalidArgumentError("Expected a sum of towers to be anonymous: it belongs "
                                           "to one step"));
  }
};

// Inputs: handle, and the gradient.
template <class Traits>
class TowerAddOp : public tensorflow::OpKernel {
 public:
  explicit TowerAddOp(tensorflow::OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("dtype", &dtype_));
  }

  void Compute(OpKernelContext* ctx) override {
    constexpr int64_t kNeverStale = std::numeric_limits<int64_t>::max();
    constexpr int kGradient = 1;
    typename CoreResource<Traits>::Ptr sum;
    OP_REQUIRES_OK(ctx, CoreResource<Traits>::Lookup(ctx, dtype_, &sum));
    bool accepted = false;
    OP_REQUIRES_OK(ctx, ApplyGradient(ctx, *sum, kNeverStale, kGradient, &accepted));
  }

 private:
  tensorflow::DataType dtype_;
};

template <class Traits>
struct TowerOps {
  using Sum = TowerSumOp<Traits>;
  using Add = TowerAddOp<Traits>;
  using Take = TakeOp<Traits, IfTooFew::kFail>;
};

using DenseOps = TowerOps<DenseTowerTraits<CpuDenseWorkspace>>;
using SparseOps = TowerOps<SparseTowerTraits<CpuSparseWorkspace>>;
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerDenseSum").Device(DEVICE_CPU), DenseOps::Sum);
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerDenseAdd").Device(DEVICE_CPU), DenseOps::Add);
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerDenseTake").Device(DEVICE_CPU), DenseOps::Take);
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerSparseSum").Device(DEVICE_CPU), SparseOps::Sum);
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerSparseAdd").Device(DEVICE_CPU), SparseOps::Add);
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerSparseTake").Device(DEVICE_CPU), SparseOps::Take);

#if defined(CONDACC_CUDA)

using tensorflow::DEVICE_GPU;

// All but the gradients themselves is in host memory.
using GpuDenseOps = TowerOps<DenseTowerTraits<GpuDenseWorkspace>>;
using GpuSparseOps = TowerOps<SparseTowerTraits<GpuSparseWorkspace>>;
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerDenseSum").Device(DEVICE_GPU).HostMemory("handle"),
                        GpuDenseOps::Sum);
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerDenseAdd").Device(DEVICE_GPU).HostMemory("handle"),
                        GpuDenseOps::Add);
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerDenseTake")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("num_required"),
                        GpuDenseOps::Take);
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerSparseSum").Device(DEVICE_GPU).HostMemory("handle"),
                        GpuSparseOps::Sum);
REGISTER_KERNEL_BUILDER(
    Name("Condacc>TowerSparseAdd").Device(DEVICE_GPU).HostMemory("handle").HostMemory("shape"),
    GpuSparseOps::Add);
REGISTER_KERNEL_BUILDER(Name("Condacc>TowerSparseTake")
                            .Device(DEVICE_GPU)
                            .HostMemory("handle")
                            .HostMemory("num_required")
                            .HostMemory("shape"),
                        GpuSparseOps::Take);

#endif

}  // namespace
}  // namespace condacc
