// Kernels of the staleness gate.
#define EIGEN_USE_THREADS
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/core/staleness_gate.h"
#include "cc/kernels/handle_op.h"
#include "cc/kernels/inputs.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/resource_base.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/framework/resource_var.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/lib/core/refcount.h"
#include "tensorflow/core/platform/mutex.h"

namespace condacc {
namespace {

using tensorflow::DataType;
using tensorflow::DEVICE_CPU;
using tensorflow::OpKernel;
using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::ResourceHandle;
using tensorflow::Tensor;
using tensorflow::TensorShape;
using tensorflow::core::RefCountPtr;

class GateResource : public tensorflow::ResourceBase {
 public:
  explicit GateResource(std::string name) : name_(std::move(name)) {}

  StalenessGate& gate() { return gate_; }
  std::string DebugString() const override {
    return absl::StrCat("staleness gate '", name_, "' with ", gate_.num_open(),
                        " updates under way");
  }
  // "... (staleness gate 'NAME')" with the same code.
  absl::Status Named(const absl::Status& status) const {
    if (status.ok()) return status;
    return absl::Status(status.code(),
                        absl::StrCat(status.message(), " (staleness gate '", name_, "')"));
  }

 private:
  const std::string name_;
  StalenessGate gate_;
};

// The leave to apply one update. It ends with its handle, and so at the latest with the step that
// was given it, however that ends: not having been applied, unless that was told before.
class ReservationResource : public tensorflow::ResourceBase {
 public:
  ReservationResource(GateResource* gate, std::string counter)
      : gate_(tsl::core::GetNewRef(gate)), counter_(std::move(counter)) {}
  ~ReservationResource() override { End(/*applied=*/false); }

  // The update was accepted.
  void Open() { is_open_ = true; }
  // Does nothing for an update that was dropped, or the second time.
  void End(bool applied) {
    if (is_open_.exchange(false)) gate_->gate().End(counter_, applied);
  }
  std::string DebugString() const override { return "reservation of a step"; }

 private:
  const RefCountPtr<GateResource> gate_;
  const std::string counter_;
  std::atomic<bool> is_open_{false};
};

class GateOp : public HandleOp<GateResource> {
 public:
  using HandleOp::HandleOp;

 private:
  GateResource* NewResource() const override { return new GateResource(resource_name()); }
};

// An op whose first input is a gate, and that has a counter of it.
class GateUserOp : public OpKernel {
 public:
  explicit GateUserOp(OpKernelConstruction* ctx) : OpKernel(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("counter", &counter_));
  }

  void Compute(OpKernelContext* ctx) final {
    RefCountPtr<GateResource> resource;
    OP_REQUIRES_OK(ctx, LookupInput(ctx, 0, "gate", "a staleness gate", &resource));
    try {
      OP_REQUIRES_OK(ctx, resource->Named(Run(ctx, resource.get())));
    } catch (const std::bad_alloc&) {
      ctx->SetStatus(resource->Named(absl::ResourceExhaustedError("Out of memory")));
    }
  }
  bool IsExpensive() final { return false; }

 protected:
  const std::string& counter() const { return counter_; }

 private:
  virtual absl::Status Run(OpKernelContext* ctx, GateResource* resource) = 0;

  std::string counter_;
};

absl::Status ReadStep(const Tensor& tensor, DataType dtype, int64_t* step) {
  if (tensor.dtype() != dtype || tensor.dims() != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "The step variable must be a scalar of dtype ", tensorflow::DataTypeString(dtype),
        ", but had dtype ", tensorflow::DataTypeString(tensor.dtype()), " and shape ",
        tensor.shape().DebugString()));
  }
  *step = dtype == tensorflow::DT_INT32 ? tensor.scalar<int32_t>()() : tensor.scalar<int64_t>()();
  return absl::OkStatus();
}

// How the step variable is read, by the kind of the variable.
class ResourceStep {
 public:
  absl::Status Find(OpKernelContext* ctx, int index) {
    return LookupInput(ctx, index, "step", "a variable", &variable_);
  }
  absl::Status Read(DataType dtype, int64_t* step) {
    const tensorflow::tf_shared_lock lock(*variable_->mu());
    if (!variable_->is_initialized) {
      return absl::FailedPreconditionError("The step variable is not initialized");
    }
    return ReadStep(*variable_->tensor(), dtype, step);
  }

 private:
  RefCountPtr<tensorflow::Var> variable_;
};

class RefStep {
 public:
  absl::Status Find(OpKernelContext* ctx, int index) {
    ctx_ = ctx;
    index_ = index;
    return absl::OkStatus();
  }
  absl::Status Read(DataType dtype, int64_t* step) {
    const tensorflow::mutex_lock lock(*ctx_->input_ref_mutex(index_));
    return ReadStep(ctx_->mutable_input(index_, /*lock_held=*/true), dtype, step);
  }

 private:
  OpKernelContext* ctx_ = nullptr;
  int index_ = 0;
};

// Inputs: gate, step, local_step, limit. Outputs: accepted, staleness, reservation.
template <class Step>
class DecideOp : public GateUserOp {
 public:
  explicit DecideOp(OpKernelConstruction* ctx) : GateUserOp(ctx) {
    OP_REQUIRES_OK(ctx, ctx->GetAttr("T", &dtype_));
  }

 private:
  absl::Status Run(OpKernelContext* ctx, GateResource* resource) override {
    Step step;
    int64_t local_step = 0;
    int64_t limit = 0;
    TF_RETURN_IF_ERROR(step.Find(ctx, 1));
    TF_RETURN_IF_ERROR(ReadScalar(ctx, 2, "local_step", &local_step));
    TF_RETURN_IF_ERROR(ReadScalar(ctx, 3, "limit", &limit));
    // What may fail comes before the decision.
    Tensor* accepted = nullptr;
    Tensor* staleness = nullptr;
    Tensor* reservation = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(0, TensorShape({}), &accepted));
    TF_RETURN_IF_ERROR(ctx->allocate_output(1, TensorShape({}), &staleness));
    TF_RETURN_IF_ERROR(ctx->allocate_output(2, TensorShape({}), &reservation));
    auto* const made = new ReservationResource(resource, counter());
    reservation->scalar<ResourceHandle>()() =
        ResourceHandle::MakeRefCountingHandle<ReservationResource>(made, ctx->device()->name());
    absl::Status status;
    StalenessGate::Decision decision;
    const auto read_step = [&](int64_t* value) {
      status = step.Read(dtype_, value);
      return status.ok();
    };
    if (resource->gate().Decide(counter(), local_step, limit, read_step, &decision)) {
      if (decision.accepted) made->Open();
      accepted->scalar<bool>()() = decision.accepted;
      staleness->scalar<int64_t>()() = decision.staleness;
    }
    return status;
  }

  DataType dtype_;
};

// Inputs: reservation, applied.
class EndOp : public OpKernel {
 public:
  using OpKernel::OpKernel;

  void Compute(OpKernelContext* ctx) override {
    RefCountPtr<ReservationResource> reservation;
    bool applied = false;
    OP_REQUIRES_OK(ctx, LookupInput(ctx, 0, "reservation", "a reservation", &reservation));
    OP_REQUIRES_OK(ctx, ReadScalar(ctx, 1, "applied", &applied));
    reservation->End(applied);
  }
  bool IsExpensive() override { return false; }
};

template <int64_t StalenessGate::Counts::* count>
class CountOp : public GateUserOp {
 public:
  using GateUserOp::GateUserOp;

 private:
  absl::Status Run(OpKernelContext* ctx, GateResource* resource) override {
    Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(ctx->allocate_output(0, TensorShape({}), &output));
    output->scalar<int64_t>()() = resource->gate().counts(counter()).*count;
    return absl::OkStatus();
  }
};

class RecentStalenessOp : public GateUserOp {
 public:
  using GateUserOp::GateUserOp;

 private:
  absl::Status Run(OpKernelContext* ctx, GateResource* resource) override {
    const std::vector<int64_t> recent = resource->gate().counts(counter()).recent;
    Tensor* output = nullptr;
    TF_RETURN_IF_ERROR(
        ctx->allocate_output(0, TensorShape({static_cast<int64_t>(recent.size())}), &output));
    std::copy(recent.begin(), recent.end(), output->flat<int64_t>().data());
    return absl::OkStatus();
  }
};

REGISTER_KERNEL_BUILDER(Name("Condacc>StalenessGate").Device(DEVICE_CPU), GateOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>StalenessGateDecide").Device(DEVICE_CPU),
                        DecideOp<ResourceStep>);
REGISTER_KERNEL_BUILDER(Name("Condacc>StalenessGateDecideRef").Device(DEVICE_CPU),
                        DecideOp<RefStep>);
REGISTER_KERNEL_BUILDER(Name("Condacc>StalenessGateEnd").Device(DEVICE_CPU), EndOp);
REGISTER_KERNEL_BUILDER(Name("Condacc>StalenessGateNumAccepted").Device(DEVICE_CPU),
                        CountOp<&StalenessGate::Counts::num_accepted>);
REGISTER_KERNEL_BUILDER(Name("Condacc>StalenessGateNumDropped").Device(DEVICE_CPU),
                        CountOp<&StalenessGate::Counts::num_dropped>);
REGISTER_KERNEL_BUILDER(Name("Condacc>StalenessGateRecentStaleness").Device(DEVICE_CPU),
                        RecentStalenessOp);

}  // namespace
}  // namespace condacc
