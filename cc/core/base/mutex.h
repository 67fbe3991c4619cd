// A mutex and a condition variable with clang's thread-safety annotations.
//
// They wrap std::mutex and a POSIX condition variable, so that ThreadSanitizer sees every lock.
// std::condition_variable would wait on the steady clock only with glibc 2.30 or newer.
//
// A thread holds two locks at once only in these orders:
// - the lock of an accumulator or of a gate, then that of the page pool, then that of the timers;
// - the lock of a HandleOp, then that of TensorFlow's resource manager.
// Completions, timers and reports run without any lock.
#ifndef CONDACC_CORE_BASE_MUTEX_H_
#define CONDACC_CORE_BASE_MUTEX_H_

#include <pthread.h>

#include <chrono>
#include <ctime>
#include <mutex>

#if defined(__clang__)
#define CONDACC_ANNOTATE(x) __attribute__((x))
#else
#define CONDACC_ANNOTATE(x)
#endif

#define CONDACC_CAPABILITY(name) CONDACC_ANNOTATE(capability(name))
#define CONDACC_SCOPED_CAPABILITY CONDACC_ANNOTATE(scoped_lockable)
#define CONDACC_GUARDED_BY(mutex) CONDACC_ANNOTATE(guarded_by(mutex))
#define CONDACC_REQUIRES(mutex) CONDACC_ANNOTATE(requires_capability(mutex))
// Like CONDACC_REQUIRES, for a function that releases the mutex and acquires it again. What the
// mutex guards may have changed after the call.
#define CONDACC_REACQUIRES(mutex) CONDACC_REQUIRES(mutex)
#define CONDACC_EXCLUDES(mutex) CONDACC_ANNOTATE(locks_excluded(mutex))
#define CONDACC_ACQUIRE(...) CONDACC_ANNOTATE(acquire_capability(__VA_ARGS__))
#define CONDACC_RELEASE(...) CONDACC_ANNOTATE(release_capability(__VA_ARGS__))

namespace condacc {

class CONDACC_CAPABILITY("mutex") Mutex {
 public:
  void Lock() CONDACC_ACQUIRE() { mutex_.lock(); }
  void Unlock() CONDACC_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class CONDACC_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) CONDACC_ACQUIRE(mutex) : mutex_(*mutex) { mutex_.Lock(); }
  ~MutexLock() CONDACC_RELEASE() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Releases the mutex, which the caller holds, and reacquires it at the end of the scope.
class CONDACC_SCOPED_CAPABILITY MutexUnlock {
 public:
  explicit MutexUnlock(Mutex* mutex) CONDACC_RELEASE(mutex) : mutex_(*mutex) { mutex_.Unlock(); }
  ~MutexUnlock() CONDACC_RELEASE() { mutex_.Lock(); }
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;

 private:
  Mutex& mutex_;
};

class CondVar {
 public:
  CondVar() {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    // The clock of std::chrono::steady_clock, which does not jump when the system time is set.
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&changed_, &attributes);
    pthread_condattr_destroy(&attributes);
  }
  ~CondVar() { pthread_cond_destroy(&changed_); }
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  // Waits for NotifyAll(). May also return without a notification, so callers check their condition
  // in a loop.
  void Wait(Mutex* mutex) CONDACC_REACQUIRES(mutex) {
    pthread_cond_wait(&changed_, mutex->mutex_.native_handle());
  }
  // Like Wait(), but waits at most until `deadline`.
  void WaitUntil(Mutex* mutex, std::chrono::steady_clock::time_point deadline)
      CONDACC_REACQUIRES(mutex) {
    const auto since_epoch = deadline.time_since_epoch();
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since_epoch);
    timespec until{};
    until.tv_sec = seconds.count();
    until.tv_nsec = std::chrono::nanoseconds(since_epoch - seconds).count();
    pthread_cond_timedwait(&changed_, mutex->mutex_.native_handle(), &until);
  }
  void NotifyAll() { pthread_cond_broadcast(&changed_); }

 private:
  pthread_cond_t changed_;
};

}  // namespace condacc

#endif  // CONDACC_CORE_BASE_MUTEX_H_
