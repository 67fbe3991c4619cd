// A workspace whose sums wait for the test.
#ifndef CONDACC_TESTS_DENSE_STOPPING_WORKSPACE_H_
#define CONDACC_TESTS_DENSE_STOPPING_WORKSPACE_H_

#include "tests/cc/base/stop_point.h"
#include "tests/cc/dense/test_buffer.h"

namespace condacc {

// A workspace that stops at a stop before each sum.
class StoppingWorkspace : public TestWorkspace {
 public:
  explicit StoppingWorkspace(StopPoint* stop) : stop_(stop) {}

  void Add(const DenseAddArgs& args) override {
    stop_->Pass();
    TestWorkspace::Add(args);
  }

 private:
  StopPoint* const stop_;
};

}  // namespace condacc

#endif  // CONDACC_TESTS_DENSE_STOPPING_WORKSPACE_H_
