// The gradients of a round that came before those of lower contributors.
#ifndef CONDACC_CORE_ACCUMULATOR_EARLY_GRADIENTS_H_
#define CONDACC_CORE_ACCUMULATOR_EARLY_GRADIENTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "cc/core/accumulator/gradient.h"
#include "cc/core/accumulator/sum_options.h"
#include "cc/core/base/shape.h"

namespace condacc {

// If SumOptions says so, a sum gets its gradients in the order of their contributors, whatever the
// order of arrival: each once those of all lower contributors have come. Until then, it is here.
// Not thread-safe.
class EarlyGradients {
 public:
  // Keeps a reference to the options.
  explicit EarlyGradients(const SumOptions& options) : options_(options) {}
  ~EarlyGradients() { Clear(); }
  EarlyGradients(const EarlyGradients&) = delete;
  EarlyGradients& operator=(const EarlyGradients&) = delete;

  bool empty() const { return gradients_.empty(); }
  size_t size() const { return gradients_.size(); }
  // The gradients by their contributors.
  const std::map<int64_t, Gradient>& gradients() const { return gradients_; }
  // Returns a gradient to whose shape others must fit, or null if there is none.
  const Shape* first_shape() const { return empty() ? nullptr : &gradients_.begin()->second.shape; }
  // Returns whether the gradient of this contributor is the first one.
  bool BeginWith(int64_t contributor) const {
    return !empty() && gradients_.begin()->first == contributor;
  }
  // Returns the gradients in the order in which they are added. May throw std::bad_alloc.
  std::vector<Gradient*> InOrder() {
    std::vector<Gradient*> gradients;
    gradients.reserve(size());
    for (auto& [contributor, gradient] : gradients_) gradients.push_back(&gradient);
    return gradients;
  }

  // Adds a gradient of a contributor who has none here. Its values and indices must be in memory
  // that may be kept. Returns it. If it throws std::bad_alloc, nothing has changed.
  Gradient* Add(Gradient&& gradient) {
    const int64_t contributor = *gradient.contributor;
    Gradient& added = gradients_.emplace(contributor, std::move(gradient)).first->second;
    options_.budget->Add(BytesOf(added));
    return &added;
  }
  // Returns the gradient of the lowest contributor.
  Gradient* first() { return &gradients_.begin()->second; }
  // Removes it. Its buffers may have been moved away.
  void RemoveFirst() noexcept {
    options_.budget->Add(-BytesOf(*first()));
    gradients_.erase(gradients_.begin());
  }
  void Clear() noexcept {
    for (const auto& [contributor, gradient] : gradients_) {
      options_.budget->Add(-BytesOf(gradient));
    }
    gradients_.clear();
  }

 private:
  size_t BytesOf(const Gradient& gradient) const {
    return sizeof(Gradient) + NumBytes(options_.type, gradient.shape) +
           gradient.index_span.size * sizeof(int64_t);
  }

  const SumOptions& options_;
  std::map<int64_t, Gradient> gradients_;
};

}  // namespace condacc

#endif  // CONDACC_CORE_ACCUMULATOR_EARLY_GRADIENTS_H_
