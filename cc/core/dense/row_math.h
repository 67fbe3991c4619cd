// Sums of rows, which are short but very many.
#ifndef CONDACC_CORE_DENSE_ROW_MATH_H_
#define CONDACC_CORE_DENSE_ROW_MATH_H_

#include <cstddef>

#include "cc/core/base/element_type.h"

namespace condacc {

// The sum of one row; see DenseAddArgs. `out` may be `first`, but none of the inputs.
struct RowAddArgs {
  void* out;
  const void* first;
  const void* const* inputs;
  size_t num_inputs;
  double divisor;
  bool first_is_float32;  // May be true only if SumsInFloat32(type).
  bool is_partial;        // Whether `out` is about to be read again.
};

// Adds rows of one type and width, with the results of AddDense(). The function that adds a row is
// chosen once for all of them.
class RowAdder {
 public:
  // If `bypasses_cache`, results are written past the caches where the processor can do that. This
  // is faster if results and operands together do not fit in the caches: a line need not be read
  // before it is written, and pushes out no operand. `out` of all rows must then be a multiple of
  // the size of a row from `results`.
  RowAdder(ElementType type, size_t width, bool out_is_float32, bool bypasses_cache,
           const void* results);

  // Partial sums, and sums that grow in place, are always written to the cache.
  void Add(const RowAddArgs& row) const {
    (row.is_partial || row.out == row.first ? add_to_cache_ : add_)(*this, row);
  }
  // Makes the results visible to other threads. Each thread must call it after its last row.
  void Finish() const;

  ElementType type() const { return type_; }
  size_t width() const { return width_; }
  // The number of real numbers in a row: a complex number is two.
  size_t num_parts() const { return num_parts_; }
  bool out_is_float32() const { return out_is_float32_; }

 private:
  using Function = void (*)(const RowAdder&, const RowAddArgs&);

  ElementType type_;
  size_t width_;
  size_t num_parts_;
  bool out_is_float32_;
  bool bypasses_cache_ = false;
  Function add_;
  Function add_to_cache_;
};

}  // namespace condacc

#endif  // CONDACC_CORE_DENSE_ROW_MATH_H_
