// What the machine can do at all: K gradients are summed and scaled into the first, in one pass.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace {

constexpr size_t kSpan = 4096;         // elements summed while they stay in the first cache
constexpr size_t kShare = size_t{1} << 16;  // elements a thread takes at a time

// Adds four sources to out in one loop, so that out is loaded and stored once for all of them.
void AddFour(float* __restrict__ out, const float* const* sources, size_t begin, size_t end) {
  const float* a = sources[0];
  const float* b = sources[1];
  const float* c = sources[2];
  const float* d = sources[3];
  for (size_t i = begin; i < end; ++i) out[i] += (a[i] + b[i]) + (c[i] + d[i]);
}

void AddOne(float* __restrict__ out, const float* source, size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) out[i] += source[i];
}

void SumRange(float* out, const float* const* others, int num_others, float scale, size_t begin,
              size_t end) {
  for (size_t at = begin; at < end; at += kSpan) {
    const size_t stop = std::min(end, at + kSpan);
    int k = 0;
    for (; k + 4 <= num_others; k += 4) AddFour(out, others + k, at, stop);
    for (; k < num_others; ++k) AddOne(out, others[k], at, stop);
    for (size_t i = at; i < stop; ++i) out[i] *= scale;
  }
}

}  // namespace

extern "C" void condacc_limit_pass(float* out, const float* const* others, int num_others,
                                   size_t size, float scale, int num_threads) {
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (;;) {
      const size_t begin = next.fetch_add(kShare);
      if (begin >= size) return;
      SumRange(out, others, num_others, scale, begin, std::min(size, begin + kShare));
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < num_threads; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
}
