// The order in which a sum adds its gradients, and their total weight.
#ifndef CONDACC_CORE_ACCUMULATOR_GRADIENT_ORDER_H_
#define CONDACC_CORE_ACCUMULATOR_GRADIENT_ORDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cc/core/accumulator/gradient.h"
#include "cc/core/accumulator/sum_options.h"
#include "cc/core/base/invariant.h"

namespace condacc {

// Counts the gradients of a sum, and says in which order they are added: that of their arrival or,
// if SumOptions says so, that of their contributors. Then a gradient is ready to be added once
// those of all lower contributors have come, and early before that. So a sum that adds what is
// ready, and at the end the early gradients in ascending order, adds in the order of the
// contributors, whatever the order of arrival. Without contributors, each gradient is ready at
// once. Not thread-safe.
class GradientOrder {
 public:
  struct Arrival {
    int64_t contributor;
    double weight;
  };

  explicit GradientOrder(const SumOptions& options)
      : is_of_contributors_(options.in_order_of_contributors()) {}

  bool IsEarly(const Gradient& gradient) const {
    return is_of_contributors_ && *gradient.contributor > next_;
  }
  size_t size() const { return size_; }
  // Number of gradients that are early.
  size_t num_early() const { return num_early_; }
  // The gradients of contributors in the order in which they are added, the early ones last.
  const std::vector<Arrival>& arrivals() const { return arrivals_; }
  // Returns how many of the early gradients are added before this one.
  size_t NumEarlyBefore(const Gradient& gradient) const {
    if (num_early_ == 0) return 0;
    return static_cast<size_t>(Find(*gradient.contributor) - arrivals_.cbegin()) -
           (arrivals_.size() - num_early_);
  }

  // Makes room for one more gradient. May throw std::bad_alloc.
  void Reserve() {
    if (!is_of_contributors_ && !arrivals_.empty()) return;
    if (arrivals_.size() == arrivals_.capacity()) arrivals_.reserve(2 * arrivals_.size() + 4);
  }
  // Adds a gradient for which there is room. Returns how many gradients are ready that were not: 0
  // if it is early, and otherwise this one and the early ones that directly follow it.
  size_t Add(const Gradient& gradient) noexcept {
    return Add(Arrival{is_of_contributors_ ? *gradient.contributor : 0, gradient.weight});
  }
  // Adds the first `count` gradients of a saved sum, all of which were ready, to an empty order.
  // `total_weight` is that of all gradients. May throw std::bad_alloc.
  void AddFirst(size_t count, const std::vector<Arrival>& arrivals, double total_weight) {
    if (is_of_contributors_) {
      arrivals_.reserve(count);
      for (size_t i = 0; i < count; ++i) Add(arrivals[i]);
    } else {
      Reserve();
      Add(Arrival{0, total_weight});  // A sum is saved without the weight of each gradient.
      size_ = count;
    }
  }
  // Returns the total weight of the gradients, added in their order.
  double TotalWeight() const {
    double total = 0;
    for (const Arrival& arrival : arrivals_) total += arrival.weight;
    return total;
  }
  void Clear() noexcept {
    arrivals_.clear();
    size_ = num_early_ = 0;
    next_ = 0;
  }

 private:
  using Arrivals = std::vector<Arrival>;

  // Returns where a gradient is, or belongs.
  Arrivals::const_iterator Find(int64_t key) const {
    return std::lower_bound(
        arrivals_.cbegin(), arrivals_.cend(), key,
        [](const Arrival& arrival, int64_t wanted) { return arrival.contributor < wanted; });
  }
  size_t Add(Arrival arrival) noexcept {
    ++size_;
    if (!is_of_contributors_ && !arrivals_.empty()) {
      arrivals_.back().weight += arrival.weight;
      return 1;
    }
    CONDACC_INVARIANT(arrivals_.size() < arrivals_.capacity());
    if (!is_of_contributors_) {
      arrivals_.push_back(arrival);
      return 1;
    }
    arrivals_.insert(Find(arrival.contributor), arrival);
    ++num_early_;
    const int64_t first = next_;
    for (; num_early_ > 0 && arrivals_[size_ - num_early_].contributor == next_; --num_early_) {
      ++next_;
    }
    return static_cast<size_t>(next_ - first);
  }

  const bool is_of_contributors_;
  Arrivals arrivals_;     // Without contributors, this has one element for all gradients.
  size_t size_ = 0;       // Number of gradients.
  int64_t next_ = 0;      // The lowest contributor whose gradient is not ready.
  size_t num_early_ = 0;  // The last ones of `arrivals_`.
};

}  // namespace condacc

#endif  // CONDACC_CORE_ACCUMULATOR_GRADIENT_ORDER_H_
