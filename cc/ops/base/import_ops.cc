// The op whose name tells the user of a process that has not imported this package to do so.
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"

namespace condacc {
namespace {

REGISTER_OP("Condacc>Import_tf_condacc_first")
    .SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc(R"(
Does nothing. It stands before the other ops of this package in every function that has any, so a
process that has not imported the package and loads the function reports this op type as not
registered. Its name is the remedy.
)");

}  // namespace
}  // namespace condacc
