// The order in which a sum adds the gradients of its contributors.
#ifndef CONDACC_CORE_ACCUMULATOR_CONTRIBUTOR_ORDER_H_
#define CONDACC_CORE_ACCUMULATOR_CONTRIBUTOR_ORDER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "cc/core/base/invariant.h"

namespace condacc {

// Records which contributors of a round have brought a gradient, and the weight of each. A gradient
// is ready to be added once those of all lower contributors have come, and early before that. So a
// sum that adds what is ready, and at the end the early gradients in ascending order, adds in the
// order of the contributors, whatever the order of arrival. Not thread-safe.
class ContributorOrder {
 public:
  struct Arrival {
    int64_t contributor;
    double weight;
  };

  bool IsEarly(int64_t contributor) const { return contributor > next_; }
  // Returns whether the gradient of the contributor is ready, or was refused after later ones had
  // been added. In the second case, another one cannot be added in order any more.
  bool IsPassed(int64_t contributor) const { return contributor < next_; }
  // Number of gradients that are early.
  size_t num_early() const { return num_early_; }
  // The gradients that have come, in the order of their contributors. The early ones come last.
  const std::vector<Arrival>& arrivals() const { return arrivals_; }
  // Returns how many of the early gradients come before that of the contributor.
  size_t NumEarlyBefore(int64_t contributor) const {
    return static_cast<size_t>(Find(contributor) - arrivals_.cbegin()) -
           (arrivals_.size() - num_early_);
  }

  // Makes room for one more gradient. May throw std::bad_alloc.
  void Reserve() {
    if (arrivals_.size() == arrivals_.capacity()) arrivals_.reserve(2 * arrivals_.size() + 4);
  }
  // Adds a gradient for which there is room. Returns how many gradients are ready that were not: 0
  // if it is early, and otherwise this one and the early ones that directly follow it.
  size_t Add(int64_t contributor, double weight) noexcept {
    CONDACC_INVARIANT(!IsPassed(contributor) && arrivals_.size() < arrivals_.capacity());
    arrivals_.insert(Find(contributor), {contributor, weight});
    ++num_early_;
    return Advance();
  }
  // Adds the first `count` arrivals of a saved order, all of which were ready, to an empty order.
  // May throw std::bad_alloc.
  void AddFirst(const std::vector<Arrival>& saved, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      Reserve();
      Add(saved[i].contributor, saved[i].weight);
    }
  }
  // Removes a gradient that was not added. If `frees_place`, no later gradient has been added, and
  // the contributor may bring another one. Those that follow it are then early again.
  void Remove(int64_t contributor, bool frees_place) noexcept {
    const auto place = Find(contributor);
    CONDACC_INVARIANT(place != arrivals_.cend() && place->contributor == contributor);
    if (!IsPassed(contributor)) --num_early_;
    const auto after = arrivals_.erase(place);
    if (!frees_place || !IsPassed(contributor)) return;
    next_ = contributor;
    num_early_ = static_cast<size_t>(arrivals_.cend() - after);
  }
  // Returns the total weight of the gradients, added in the order of the contributors.
  double TotalWeight() const {
    double total = 0;
    for (const Arrival& arrival : arrivals_) total += arrival.weight;
    return total;
  }
  void Clear() noexcept {
    arrivals_.clear();
    next_ = 0;
    num_early_ = 0;
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
  // Moves on to the lowest contributor that is still missing. Returns by how many.
  size_t Advance() noexcept {
    const int64_t first = next_;
    while (num_early_ > 0 && arrivals_[arrivals_.size() - num_early_].contributor == next_) {
      ++next_;
      --num_early_;
    }
    return static_cast<size_t>(next_ - first);
  }

  Arrivals arrivals_;
  int64_t next_ = 0;      // The lowest contributor whose gradient is neither ready nor passed.
  size_t num_early_ = 0;  // Number of the early ones.
};

}  // namespace condacc

#endif  // CONDACC_CORE_ACCUMULATOR_CONTRIBUTOR_ORDER_H_
