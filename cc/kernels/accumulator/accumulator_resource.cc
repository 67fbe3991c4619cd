#include "cc/kernels/accumulator/accumulator_resource.h"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "cc/core/dense/dense_sum.h"
#include "cc/kernels/base/settings.h"
#include "tensorflow/core/framework/resource_handle.h"
#include "tensorflow/core/platform/logging.h"

namespace condacc {

using tensorflow::OpKernelConstruction;
using tensorflow::OpKernelContext;
using tensorflow::Tensor;

namespace {

// Checks the shape that the handle carries. A handle that is not anonymous refers to the
// accumulator by name. Since the handle was made, the accumulator may have been destroyed and
// another one made under the same name.
absl::Status CheckHandleShape(OpKernelContext* ctx, const AccumulatorSpec& found) {
  const auto& handle = ctx->input(0).flat<tensorflow::ResourceHandle>()(0);
  // Such a handle refers to the accumulator itself, so its contents need not be copied.
  if (handle.IsRefCounting()) return absl::OkStatus();
  const auto contents = handle.dtypes_and_shapes();
  if (contents.empty() || contents[0].shape.IsIdenticalTo(found.shape)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "The handle is that of an accumulator which was destroyed: expected shape ",
      found.shape.DebugString(), ", got a handle of shape ", contents[0].shape.DebugString()));
}

// Mentions local_step, which users forget most often: without it, every gradient after the first
// take is stale. If all gradients are stale although they have a local step, the accumulator is
// probably ahead of a step that was restored from a checkpoint.
std::string AboutLastDrop(const StallReport& report) {
  if (report.num_dropped == 0) return "";
  std::string text = absl::StrCat(", the last of them with local step ", report.last_dropped_step);
  if (report.last_dropped_step == 0) {
    text +=
        ", the default of apply_grad: pass local_step=accumulator.global_step(), or the step at "
        "which the gradient was computed";
  } else if (report.refuses_all_since) {
    text +=
        ", and no gradient was added since then: was global_step restored? Call set_global_step "
        "or reset";
  }
  return text;
}

// Mentions it if no gradient has come, whether or not it would have been added.
const char* AboutAbsence(const StallReport& report) {
  const bool has_come = report.has_ever_added || report.refuses_all_since || report.num_dropped > 0;
  return has_come ? "" : "; no gradient has ever come to this accumulator";
}

// Returns a function that logs a warning about an accumulator whose next step does not come.
std::function<void(const StallReport&)> StallLogger(const std::string& where) {
  return [where](const StallReport& report) {
    const auto tenths = std::chrono::duration_cast<std::chrono::milliseconds>(report.waited) / 100;
    const std::string seconds =
        absl::StrCat(static_cast<double>(tenths / std::chrono::milliseconds(1)) / 10);
    const std::string what =
        report.is_try
            ? absl::StrCat("Takes of ", where, " find too few gradients, and for ", seconds,
                           " s all gradients that came were refused: it has ")
            : absl::StrCat("A take of ", where, " waits for long (", seconds, " s): it has ");
    LOG(WARNING) << what << report.num_accumulated << " of " << report.num_required
                 << " gradients at global step " << report.global_step << ", and "
                 << report.num_dropped << " stale gradients were dropped so far"
                 << AboutLastDrop(report) << AboutAbsence(report)
                 << (report.num_takes_behind == 0   ? ""
                     : report.num_takes_behind == 1 ? "; 1 more take waits behind it"
                                                    : absl::StrCat("; ", report.num_takes_behind,
                                                                   " more takes wait behind it"))
                 << ".";
  };
}

// Work for an accumulator, and a reference to it, which is released after the work.
struct Kept {
  std::shared_ptr<AccumulatorResource> accumulator;
  WorkspaceUser work;

  void operator()(Workspace& workspace) const { work(workspace); }
};

Reduction ReductionOf(const std::string& reduction_type) {
  if (reduction_type == "SUM") return Reduction::kSum;
  return reduction_type == "GLOBAL_MEAN" ? Reduction::kGlobalMean : Reduction::kMean;
}

SumOptions OptionsOf(const AccumulatorSpec& spec, const Device& device) {
  SumOptions options = device.sum_options();
  options.type = ElementTypeOf(spec.dtype);
  options.shape = ShapeOf(spec.shape);
  options.reduction = ReductionOf(spec.reduction_type);
  options.budget = &device.budget();
  options.num_contributors = spec.num_contributors;
  if (!spec.holds) options.HoldNothing();
  if (spec.kind->is_tower) options.UseForTowers(device.merges_wait);
  return options;
}

}  // namespace

AccumulatorResource::AccumulatorResource(const std::string& where, const AccumulatorSpec& spec,
                                         const Device& device, const ThreadStarter& start_thread)
    : PluginResource(where),
      spec_(spec),
      device_(device),
      core_({spec.kind->is_sparse ? device.new_sparse_sum : NewDenseSum, OptionsOf(spec, device),
             StallTimeout(), StallLogger(where), KeptAliveBy(start_thread)}) {}

ThreadStarter AccumulatorResource::KeptAliveBy(const ThreadStarter& start_thread) {
  if (start_thread == nullptr) return nullptr;
  return [this, start_thread](const WorkspaceUser& work) {
    Ref();
    const std::shared_ptr<AccumulatorResource> reference(
        this, [](AccumulatorResource* accumulator) { accumulator->Unref(); });
    return start_thread(Kept{reference, work});
  };
}

std::string AccumulatorSpec::ToString() const {
  return absl::StrCat("a ", kind->name, " accumulator of dtype ", tensorflow::DataTypeString(dtype),
                      ", shape ", shape.DebugString(), " and reduction_type ", reduction_type,
                      num_contributors == 0 ? ""
                                            : absl::StrCat(", deterministic with ",
                                                           num_contributors, " contributors"));
}

absl::Status AccumulatorSpec::CheckSame(const AccumulatorSpec& other) const {
  if (kind == other.kind && dtype == other.dtype && shape.IsIdenticalTo(other.shape) &&
      reduction_type == other.reduction_type && num_contributors == other.num_contributors) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("Shared name is in use by another accumulator: expected ", ToString(), ", got ",
                   other.ToString()));
}

absl::Status ReadSpec(OpKernelConstruction* ctx, AccumulatorSpec* spec) {
  TF_RETURN_IF_ERROR(ctx->GetAttr("dtype", &spec->dtype));
  TF_RETURN_IF_ERROR(ctx->GetAttr("shape", &spec->shape));
  TF_RETURN_IF_ERROR(ctx->GetAttr("reduction_type", &spec->reduction_type));
  if (spec->kind == &kDense) TF_RETURN_IF_ERROR(ctx->GetAttr("holds", &spec->holds));
  if (!spec->kind->is_tower) {
    TF_RETURN_IF_ERROR(ctx->GetAttr("num_contributors", &spec->num_contributors));
  }
  if (spec->reduction_type == "SUM" || !tensorflow::DataTypeIsInteger(spec->dtype)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("Integer gradients have no mean: expected reduction_type SUM for dtype ",
                   tensorflow::DataTypeString(spec->dtype), ", got ", spec->reduction_type));
}

AccumulatorFinder::AccumulatorFinder(tensorflow::OpKernelConstruction* ctx,
                                     const AccumulatorKind& kind)
    : kind_(kind) {
  OP_REQUIRES_OK(ctx, ctx->GetAttr("dtype", &dtype_));
}

absl::Status AccumulatorFinder::Find(OpKernelContext* ctx, AccumulatorPtr* accumulator) {
  const Tensor& handle = ctx->input(0);
  {
    MutexLock lock(&mu_);
    if (handle.data() == handle_.data() && handle.NumElements() == 1) {
      *accumulator = found_.GetNewRef();
      if (*accumulator != nullptr) return absl::OkStatus();
    }
  }
  AccumulatorPtr found;
  TF_RETURN_IF_ERROR(LookupInput(ctx, 0, &found));
  TF_RETURN_IF_ERROR(Named(found->where(), [&] { return Check(ctx, found->spec()); }));
  *accumulator = std::move(found);
  // A handle that owns its accumulator needs no lookup, and would keep it alive here.
  if (handle.flat<tensorflow::ResourceHandle>()(0).IsRefCounting()) return absl::OkStatus();
  tensorflow::core::WeakPtr<AccumulatorResource> last(accumulator->get());
  Tensor kept = handle;
  MutexLock lock(&mu_);  // What follows does not throw.
  handle_ = std::move(kept);
  found_ = std::move(last);
  return absl::OkStatus();
}

absl::Status AccumulatorFinder::Check(OpKernelContext* ctx, const AccumulatorSpec& found) const {
  if (found.kind != &kind_) {
    return absl::InvalidArgumentError(
        absl::StrCat("Expected a ", kind_.name, " accumulator, got ", found.ToString()));
  }
  if (found.dtype != dtype_) {
    return absl::InvalidArgumentError(absl::StrCat("Dtype mismatch: expected ",
                                                   tensorflow::DataTypeString(found.dtype),
                                                   ", got ", tensorflow::DataTypeString(dtype_)));
  }
  return CheckHandleShape(ctx, found);
}

}  // namespace condacc
