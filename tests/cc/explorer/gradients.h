// Gradients whose sums show which gradients they are made of.
#ifndef CONDACC_TESTS_EXPLORER_GRADIENTS_H_
#define CONDACC_TESTS_EXPLORER_GRADIENTS_H_

#include <cstdint>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/base/element_type.h"
#include "cc/core/dense/dense_sum.h"
#include "cc/core/sparse/sparse_sum.h"
#include "tests/cc/explorer/history.h"
#include "tests/cc/explorer/memory.h"

namespace condacc::explorer {

// The shape and type of the dense gradients of a run. All elements of gradient i are 2^i.
class DenseGradients {
 public:
  static constexpr SumFactory kNewSum = NewDenseSum;
  using Workspace = ExplorerDenseWorkspace;

  DenseGradients();
  ElementType type() const { return type_; }

  // A gradient, and the caller's memory for it. The memory is overwritten at the end, when nothing
  // may read it any more.
  class CallerMemory {
   public:
    ~CallerMemory();
    Gradient Make(const DenseGradients& gradients, int number, bool is_borrowed);

   private:
    std::vector<char> memory_;
  };

  GradientSet SetIn(const Value& value, bool* is_wrong) const;

 private:
  ElementType type_;
  int64_t num_elements_;
};

// The shape of the sparse gradients of a run. Each has even rows, which are common to all gradients
// and hold 2^i, and odd ones, which only gradient i has.
class SparseGradients {
 public:
  static constexpr SumFactory kNewSum = NewSparseSum<HostRows>;
  using Workspace = ExplorerSparseWorkspace;

  SparseGradients();

  class CallerMemory {
   public:
    ~CallerMemory();
    Gradient Make(const SparseGradients& gradients, int number, bool is_borrowed);

   private:
    std::vector<int64_t> indices_;
    std::vector<int64_t> values_;
  };

  GradientSet SetIn(const Value& value, bool* is_wrong) const;

 private:
  static constexpr int64_t kRowStride = 1000003;
  static constexpr int64_t kWidth = 2;

  int64_t num_rows_;
};

}  // namespace condacc::explorer

#endif  // CONDACC_TESTS_EXPLORER_GRADIENTS_H_
