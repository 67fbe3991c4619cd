// The type under which accumulators of all kinds are stored in TensorFlow's resource managers.
#ifndef CONDACC_KERNELS_ACCUMULATOR_ACCUMULATOR_RESOURCE_H_
#define CONDACC_KERNELS_ACCUMULATOR_ACCUMULATOR_RESOURCE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cc/kernels/base/inputs.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/partial_tensor_shape.h"
#include "tensorflow/core/framework/resource_base.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/lib/core/refcount.h"

namespace condacc {

// The arguments with which an accumulator was made. Two uses of one shared name must agree in all
// of them but the name.
struct AccumulatorSpec {
  std::string kind;  // "dense" or "sparse"
  std::string name;  // Name in messages.
  tensorflow::DataType dtype = tensorflow::DT_INVALID;
  tensorflow::PartialTensorShape shape;
  std::string reduction_type;

  std::string ToString() const;
  // Returns InvalidArgument, naming both, if `other` is not the same.
  absl::Status CheckSame(const AccumulatorSpec& other) const;
};

// Reads the attributes of an op that makes an accumulator. The kind and the name must be set.
// Returns InvalidArgument if integers would have to be averaged.
absl::Status ReadSpec(tensorflow::OpKernelConstruction* ctx, AccumulatorSpec* spec);

// Accumulators of all kinds are stored under this one type, so that a shared name cannot stand for
// two kinds at once.
class AccumulatorResource : public tensorflow::ResourceBase {
 public:
  explicit AccumulatorResource(AccumulatorSpec spec)
      : spec_(std::move(spec)), where_("accumulator '" + spec_.name + "'") {}

  const AccumulatorSpec& spec() const { return spec_; }
  std::string DebugString() const override { return spec_.ToString(); }

  virtual int64_t num_accumulated() const = 0;
  virtual int64_t num_dropped() const = 0;
  virtual int64_t global_step() const = 0;
  virtual int64_t SetGlobalStep(int64_t global_step) = 0;  // Returns the previous step.
  // Discards all gradients, sets the global step, and returns how many gradients were discarded. If
  // `only_forward`, does nothing unless the step becomes higher.
  virtual int64_t Reset(int64_t global_step, bool only_forward) = 0;

  // Returns the InvalidArgument error "MESSAGE (accumulator 'NAME')".
  absl::Status Invalid(absl::string_view message) const;
  // Returns the text "accumulator 'NAME'".
  const std::string& where() const { return where_; }

 private:
  const AccumulatorSpec spec_;
  const std::string where_;
};

using AccumulatorPtr = tensorflow::core::RefCountPtr<AccumulatorResource>;

// Finds the accumulator that input 0 is a handle of. Returns InvalidArgument if the input is not a
// single handle or is a handle of something else, and NotFound if the accumulator is gone.
absl::Status LookupAccumulator(tensorflow::OpKernelContext* ctx, AccumulatorPtr* accumulator);

// The same for an op that works with accumulators of one kind and dtype. Returns InvalidArgument,
// too, if the accumulator has another kind or dtype, or not the shape that the handle carries.
absl::Status LookupAccumulator(tensorflow::OpKernelContext* ctx, absl::string_view kind,
                               tensorflow::DataType dtype, AccumulatorPtr* accumulator);

// Reads a scalar input. Returns InvalidArgument, naming the accumulator, if it is not a scalar.
template <typename T>
absl::Status ReadScalar(tensorflow::OpKernelContext* ctx, int index, absl::string_view argument,
                        const AccumulatorResource& accumulator, T* value) {
  const absl::Status status = ReadScalar(ctx, index, argument, value);
  return status.ok() ? status : accumulator.Invalid(status.message());
}

}  // namespace condacc

#endif  // CONDACC_KERNELS_ACCUMULATOR_ACCUMULATOR_RESOURCE_H_
