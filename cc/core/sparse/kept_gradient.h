// Moves gradients to memory that may be kept.
#ifndef CONDACC_CORE_SPARSE_KEPT_GRADIENT_H_
#define CONDACC_CORE_SPARSE_KEPT_GRADIENT_H_

#include "cc/core/accumulator/gradient.h"
#include "cc/core/accumulator/workspace.h"
#include "cc/core/base/buffer.h"
#include "cc/core/base/element_type.h"
#include "cc/core/base/shape.h"
#include "cc/core/base/status.h"

namespace condacc {

// Moves the gradient's indices to memory that may be kept, as int64, and sets their bound. For
// `expected`, see IndexBound(). Returns InvalidArgument if there are 2**num_bits or more.
Status KeepIndices(const Shape& expected, int num_bits, Workspace& workspace, Gradient* gradient);

// Moves the gradient's values to memory that may be kept. If they have to be copied, they are
// copied to `memory`, or to a new buffer if that is empty.
Status KeepValues(ElementType type, Workspace& workspace, Buffer memory, Gradient* gradient);

}  // namespace condacc

#endif  // CONDACC_CORE_SPARSE_KEPT_GRADIENT_H_
