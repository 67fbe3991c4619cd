// Functions that give the core threads: none, or three.
#ifndef CONDACC_TESTS_BASE_PARALLEL_FOR_SUPPORT_H_
#define CONDACC_TESTS_BASE_PARALLEL_FOR_SUPPORT_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "cc/core/base/parallel_for.h"

namespace condacc {

inline void SerialFor(size_t total, size_t chunk, LoopBody body) {
  for (size_t begin = 0; begin < total; begin += chunk) {
    body(begin, std::min(total, begin + chunk));
  }
}

inline void ThreadedFor(size_t total, size_t chunk, LoopBody body) {
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (size_t begin; (begin = next.fetch_add(chunk)) < total;) {
        body(begin, std::min(total, begin + chunk));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace condacc

#endif  // CONDACC_TESTS_BASE_PARALLEL_FOR_SUPPORT_H_
