// The op that makes an accumulator and hands out its handle.
#ifndef CONDACC_KERNELS_ACCUMULATOR_HANDLE_OP_H_
#define CONDACC_KERNELS_ACCUMULATOR_HANDLE_OP_H_

#include "cc/core/mutex.h"
#include "cc/kernels/accumulator_resource.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_mgr.h"
#include "tensorflow/core/framework/tensor.h"

namespace condacc {

// Three lifetimes, by the attributes:
// - `anonymous`: each execution makes another accumulator, which lives as long as its handle;
// - a shared_name: found or made in the resource manager, and left there;
// - neither: the kernel's own, kept from step to step and removed with the kernel.
class AccumulatorHandleOp : public tensorflow::OpKernel {
 public:
  explicit AccumulatorHandleOp(tensorflow::OpKernelConstruction* ctx);
  ~AccumulatorHandleOp() override;

  void Compute(tensorflow::OpKernelContext* ctx) override;
  bool IsExpensive() override { return false; }

 protected:
  virtual AccumulatorResource* NewResource(const AccumulatorSpec& spec) const = 0;

  AccumulatorSpec spec_;

 private:
  absl::Status MakeHandle(tensorflow::OpKernelContext* ctx) CONDACC_REQUIRES(mu_);
  tensorflow::Tensor AnonymousHandle(tensorflow::OpKernelContext* ctx) const;

  bool anonymous_ = false;
  Mutex mu_;
  bool has_handle_ CONDACC_GUARDED_BY(mu_) = false;
  tensorflow::ContainerInfo container_ CONDACC_GUARDED_BY(mu_);
  tensorflow::Tensor handle_ CONDACC_GUARDED_BY(mu_);
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_ACCUMULATOR_HANDLE_OP_H_
