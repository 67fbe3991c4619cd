// What the machine can do at all: K gradients are summed and scaled into the first, in one pass.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace {

constexpr int kMostAtOnce = 8;              // more open streams than this do not pay
constexpr size_t kSpan = 4096;              // elements summed while they stay in the first cache
constexpr size_t kShare = size_t{1} << 16;  // elements a thread takes at a time

// out = (out + sum of K sources) * scale
template <int K>
void AddScaled(float* out, const float* const* sources, float scale, size_t begin, size_t end) {
  const float* source[K];
  std::copy(sources, sources + K, source);
#pragma GCC ivdep
  for (size_t i = begin; i < end; ++i) {
    float sum = source[0][i];
    for (int k = 1; k < K; ++k) sum += source[k][i];
    out[i] = (out[i] + sum) * scale;
  }
}

using AddFunction = void (*)(float*, const float* const*, float, size_t, size_t);
constexpr AddFunction kAdd[] = {nullptr,      AddScaled<1>, AddScaled<2>,
                                AddScaled<3>, AddScaled<4>, AddScaled<5>,
                                AddScaled<6>, AddScaled<7>, AddScaled<8>};

void SumRange(float* out, const float* const* others, int num_others, float scale, size_t begin,
              size_t end) {
  for (size_t at = begin; at < end; at += kSpan) {
    const size_t stop = std::min(end, at + kSpan);
    for (int done = 0; done < num_others;) {
      const int k = std::min(kMostAtOnce, num_others - done);
      const bool last = done + k == num_others;
      kAdd[k](out, others + done, last ? scale : 1.0f, at, stop);
      done += k;
    }
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
