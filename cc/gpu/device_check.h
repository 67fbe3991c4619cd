// Tells whether a device can run the launchers' kernels.
#ifndef CONDACC_GPU_DEVICE_CHECK_H_
#define CONDACC_GPU_DEVICE_CHECK_H_

#include "cc/core/base/status.h"

namespace condacc {

// Returns FailedPrecondition, with the remedy, if the current device or its driver cannot run the
// launchers' kernels.
Status CheckDevice();

// Returns the status of a device that refuses the kernels with `error`, a cudaError_t. Versions
// have CUDA's encoding: 12040 is 12.4. `driver_version` is the newest CUDA that the driver
// supports, and `runtime_version` the one that the kernels were built with.
Status UnusableDevice(int error, int driver_version, int runtime_version);

}  // namespace condacc

#endif  // CONDACC_GPU_DEVICE_CHECK_H_
