// A workspace whose sums wait for the test.
#ifndef CONDACC_TESTS_DENSE_GATED_WORKSPACE_H_
#define CONDACC_TESTS_DENSE_GATED_WORKSPACE_H_

#include "tests/cc/base/gate.h"
#include "tests/cc/dense/test_block.h"

namespace condacc {

// A workspace that stops at a gate before each sum.
class GatedWorkspace : public TestWorkspace {
 public:
  explicit GatedWorkspace(Gate* gate) : gate_(gate) {}

  void Sum(const DenseSumArgs& args) override {
    gate_->Pass();
    TestWorkspace::Sum(args);
  }

 private:
  Gate* const gate_;
};

}  // namespace condacc

#endif  // CONDACC_TESTS_DENSE_GATED_WORKSPACE_H_
