// Gradients of contributors for tests.
#ifndef CONDACC_TESTS_ACCUMULATOR_BY_CONTRIBUTOR_H_
#define CONDACC_TESTS_ACCUMULATOR_BY_CONTRIBUTOR_H_

#include <cstdint>
#include <optional>

#include "cc/core/accumulator/gradient.h"

namespace condacc {

// Returns the gradient as one of the contributor, if there is one.
inline Gradient By(std::optional<int64_t> contributor, Gradient gradient) {
  gradient.contributor = contributor;
  return gradient;
}

}  // namespace condacc

#endif  // CONDACC_TESTS_ACCUMULATOR_BY_CONTRIBUTOR_H_
