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
  // A contributor that has brought a gradient.
  struct Arrival {
    int64_t contributor;
    double weight;
  };

  explicit GradientOrder(const SumOptions& options)
      : is_of_contributors_(options.in_order_of_contributors()) {}

  bool IsEarly(const Gradient& gradient) const {
    return is_of_contributors_ && *gradient.contributor > next_;
  }
  // Returns whether the contributor's gradient is ready, or was refused after later ones had been
  // added. In the second case, another one cannot be added in order any more.
  bool IsPassed(const Gradient& gradient) const {
    return is_of_contributors_ && *gradient.contributor < next_;
  }
  size_t size() const { return size_; }
  // Number of gradients that are early.
  size_t num_early() const { return num_early_; }
  // The contributors in ascending order, those of the early gradients last.
  const std::vector<Arrival>& arrivals() const { return arrivals_; }
  // Returns how many of the early gradients are added before this one.
  size_t NumEarlyBefore(const Gradient& gradient) const {
    if (!is_of_contributors_) return 0;
    return static_cast<size_t>(Find(*gradient.contributor) - arrivals_.cbegin()) -
           (arrivals_.size() - num_early_);
  }

  // Makes room for one more gradient. May throw std::bad_alloc.
  void Reserve() {
    if (is_of_contributors_ && arrivals_.size() == arrivals_.capacity()) {
      arrivals_.reserve(2 * arrivals_.size() + 4);
    }
  }
  // Adds a gradient for which there is room. Returns how many gradients are ready that were not: 0
  // if it is early, and otherwise this one and the early ones that directly follow it.
  size_t Add(const Gradient& gradient) noexcept {
    CONDACC_INVARIANT(!IsPassed(gradient));
    if (is_of_contributors_) return Add(Arrival{*gradient.contributor, gradient.weight});
    ++size_;
    weight_of_arrived_ += gradient.weight;
    return 1;
  }
  // Adds the first `count` gradients of a saved sum, all of which were ready, to an empty order.
  // `total_weight` is that of all gradients. May throw std::bad_alloc.
  void AddFirst(size_t count, const std::vector<Arrival>& arrivals, double total_weight) {
    if (!is_of_contributors_) {
      size_ = count;
      weight_of_arrived_ = total_weight;
      return;
    }
    arrivals_.reserve(count);
    for (size_t i = 0; i < count; ++i) Add(arrivals[i]);
  }
  // Removes a gradient that was refused. If `frees_place`, no later gradient has been added, and
  // the contributor may bring another one. Those that follow it are then early again.
  void Remove(const Gradient& gradient, bool frees_place) noexcept {
    --size_;
    if (!is_of_contributors_) {
      // Subtraction leaves a rounding error.
      weight_of_arrived_ = size_ == 0 ? 0 : weight_of_arrived_ - gradient.weight;
      return;
    }
    const auto place = Find(*gradient.contributor);
    CONDACC_INVARIANT(place != arrivals_.cend() && place->contributor == *gradient.contributor);
    const bool is_passed = IsPassed(gradient);
    if (!is_passed) --num_early_;
    const auto after = arrivals_.erase(place);
    if (!frees_place || !is_passed) return;
    next_ = *gradient.contributor;
    num_early_ = static_cast<size_t>(arrivals_.cend() - after);
  }
  // Returns the total weight of the gradients, added in their order.
  double TotalWeight() const {
    double total = weight_of_arrived_;
    for (const Arrival& arrival : arrivals_) total += arrival.weight;
    return total;
  }
  void Clear() noexcept {
    size_ = num_early_ = 0;
    weight_of_arrived_ = 0;
    arrivals_.clear();
    next_ = 0;
  }

 private:
  using Arrivals = std::vector<Arrival>;

  // Returns where the gradient of the contributor is, or belongs.
  Arrivals::const_iterator Find(int64_t contributor) const {
    // Most gradients come in order.
    if (arrivals_.empty() || arrivals_.back().contributor < contributor) return arrivals_.cend();
    return std::lower_bound(
        arrivals_.cbegin(), arrivals_.cend(), contributor,
        [](const Arrival& arrival, int64_t wanted) { return arrival.contributor < wanted; });
  }
  size_t Add(Arrival arrival) noexcept {
    CONDACC_INVARIANT(arrivals_.size() < arrivals_.capacity());
    arrivals_.insert(Find(arrival.contributor), arrival);
    ++size_;
    ++num_early_;
    const int64_t first = next_;
    for (; num_early_ > 0 && arrivals_[size_ - num_early_].contributor == next_; --num_early_) {
      ++next_;
    }
    return static_cast<size_t>(next_ - first);
  }

  const bool is_of_contributors_;
  size_t size_ = 0;
  double weight_of_arrived_ = 0;  // The total weight, if gradients are added as they arrive.
  Arrivals arrivals_;             // Empty in this case.
  int64_t next_ = 0;  // The lowest contributor whose gradient is neither ready nor passed.
  size_t num_early_ = 0;
};

}  // namespace condacc

#endif  // CONDACC_CORE_ACCUMULATOR_GRADIENT_ORDER_H_
