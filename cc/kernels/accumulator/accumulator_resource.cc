#include "cc/kernels/accumulator/accumulator_resource.h"

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

namespace {

// Checks the shape that the handle carries. A handle that is not anonymous refers to the
// accumulator by name. Since the handle was made, the accumulator may have been destroyed and
// another one made under the same name.
absl::Status CheckHandleShape(OpKernelContext* ctx, const AccumulatorResource& found) {
  const auto& handle = ctx->input(0).flat<tensorflow::ResourceHandle>()(0);
  // Such a handle refers to the accumulator itself, so its contents need not be copied.
  if (handle.IsRefCounting()) return absl::OkStatus();
  const auto contents = handle.dtypes_and_shapes();
  if (contents.empty() || contents[0].shape.IsIdenticalTo(found.spec().shape)) {
    return absl::OkStatus();
  }
  return found.Invalid(absl::StrCat("The handle is that of an accumulator which was destroyed: ",
                                    "expected shape ", found.spec().shape.DebugString(),
                                    ", got a handle of shape ", contents[0].shape.DebugString()));
}

// Mentions local_step, which users forget most often: without it, every gradient after the first
// take is stale.
std::string AboutLastDrop(const StallReport& report) {
  if (report.num_dropped == 0) return "";
  std::string text =
      ", the last of them with local step " + std::to_string(report.last_dropped_step);
  if (report.last_dropped_step == 0) {
    text +=
        ", the default of apply_grad: pass local_step=accumulator.global_step(), or the step at "
        "which the gradient was computed";
  }
  return text;
}

// Returns a function that logs a warning about a take that waits too long.
std::function<void(const StallReport&)> StallLogger(const std::string& name) {
  return [name](const StallReport& report) {
    LOG(WARNING) << "A take of accumulator '" << name << "' waits for long: it has "
                 << report.num_accumulated << " of " << report.num_required
                 << " gradients at global step " << report.global_step << ", and "
                 << report.num_dropped << " stale gradients were dropped so far"
                 << AboutLastDrop(report) << ".";
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
  SumOptions options;
  options.type = ElementTypeOf(spec.dtype);
  options.shape = ShapeOf(spec.shape);
  options.reduction = ReductionOf(spec.reduction_type);
  options.budget = &device.budget();
  options.spares = std::make_shared<SpareBuffers>(size_t{64} << 20, options.budget);
  options.max_inputs = device.max_inputs;
  options.adds_ahead = device.adds_small_at_once;
  if (!device.adds_small_at_once) options.small_bytes = 0;
  // Folds that wait for the device should be few.
  if (device.merges_wait) options.fold_bytes = size_t{1} << 30;
  if (!spec.holds) options.max_pending_bytes = 0;
  if (!spec.kind->is_tower) return options;
  // A step has many sums of towers' gradients at once, so the memory of each must not grow with the
  // number of towers. Large gradients are added as soon as there are two, and those that arrive
  // during a pass are added together in the next one. A few smaller ones are held and added in one
  // pass. Borrowed gradients are held like others. They may be read as late as an op that has all
  // gradients as inputs, such as AddN, would read them.
  options.small_bytes = 0;
  options.max_pending = 8;  // As many as one pass adds to the first.
  options.max_pending_bytes = 32 << 20;
  options.holds_borrowed = true;
  if (!device.merges_wait) options.fold_bytes = 0;
  // The mean is over all towers, as for dense gradients, and not over those that have the row.
  if (options.reduction == Reduction::kMean) options.reduction = Reduction::kGlobalMean;
  return options;
}

}  // namespace

AccumulatorResource::AccumulatorResource(const AccumulatorSpec& spec, const Device& device,
                                         const ThreadStarter& start_thread)
    : spec_(spec),
      where_("accumulator '" + spec.name + "'"),
      device_(device),
      core_({spec.name, spec.kind->is_sparse ? device.new_sparse_sum : NewDenseSum,
             OptionsOf(spec, device), StallTimeout(), StallLogger(spec.name),
             KeptAliveBy(start_thread)}) {}

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
  return absl::StrCat(kind->name, " accumulator '", name, "' of dtype ",
                      tensorflow::DataTypeString(dtype), ", shape ", shape.DebugString(),
                      " and reduction_type ", reduction_type);
}

absl::Status AccumulatorSpec::CheckSame(const AccumulatorSpec& other) const {
  if (kind == other.kind && dtype == other.dtype && shape.IsIdenticalTo(other.shape) &&
      reduction_type == other.reduction_type) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("Shared name is in use by another accumulator: ", "expected ", ToString(),
                   ", got ", other.ToString()));
}

absl::Status ReadSpec(OpKernelConstruction* ctx, AccumulatorSpec* spec) {
  TF_RETURN_IF_ERROR(ctx->GetAttr("dtype", &spec->dtype));
  TF_RETURN_IF_ERROR(ctx->GetAttr("shape", &spec->shape));
  TF_RETURN_IF_ERROR(ctx->GetAttr("reduction_type", &spec->reduction_type));
  if (spec->kind == &kDense) TF_RETURN_IF_ERROR(ctx->GetAttr("holds", &spec->holds));
  if (spec->reduction_type == "SUM" || !tensorflow::DataTypeIsInteger(spec->dtype)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("Integer gradients have no mean: expected reduction_type SUM for dtype ",
                   tensorflow::DataTypeString(spec->dtype), ", got ", spec->reduction_type,
                   " (accumulator '", spec->name, "')"));
}

absl::Status AccumulatorResource::Invalid(absl::string_view message) const {
  return absl::InvalidArgumentError(absl::StrCat(message, " (", where_, ")"));
}

absl::Status LookupAccumulator(OpKernelContext* ctx, AccumulatorPtr* accumulator, int index) {
  return LookupInput(ctx, index, "handle", "an accumulator", accumulator);
}

absl::Status LookupAccumulator(OpKernelContext* ctx, const AccumulatorKind& kind,
                               tensorflow::DataType dtype, AccumulatorPtr* accumulator) {
  AccumulatorPtr found;
  TF_RETURN_IF_ERROR(LookupAccumulator(ctx, &found));
  const AccumulatorSpec& spec = found->spec();
  if (spec.kind != &kind) {
    return absl::InvalidArgumentError(
        absl::StrCat("Expected a ", kind.name, " accumulator, got ", spec.ToString()));
  }
  if (spec.dtype != dtype) {
    return found->Invalid(absl::StrCat("Dtype mismatch: expected ",
                                       tensorflow::DataTypeString(spec.dtype), ", got ",
                                       tensorflow::DataTypeString(dtype)));
  }
  TF_RETURN_IF_ERROR(CheckHandleShape(ctx, *found));
  *accumulator = std::move(found);
  return absl::OkStatus();
}

}  // namespace condacc
