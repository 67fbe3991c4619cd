// An accumulator of the core as a TensorFlow resource.
#ifndef CONDACC_KERNELS_ACCUMULATOR_ACCUMULATOR_RESOURCE_OF_H_
#define CONDACC_KERNELS_ACCUMULATOR_ACCUMULATOR_RESOURCE_OF_H_

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/core/accumulator/accumulator.h"
#include "cc/kernels/accumulator/accumulator_resource.h"
#include "cc/kernels/accumulator/stall_warning.h"
#include "cc/kernels/base/handle_op.h"
#include "cc/kernels/base/settings.h"
#include "cc/kernels/base/tf_conversions.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"

namespace condacc {

// `Traits` defines a kind of accumulator on a kind of device by
// - Core: the accumulator's class in the core;
// - Policy: the policy of the device (see device_policy.h);
// - Workspace: the memory and threads that calls into Core work with, made of an OpKernelContext;
// - kKind: the name of the kind;
// - kWaitsForDevice: whether calls into Core wait for the device;
// - SumOptions(spec): the options of the accumulator's sums;
// - ReadGradient(), ReserveOutputs(), SetOutputs() and SetEmptyOutputs(): the inputs of an apply
// and
//   the outputs of a take.
template <class Traits>
class AccumulatorResourceOf : public AccumulatorResource {
 public:
  using Core = typename Traits::Core;
  using Ptr = tensorflow::core::RefCountPtr<AccumulatorResourceOf>;

  explicit AccumulatorResourceOf(const AccumulatorSpec& spec)
      : AccumulatorResource(spec),
        core_({spec.name, Traits::SumOptions(spec), StallTimeout(), StallLogger(spec.name)}) {}

  Core& core() { return core_; }
  int64_t num_accumulated() const override { return core_.num_accumulated(); }
  int64_t num_dropped() const override { return core_.num_dropped(); }
  int64_t global_step() const override { return core_.global_step(); }
  int64_t SetGlobalStep(int64_t step) override { return core_.SetGlobalStep(step); }

  int64_t Reset(int64_t step, bool only_forward) override {
    return core_.Reset(step, only_forward);
  }

  // Finds the accumulator of this kind and dtype that input 0 is a handle of. See
  // LookupAccumulator().
  static absl::Status Lookup(tensorflow::OpKernelContext* ctx, tensorflow::DataType dtype,
                             Ptr* resource) {
    AccumulatorPtr found;
    TF_RETURN_IF_ERROR(LookupAccumulator(ctx, Traits::kKind, dtype, &found));
    resource->reset(static_cast<AccumulatorResourceOf*>(found.release()));
    return absl::OkStatus();
  }

 private:
  Core core_;
};

// The op that makes such an accumulator.
template <class Traits>
class AccumulatorHandleOp : public HandleOp<AccumulatorResource> {
 public:
  explicit AccumulatorHandleOp(tensorflow::OpKernelConstruction* ctx) : HandleOp(ctx) {
    spec_.kind = Traits::kKind;
    spec_.name = resource_name();
    OP_REQUIRES_OK(ctx, ReadSpec(ctx, &spec_));
  }

 private:
  AccumulatorResource* NewResource() const override {
    return new AccumulatorResourceOf<Traits>(spec_);
  }
  absl::Status CheckPlacement(tensorflow::OpKernelContext* ctx) const override {
    const Status status = Traits::Policy::CheckOpDevice(ctx);
    if (status.ok()) return absl::OkStatus();
    return ToAbsl(
        Status(status.code(), absl::StrCat(status.message(), " (accumulator '", spec_.name, "')")));
  }
  absl::Status CheckSame(const AccumulatorResource& found) const override {
    return found.spec().CheckSame(spec_);
  }
  Contents contents() const override { return {{spec_.dtype, spec_.shape}}; }

  AccumulatorSpec spec_;
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_ACCUMULATOR_ACCUMULATOR_RESOURCE_OF_H_
