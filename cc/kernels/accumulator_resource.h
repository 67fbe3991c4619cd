// What every accumulator is to TensorFlow's resource managers and to the ops common to all kinds.
#ifndef CONDACC_KERNELS_ACCUMULATOR_RESOURCE_H_
#define CONDACC_KERNELS_ACCUMULATOR_RESOURCE_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cc/kernels/inputs.h"
#include "tensorflow/core/framework/op_kernel.h"
#include "tensorflow/core/framework/partial_tensor_shape.h"
#include "tensorflow/core/framework/resource_base.h"
#include "tensorflow/core/framework/types.h"
#include "tensorflow/core/lib/core/refcount.h"

namespace condacc {

// What an accumulator was constructed with. Two uses of one shared name must agree in all of it
// but the name.
struct AccumulatorSpec {
  std::string kind;  // "dense" or "sparse"
  std::string name;  // for messages
  tensorflow::DataType dtype = tensorflow::DT_INVALID;
  tensorflow::PartialTensorShape shape;
  std::string reduction_type;

  std::string ToString() const;
  // InvalidArgument naming both if `other` is not the same.
  absl::Status CheckSame(const AccumulatorSpec& other) const;
};

// All kinds live under this one type, so that a shared name cannot stand for two kinds at once.
class AccumulatorResource : public tensorflow::ResourceBase {
 public:
  explicit AccumulatorResource(AccumulatorSpec spec) : spec_(std::move(spec)) {}

  const AccumulatorSpec& spec() const { return spec_; }
  std::string DebugString() const override { return spec_.ToString(); }

  virtual int64_t num_accumulated() const = 0;
  virtual int64_t num_dropped() const = 0;
  virtual int64_t global_step() const = 0;
  virtual int64_t SetGlobalStep(int64_t global_step) = 0;  // returns the previous one
  // Discards all gradients, sets the step, and outputs how many gradients were discarded.
  virtual absl::Status Reset(int64_t global_step, int64_t* num_discarded) = 0;

  // "... (accumulator 'NAME')" as an InvalidArgument error.
  absl::Status Invalid(absl::string_view message) const;
  // "Out of memory (accumulator 'NAME')" as a ResourceExhausted error.
  absl::Status OutOfMemory() const;

 private:
  const AccumulatorSpec spec_;
};

using AccumulatorPtr = tensorflow::core::RefCountPtr<AccumulatorResource>;

// Finds the accumulator that input 0 is a handle of. Errors: InvalidArgument if the input is not
// one handle or that of something else, NotFound if the accumulator is gone.
absl::Status LookupAccumulator(tensorflow::OpKernelContext* ctx, AccumulatorPtr* accumulator);

// Reads a scalar input; InvalidArgument naming the accumulator if it is not one.
template <typename T>
absl::Status ReadScalar(tensorflow::OpKernelContext* ctx, int index, absl::string_view argument,
                        const AccumulatorResource& accumulator, T* value) {
  const absl::Status status = ReadScalar(ctx, index, argument, value);
  return status.ok() ? status : accumulator.Invalid(status.message());
}

}  // namespace condacc

#endif  // CONDACC_KERNELS_ACCUMULATOR_RESOURCE_H_
