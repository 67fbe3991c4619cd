"""Stand-ins for functions of the C library, for the processes of isolated tests."""

from __future__ import annotations

from pathlib import Path

from tests.processes.preloaded import needs_preloaded, preloaded

_SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static long num_trims = 0;

long count_trims(void) { return __atomic_load_n(&num_trims, __ATOMIC_SEQ_CST); }

// The addresses of the plugin.
static uintptr_t plugin_begin = UINTPTR_MAX, plugin_end = 0;

static int find_plugin(struct dl_phdr_info* info, size_t size, void* data) {
  (void)size, (void)data;
  if (!info->dlpi_name || !strstr(info->dlpi_name, "_condacc_ops")) return 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_LOAD) continue;
    uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
    uintptr_t end = begin + info->dlpi_phdr[i].p_memsz;
    if (begin < plugin_begin) plugin_begin = begin;
    if (end > plugin_end) plugin_end = end;
  }
  return 1;
}

// The requests of this thread for memory, mappings and threads during which the plugin is on its
// stack.
static __thread long num_requests = 0;
// Requests with these numbers, counted from 1, are refused.
static __thread long first_refused = 0, end_refused = 0;
static __thread int is_counting = 0;

// Begins to count the requests of this thread anew, and refuses `count` of them from this one on.
void refuse_requests(long first, long count) {
  void* frame;
  if (plugin_end == 0) dl_iterate_phdr(find_plugin, 0);
  backtrace(&frame, 1);  // The first call asks for memory.
  num_requests = 0;
  first_refused = first;
  end_refused = first + count;
  is_counting = 1;
}

// Ends the counting, and returns the number of requests.
long end_counting(void) {
  is_counting = 0;
  return num_requests;
}

static int is_refused_request(void) {
  enum { kMaxFrames = 48 };
  void* frames[kMaxFrames];
  if (!is_counting) return 0;
  is_counting = 0;
  int num_frames = backtrace(frames, kMaxFrames), is_of_plugin = 0;
  for (int i = 0; i < num_frames; ++i) {
    is_of_plugin |= (uintptr_t)frames[i] >= plugin_begin && (uintptr_t)frames[i] < plugin_end;
  }
  is_counting = 1;
  if (!is_of_plugin) return 0;
  ++num_requests;
  return num_requests >= first_refused && num_requests < end_refused;
}

// operator new(size_t)
void* _Znwm(size_t size) {
  void* memory = is_refused_request() ? 0 : malloc(size ? size : 1);
  if (memory) return memory;
  is_counting = 0;
  void* library = dlopen("libstdc++.so.6", RTLD_NOLOAD | RTLD_LAZY);
  ((void (*)(void))dlsym(library, "_ZSt17__throw_bad_allocv"))();
  return 0;
}

// operator new(size_t, const std::nothrow_t&)
void* _ZnwmRKSt9nothrow_t(size_t size, const void* nothrow) {
  (void)nothrow;
  return is_refused_request() ? 0 : malloc(size ? size : 1);
}

int posix_memalign(void** memory, size_t alignment, size_t size) {
  static int (*next)(void**, size_t, size_t) = 0;
  if (!next) next = (int (*)(void**, size_t, size_t))dlsym(RTLD_NEXT, "posix_memalign");
  return is_refused_request() ? ENOMEM : next(memory, alignment, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  static void* (*next)(size_t, size_t) = 0;
  if (!next) next = (void* (*)(size_t, size_t))dlsym(RTLD_NEXT, "aligned_alloc");
  return is_refused_request() ? 0 : next(alignment, size);
}

void* mmap(void* at, size_t size, int protection, int flags, int file, off_t offset) {
  static void* (*next)(void*, size_t, int, int, int, off_t) = 0;
  if (!next) next = (void* (*)(void*, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap");
  if (!is_refused_request()) return next(at, size, protection, flags, file, offset);
  errno = ENOMEM;
  return MAP_FAILED;
}

void* mremap(void* from, size_t old_size, size_t new_size, int flags, ...) {
  static void* (*next)(void*, size_t, size_t, int, ...) = 0;
  if (!next) next = (void* (*)(void*, size_t, size_t, int, ...))dlsym(RTLD_NEXT, "mremap");
  va_list arguments;
  va_start(arguments, flags);
  void* const to = flags & MREMAP_FIXED ? va_arg(arguments, void*) : 0;
  va_end(arguments);
  if (!is_refused_request()) return next(from, old_size, new_size, flags, to);
  errno = ENOMEM;
  return MAP_FAILED;
}

int pthread_create(pthread_t* thread, const pthread_attr_t* options, void* (*run)(void*),
                   void* argument) {
  static int (*next)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*) = 0;
  if (!next) {
    next = (int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*))dlsym(
        RTLD_NEXT, "pthread_create");
  }
  return is_refused_request() ? EAGAIN : next(thread, options, run, argument);
}

// operator new(size_t, std::align_val_t, const std::nothrow_t&), from which TensorFlow 2.22 takes
// its memory. That of libstdc++ rounds the size up before it calls the function above. Its operator
// delete calls free().
void* _ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const void* nothrow) {
  void* memory = 0;
  (void)nothrow;
  if (alignment < sizeof(void*)) alignment = sizeof(void*);  // posix_memalign() expects this.
  return posix_memalign(&memory, alignment, size) == 0 ? memory : 0;
}

// Says that it has begun, and does not return before it may.
int malloc_trim(size_t pad) {
  (void)pad;
  __atomic_add_fetch(&num_trims, 1, __ATOMIC_SEQ_CST);
  const char* begun = getenv("CONDACC_TRIM_BEGUN");
  const char* may_end = getenv("CONDACC_TRIM_MAY_END");
  if (!begun || !may_end) return 0;
  close(open(begun, O_WRONLY));
  close(open(may_end, O_RDONLY));
  return 1;
}
"""


needs_stand_ins = needs_preloaded  # Marks tests that call the stand-ins.


def stand_ins(folder: Path, **variables: str) -> dict[str, str]:
    """Returns the environment that loads the stand-ins, if there is a compiler."""
    return preloaded(folder, _SOURCE, **variables)


def stand_ins_without_holding(folder: Path) -> dict[str, str]:
    """Returns the environment that loads the stand-ins, in which no gradient is held."""
    return stand_ins(folder, TF_CONDACC_HOLD_BYTES="0")
