// Accumulators as TensorFlow resources, and the op that makes them.
#ifndef CONDACC_KERNELS_ACCUMULATOR_ACCUMULATOR_RESOURCE_H_
#define CONDACC_KERNELS_ACCUMULATOR_ACCUMULATOR_RESOURCE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cc/core/accumulator/accumulator.h"
#include "cc/core/base/mutex.h"
#include "cc/kernels/accumulator/device.h"
#include "cc/kernels/base/errors.h"
#include "cc/kernels/base/handle_op.h"
#include "cc/kernels/base/inputs.h"
#include "cc/kernels/base/resource.h"
#include "cc/kernels/base/tf_conversions.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/partial_tensor_shape.h"
#include "tensorflow/core/framework/tensor.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/lib/core/refcount.h"

namespace condacc {

// A kind of accumulator. A tower accumulator sums the gradients of one step's towers.
struct AccumulatorKind {
  const char* name;
  bool is_sparse;
  bool is_tower;
};
inline constexpr AccumulatorKind kDense{"dense", false, false};
inline constexpr AccumulatorKind kSparse{"sparse", true, false};
inline constexpr AccumulatorKind kDenseTower{"dense tower", false, true};
inline constexpr AccumulatorKind kSparseTower{"sparse tower", true, true};

// The arguments with which an accumulator was made. Two uses of one shared name must agree in all
// of them but `holds`.
struct AccumulatorSpec {
  const AccumulatorKind* kind = nullptr;
  tensorflow::DataType dtype = tensorflow::DT_INVALID;
  tensorflow::PartialTensorShape shape;
  std::string reduction_type;
  // If not 0, gradients are added in the order of this many contributors.
  int64_t num_contributors = 0;
  // If false, dense gradients are added as they arrive. Two uses of a shared name may differ in
  // this, because it only affects memory.
  bool holds = true;

  std::string ToString() const;
  // Returns InvalidArgument, naming both, if the two differ.
  absl::Status CheckSame(const AccumulatorSpec& other) const;
};

// Reads the attributes of an op that makes an accumulator. The kind must be set.
// Returns InvalidArgument if integers would have to be averaged.
absl::Status ReadSpec(tensorflow::OpKernelConstruction* ctx, AccumulatorSpec* spec);

// Accumulators of all kinds are stored under this one type, so that a shared name cannot refer to
// two kinds at once.
class AccumulatorResource : public PluginResource {
 public:
  static constexpr char kArgument[] = "handle";
  static constexpr char kWhat[] = "an accumulator";
  static constexpr char kKind[] = "accumulator";

  // `start_thread` may be null.
  AccumulatorResource(const std::string& where, const AccumulatorSpec& spec, const Device& device,
                      const ThreadStarter& start_thread);

  Accumulator& core() { return core_; }
  const AccumulatorSpec& spec() const { return spec_; }
  const Device& device() const { return device_; }
  std::string DebugString() const override { return absl::StrCat(where(), ": ", spec_.ToString()); }

 private:
  // Returns what starts threads that keep this object alive.
  ThreadStarter KeptAliveBy(const ThreadStarter& start_thread);

  const AccumulatorSpec spec_;
  const Device& device_;
  Accumulator core_;
};

using AccumulatorPtr = tensorflow::core::RefCountPtr<AccumulatorResource>;

// Finds the accumulator that input 0 of an op is a handle of. Remembers the last one, because a
// lookup by its name and the checks take a third of the time of a small apply. If that accumulator
// is destroyed while a take of it waits, it is found until the take ends. Thread-safe.
class AccumulatorFinder {
 public:
  // The accumulators are of this kind, and of the op's dtype.
  AccumulatorFinder(tensorflow::OpKernelConstruction* ctx, const AccumulatorKind& kind);

  // Returns the errors of LookupInput(), and InvalidArgument if the accumulator has another kind or
  // dtype, or if its shape differs from the handle's.
  absl::Status Find(tensorflow::OpKernelContext* ctx, AccumulatorPtr* accumulator)
      CONDACC_EXCLUDES(mu_);

 private:
  absl::Status Check(tensorflow::OpKernelContext* ctx, const AccumulatorSpec& found) const;

  const AccumulatorKind& kind_;
  tensorflow::DataType dtype_;
  Mutex mu_;
  // The handle of `found_`. As long as this refers to its memory, no other handle is there.
  tensorflow::Tensor handle_ CONDACC_GUARDED_BY(mu_);
  tensorflow::core::WeakPtr<AccumulatorResource> found_ CONDACC_GUARDED_BY(mu_);
};

template <const AccumulatorKind& kKind>
class AccumulatorHandleOp : public HandleOp<AccumulatorResource> {
 public:
  explicit AccumulatorHandleOp(tensorflow::OpKernelConstruction* ctx)
      : HandleOp(ctx), device_(DeviceOf(ctx)), start_thread_(device_.thread_starter(ctx)) {
    spec_.kind = &kKind;
    OP_REQUIRES_OK(ctx, Named(where(), [&] { return ReadSpec(ctx, &spec_); }));
  }

 private:
  AccumulatorResource* NewResource() const override {
    return new AccumulatorResource(where(), spec_, device_, start_thread_);
  }
  absl::Status CheckPlacement(tensorflow::OpKernelContext* ctx) const override {
    return ToAbsl(device_.check_op_device(ctx));
  }
  absl::Status CheckSame(const AccumulatorResource& found) const override {
    return found.spec().CheckSame(spec_);
  }
  Contents contents() const override { return {{spec_.dtype, spec_.shape}}; }

  const Device& device_;
  const ThreadStarter start_thread_;
  AccumulatorSpec spec_;
};

}  // namespace condacc

#endif  // CONDACC_KERNELS_ACCUMULATOR_ACCUMULATOR_RESOURCE_H_
