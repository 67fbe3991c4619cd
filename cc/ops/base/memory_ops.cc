// The op that outputs how much memory gradients and sums take.
#include "cc/ops/base/shape_functions.h"
#include "tensorflow/core/framework/op.h"

namespace condacc {
namespace {

REGISTER_OP("Condacc>HeldBytes")
    .Output("held: int64")
    .Output("peak: int64")
    .Output("pooled: int64")
    .SetIsStateful()
    .SetShapeFn(ScalarsShape)
    .Doc(R"(
Outputs how much memory this package holds in the process, for tests and diagnosis.

held: [] Bytes of gradients, of sums, and of large results until their last reader frees them. A
  tensor counts once for each reference to it.
peak: [] The most bytes that were held since this op ran last.
pooled: [] Bytes of free pages that are kept for the next large results.
)");

}  // namespace
}  // namespace condacc
