// The op that makes an accumulator and outputs its handle.
#ifndef CONDACC_KERNELS_ACCUMULATOR_ACCUMULATOR_HANDLE_OP_H_
#define CONDACC_KERNELS_ACCUMULATOR_ACCUMULATOR_HANDLE_OP_H_

#include "cc/kernels/accumulator/accumulator_resource.h"
#include "cc/kernels/base/handle_op.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace condacc {

class AccumulatorHandleOp : public HandleOp<AccumulatorResource> {
 public:
  explicit AccumulatorHandleOp(tensorflow::OpKernelConstruction* ctx);

 protected:
  AccumulatorSpec spec_;

 private:
  absl::Status CheckSame(const AccumulatorResource& found) const override {
    return found.spec().CheckSame(spec_);
  }
  Contents contents() const override { return {{spec_.dtype, spec_.shape}}; }
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_ACCUMULATOR_ACCUMULATOR_HANDLE_OP_H_
