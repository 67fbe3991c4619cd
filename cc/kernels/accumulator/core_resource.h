// An accumulator of the core as a TensorFlow resource.
#ifndef CONDACC_KERNELS_ACCUMULATOR_CORE_RESOURCE_H_
#define CONDACC_KERNELS_ACCUMULATOR_CORE_RESOURCE_H_

#include <cstdint>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cc/core/accumulator/accumulator.h"
#include "cc/kernels/accumulator/accumulator_handle_op.h"
#include "cc/kernels/accumulator/accumulator_resource.h"
#include "cc/kernels/base/stall_warning.h"
#include "cc/kernels/base/status_conversion.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/types.h"

namespace condacc {

// `Traits` defines a kind of accumulator by `Core`, its state machine; `Workspace`, the memory and
// threads that calls into it work with, constructed from an OpKernelContext; `kKind`, its name; and
// SumOptions(spec). Workspace::CheckDevice(ctx) returns an error if the op's device cannot do the
// work.
template <class Traits>
class AccumulatorResourceOf : public AccumulatorResource {
 public:
  using Core = typename Traits::Core;
  using Workspace = typename Traits::Workspace;
  using Ptr = tensorflow::core::RefCountPtr<AccumulatorResourceOf>;

  explicit AccumulatorResourceOf(const AccumulatorSpec& spec)
      : AccumulatorResource(spec),
        core_({spec.name, Traits::SumOptions(spec), StallTimeout(), StallLogger(spec.name)}) {}

  Core& core() { return core_; }
  int64_t num_accumulated() const override { return core_.num_accumulated(); }
  int64_t num_dropped() const override { return core_.num_dropped(); }
  int64_t global_step() const override { return core_.global_step(); }
  int64_t SetGlobalStep(int64_t step) override { return core_.SetGlobalStep(step); }

  absl::Status Reset(int64_t step, bool only_forward, int64_t* num_discarded) override {
    try {
      *num_discarded = core_.Reset(step, only_forward);
    } catch (const std::bad_alloc&) {
      return OutOfMemory();
    }
    return absl::OkStatus();
  }

  // Finds the accumulator that input 0 is a handle of, and checks that it has the kind and the
  // dtype with which the op works, and the shape that the handle carries.
  static absl::Status Lookup(tensorflow::OpKernelContext* ctx, tensorflow::DataType dtype,
                             Ptr* resource) {
    AccumulatorPtr found;
    TF_RETURN_IF_ERROR(LookupAccumulator(ctx, &found));
    const AccumulatorSpec& spec = found->spec();
    if (spec.kind != Traits::kKind) {
      return absl::InvalidArgumentError(
          absl::StrCat("Expected a ", Traits::kKind, " accumulator, got ", spec.ToString()));
    }
    if (spec.dtype != dtype) {
      return found->Invalid(absl::StrCat("Dtype mismatch: expected ",
                                         tensorflow::DataTypeString(spec.dtype), ", got ",
                                         tensorflow::DataTypeString(dtype)));
    }
    TF_RETURN_IF_ERROR(CheckShape(ctx, *found));
    resource->reset(static_cast<AccumulatorResourceOf*>(found.release()));
    return absl::OkStatus();
  }

 private:
  // Compares the shape that the handle carries. A handle that is not anonymous refers to the
  // accumulator by name. Since the handle was made, the accumulator may have been destroyed and
  // another one made under the name.
  static absl::Status CheckShape(tensorflow::OpKernelContext* ctx,
                                 const AccumulatorResource& found) {
    const auto& handle = ctx->input(0).flat<tensorflow::ResourceHandle>()(0);
    const auto& contents = handle.dtypes_and_shapes();
    if (contents.empty() || contents[0].shape.IsIdenticalTo(found.spec().shape)) {
      return absl::OkStatus();
    }
    return found.Invalid(absl::StrCat("The handle is that of an accumulator which was destroyed: ",
                                      "expected shape ", found.spec().shape.DebugString(),
                                      ", got a handle of shape ", contents[0].shape.DebugString()));
  }

  Core core_;
};

// The op that makes such an accumulator.
template <class Traits>
class AccumulatorHandleOpOf : public AccumulatorHandleOp {
 public:
  explicit AccumulatorHandleOpOf(tensorflow::OpKernelConstruction* ctx) : AccumulatorHandleOp(ctx) {
    spec_.kind = Traits::kKind;
  }

 private:
  AccumulatorResource* NewResource() const override {
    return new AccumulatorResourceOf<Traits>(spec_);
  }
  absl::Status CheckDevice(tensorflow::OpKernelContext* ctx) const override {
    const Status status = Traits::Workspace::CheckDevice(ctx);
    if (status.ok()) return absl::OkStatus();
    return ToAbsl(
        Status(status.code(), absl::StrCat(status.message(), " (accumulator '", spec_.name, "')")));
  }
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_ACCUMULATOR_CORE_RESOURCE_H_
