#include "tests/gpu/emulated/runtime/thread.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>

namespace condacc {
namespace emulated {
namespace {

std::map<std::string, Kernel>& Kernels() {
  static auto* const kernels = new std::map<std::string, Kernel>;
  return *kernels;
}

}  // namespace

KernelRegistration::KernelRegistration(Kernel kernel) {
  const std::string name = kernel.name;
  Kernels()[name] = std::move(kernel);
}

const Kernel* FindKernel(const std::string& name) {
  const auto found = Kernels().find(name);
  return found == Kernels().end() ? nullptr : &found->second;
}

void Fail(const Thread* c, const char* what) {
  std::fprintf(stderr, "emulated GPU: %s, in block %u, thread %u of %.200s\n", what, c->ctaid[0],
               c->tid[0], c->kernel->name.c_str());
  std::abort();
}

}  // namespace emulated
}  // namespace condacc
