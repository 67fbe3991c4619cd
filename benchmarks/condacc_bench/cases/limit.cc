// What the machine can do at all. Dense: K gradients are summed and scaled into the first, in one
// pass. Sparse: all gradients are read once, and a result is written once, past the caches.

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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

// Calls work(begin, end) for shares of [0, size) in several threads.
template <typename Work>
void InThreads(size_t size, size_t share, int num_threads, Work work) {
  std::atomic<size_t> next{0};
  auto run = [&] {
    for (;;) {
      const size_t begin = next.fetch_add(share);
      if (begin >= size) return;
      work(begin, std::min(size, begin + share));
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < num_threads; ++i) threads.emplace_back(run);
  run();
  for (std::thread& thread : threads) thread.join();
}

float SumOf(const float* begin, const float* end) {
  float sums[32] = {};
  for (; begin + 32 <= end; begin += 32) {
    for (int k = 0; k < 32; ++k) sums[k] += begin[k];
  }
  float sum = 0;
  for (float each : sums) sum += each;
  return sum;
}

}  // namespace

extern "C" void condacc_limit_pass(float* out, const float* const* others, int num_others,
                                   size_t size, float scale, int num_threads) {
  InThreads(size, kShare, num_threads, [&](size_t begin, size_t end) {
    SumRange(out, others, num_others, scale, begin, end);
  });
}

// `out` must be aligned to 16 bytes, and its size be a multiple of four.
extern "C" void condacc_limit_sparse(float* out, size_t out_size, const float* const* gradients,
                                     int num_gradients, size_t size, int num_threads) {
  constexpr size_t kNumShares = 64;
  InThreads(kNumShares, 1, num_threads, [&](size_t share, size_t) {
    const auto part = [share](size_t total, size_t next) {
      return total / 4 * (share + next) / kNumShares * 4;
    };
    float sum = 0;
    for (int i = 0; i < num_gradients; ++i) {
      sum += SumOf(gradients[i] + part(size, 0), gradients[i] + part(size, 1));
    }
#if defined(__x86_64__)
    const __m128 value = _mm_set1_ps(sum);
    for (size_t at = part(out_size, 0); at < part(out_size, 1); at += 4) {
      _mm_stream_ps(out + at, value);
    }
#else  // There is no portable way to write past the caches.
    std::fill(out + part(out_size, 0), out + part(out_size, 1), sum);
#endif
  });
}
