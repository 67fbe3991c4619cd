// Gradients whose sums show which gradients they are made of.
#ifndef CONDACC_TESTS_EXPLORER_GRADIENTS_H_
#define CONDACC_TESTS_EXPLORER_GRADIENTS_H_

#include <cstdint>
#include <vector>

#include "cc/core/accumulator/accumulator.h"
#include "cc/core/base/element_type.h"
#include "cc/core/dense/dense_sum.h"
#include "cc/core/sparse/sparse_sum.h"
#include "tests/cc/explorer/memory.h"
#include "tests/cc/explorer/programs/history.h"

namespace condacc::explorer {

// The weights of the gradients of a run, and the order in which they are added.
class GradientWeights {
 public:
  // Gradient i is that of contributor i % `num_contributors`, and gradients are added in the order
  // of the contributors. 0 means the order of arrival.
  void AddInOrderOf(int num_contributors) { num_contributors_ = num_contributors; }
  // The sums of these weights are exact, unless gradients are added in order: then they show it.
  double Of(int number) const;
  double Sum(GradientSet set) const;

 private:
  int num_contributors_ = 0;
};

// The data type, reduction and shape of the dense gradients of a run. All elements of gradient i
// are 2^i. If gradients have weights, one element is the weight and another one is 1 instead, which
// show by what the sum was divided.
class DenseGradients {
 public:
  static constexpr SumFactory kNewSum = NewDenseSum;
  static constexpr bool kRefusesLate = false;
  using Workspace = ExplorerDenseWorkspace;

  DenseGradients();
  void Set(SumOptions* options) const;
  GradientWeights& weights() { return weights_; }
  double WeightOf(int number) const;
  Fault DrawFault() const;

  // A gradient, and the caller's memory for it. The memory is overwritten at the end, when nothing
  // may read it any more.
  class CallerMemory {
   public:
    ~CallerMemory();
    Gradient Make(const DenseGradients& gradients, const Operation& apply);

   private:
    std::vector<char> memory_;
  };

  GradientSet SetIn(const Value& value, bool* is_wrong) const;
  // The same for a saved sum.
  GradientSet SetInSaved(const SavedSum& saved, bool* is_wrong) const;
  // The same for a saved gradient.
  GradientSet SetInEarly(const SavedGradient& early) const;

 private:
  GradientSet SetInMean(const double* values, bool* is_wrong) const;

  GradientWeights weights_;
  ElementType type_;
  int64_t num_elements_;
  bool has_shape_;  // The accumulator is told the shape.
};

// The same for sparse gradients. Each has even rows, which are common to all gradients and hold
// 2^i, and odd ones, which only gradient i has. If gradients have weights, each row also holds the
// weight, whose sum shows in what order gradients were added.
class SparseGradients {
 public:
  static constexpr SumFactory kNewSum = NewSparseSum<HostRows>;
  // Whether bad indices are found only when a take is prepared.
  static constexpr bool kRefusesLate = false;
  using Workspace = ExplorerSparseWorkspace;

  SparseGradients();
  void Set(SumOptions* options) const;
  GradientWeights& weights() { return weights_; }
  double WeightOf(int number) const;
  Fault DrawFault() const;

  class CallerMemory {
   public:
    ~CallerMemory();
    Gradient Make(const SparseGradients& gradients, const Operation& apply);

   private:
    Buffer BufferOfIndices(const SparseGradients& gradients, bool is_borrowed);

    std::vector<int64_t> indices_;
    std::vector<int32_t> narrow_indices_;
    std::vector<int64_t> values_;
  };

  GradientSet SetIn(const Value& value, bool* is_wrong) const;
  GradientSet SetInSaved(const SavedSum& saved, bool* is_wrong) const;
  GradientSet SetInEarly(const SavedGradient& early) const;

 protected:
  static constexpr int64_t kRowStride = 1000003;
  static constexpr int64_t kMaxRows = 4;
  static constexpr int64_t kWidth = 2;

  explicit SparseGradients(Reduction mean);

  // Returns the gradients whose sums or means are these rows.
  GradientSet SetInRows(const int64_t* indices, const void* values, int64_t num_rows,
                        bool are_means, bool* is_wrong) const;

  GradientWeights weights_;
  Reduction reduction_ = Reduction::kSum;
  int64_t num_rows_;
  bool has_shape_;  // The accumulator is told the shape.
  bool indices_are_int32_;
};

// Sparse gradients that a device merges, which the host plays.
class DeviceGradients : public SparseGradients {
 public:
  static constexpr SumFactory kNewSum = NewSparseSum<DeviceRows>;
  static constexpr bool kRefusesLate = true;
  using Workspace = ExplorerDeviceWorkspace;

  DeviceGradients() : SparseGradients(Reduction::kGlobalMean) {}
};

}  // namespace condacc::explorer

#endif  // CONDACC_TESTS_EXPLORER_GRADIENTS_H_
