// A thread of a kernel, and the kernels that are known.
#ifndef CONDACC_TESTS_GPU_EMULATED_RUNTIME_THREAD_H_
#define CONDACC_TESTS_GPU_EMULATED_RUNTIME_THREAD_H_

#include <cstdint>
#include <string>
#include <vector>

namespace condacc {
namespace emulated {

class Block;
struct Thread;

struct ParameterPlace {
  uint32_t size;
  uint32_t offset;
};

// A translated kernel.
struct Kernel {
  std::string name;  // The mangled name, by which nvcc's host code asks for it.
  void (*run)(Thread*);
  uint32_t shared_bytes;
  bool synchronizes;  // If false, threads are run one after the other, without a stack each.
  std::vector<ParameterPlace> parameters;
};

struct KernelRegistration {
  explicit KernelRegistration(Kernel kernel);
};

// Returns null if no kernel is so named.
const Kernel* FindKernel(const std::string& name);

// The registers and memory of one thread of a kernel. Translated code calls it `c`.
struct Thread {
  uint32_t tid[3];
  uint32_t ntid[3];
  uint32_t ctaid[3];
  uint32_t nctaid[3];
  uint32_t lane;
  uint32_t warp;
  uint8_t* shared;
  const uint8_t* parameters;
  uint32_t num_parameter_bytes;
  const Kernel* kernel;
  uint32_t number;  // The number of the thread in the grid.
  Block* block;     // Null if the kernel does not synchronize.
};

// Ends the process with a message that names the kernel and the thread.
[[noreturn]] void Fail(const Thread* c, const char* what);

}  // namespace emulated
}  // namespace condacc

#endif  // CONDACC_TESTS_GPU_EMULATED_RUNTIME_THREAD_H_
