// Kernels with one bug each, which the emulated GPU must notice.
#ifndef CONDACC_TESTS_GPU_EMULATED_CONTROLS_PLANTED_BUGS_H_
#define CONDACC_TESTS_GPU_EMULATED_CONTROLS_PLANTED_BUGS_H_

namespace condacc {
namespace emulated {

enum class Bug {
  kNone,
  kReadsBeyondTheEnd,
  kWritesBeyondTheEnd,
  kIsMisaligned,
  kReadsWhatIsNotWritten,
  kWritesWhereOthersDo,
  kReadsWhatOthersWrite,
  kReadsHostMemory,
  kMissesABarrier,
  kWaitsForTooMany,
};

// Runs a kernel of 64 threads, each of which writes its number doubled, and returns whether memory
// then holds what it should.
bool DoublesRightly(Bug bug);

}  // namespace emulated
}  // namespace condacc

#endif  // CONDACC_TESTS_GPU_EMULATED_CONTROLS_PLANTED_BUGS_H_
