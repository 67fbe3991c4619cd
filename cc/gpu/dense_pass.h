// One pass of a dense sum over memory.
#ifndef CONDACC_GPU_DENSE_PASS_H_
#define CONDACC_GPU_DENSE_PASS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "cc/core/math/dense_math.h"
#include "cc/gpu/dense_launch.h"
#include "cc/gpu/elements.h"
#include "cc/gpu/host_device.h"

namespace condacc {

// The number of inputs whose loads are issued before the first of them is added.
inline constexpr int kInputsAtOnce = 8;

// A sum of elements of type T. Running sums of 16-bit types are float.
template <typename T, typename First, typename Out>
struct DensePass {
  using Sum = SumType<T>;

  // The maximum number of elements that a thread can process at once.
  static constexpr int kWidth =
      static_cast<int>(kVectorBytes / std::max({sizeof(T), sizeof(First), sizeof(Out)}));

  const First* first;
  const T* inputs[kMaxDenseInputs];
  int num_inputs;
  Sum divisor;
  Out* out;

  static DensePass Of(const DenseAddArgs& args) {
    DensePass pass;
    pass.first = static_cast<const First*>(args.first);
    for (size_t k = 0; k < args.num_inputs; ++k) {
      pass.inputs[k] = static_cast<const T*>(args.inputs[k]);
    }
    pass.num_inputs = static_cast<int>(args.num_inputs);
    pass.divisor = static_cast<Sum>(args.divisor);
    pass.out = static_cast<Out*>(args.out);
    return pass;
  }

  // Returns whether all operands can be read and written kWidth elements at once.
  bool IsAligned() const {
    return condacc::IsAligned(first, kWidth) && condacc::IsAligned(out, kWidth) &&
           std::all_of(inputs, inputs + num_inputs,
                       [](const T* input) { return condacc::IsAligned(input, kWidth); });
  }

  // Computes pack number `index` of the output. All operands of the pack are read before it is
  // written.
  template <int kPack>
  CONDACC_HOST_DEVICE void Run(int64_t index) const {
    const Pack<First, kPack> start = LoadPack<First, kPack>(first, index);
    Sum sums[kPack];
    for (int j = 0; j < kPack; ++j) sums[j] = static_cast<Sum>(start.values[j]);
    for (int done = 0; done < num_inputs; done += kInputsAtOnce) {
      AddSome<kPack>(index, done, sums);
    }
    Pack<Out, kPack> result;
    // CUDA's 16-bit types are rounded to nearest even.
    for (int j = 0; j < kPack; ++j) result.values[j] = static_cast<Out>(Divided(sums[j], divisor));
    StorePack(result, out, index);
  }

 private:
  template <int kPack>
  CONDACC_HOST_DEVICE void AddSome(int64_t index, int done, Sum* sums) const {
    Pack<T, kPack> loaded[kInputsAtOnce] = {};
    CONDACC_UNROLL
    for (int k = 0; k < kInputsAtOnce; ++k) {
      if (done + k < num_inputs) loaded[k] = LoadPack<T, kPack>(inputs[done + k], index);
    }
    CONDACC_UNROLL
    for (int k = 0; k < kInputsAtOnce; ++k) {
      if (done + k >= num_inputs) continue;
      for (int j = 0; j < kPack; ++j) sums[j] += static_cast<Sum>(loaded[k].values[j]);
    }
  }
};

// Sums all elements: first whole packs, if every operand is aligned to them, and then the remaining
// elements, one by one.
template <typename Pass>
struct SumItems {
  Pass pass;
  int64_t size;
  int64_t num_packs;

  SumItems(const DenseAddArgs& args, int64_t size)
      : pass(Pass::Of(args)), size(size), num_packs(pass.IsAligned() ? size / Pass::kWidth : 0) {}

  int64_t num_items() const { return size - num_packs * (Pass::kWidth - 1); }

  CONDACC_HOST_DEVICE void operator()(int64_t item) const {
    if (item < num_packs) {
      pass.template Run<Pass::kWidth>(item);
    } else {
      pass.template Run<1>(num_packs * (Pass::kWidth - 1) + item);
    }
  }
};

}  // namespace condacc

#endif  // CONDACC_GPU_DENSE_PASS_H_
