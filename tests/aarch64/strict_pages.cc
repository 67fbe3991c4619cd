// Does what a system with larger pages does: it refuses to change a mapping within a page, and
// tells of each page whether it is resident. The emulator tells programs the size of its pages, but
// leaves the rest to the machine that it runs on, whose pages have 4 KiB. Linked with `--wrap` for
// each of these functions.
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

namespace {

constexpr size_t kHostPageBytes = 4096;

size_t PageBytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

bool BeginsPage(const void* address) {
  return reinterpret_cast<uintptr_t>(address) % PageBytes() == 0;
}

// Fails as the system does, and says so, because some callers ignore this.
template <typename Result>
Result Refuse(const char* function, Result result) {
  std::fprintf(stderr, "%s() was called for a part of a page\n", function);
  errno = EINVAL;
  return result;
}

}  // namespace

extern "C" {

void* __real_mmap(void* address, size_t length, int protection, int flags, int file, off_t offset);
int __real_munmap(void* address, size_t length);
int __real_madvise(void* address, size_t length, int advice);
int __real_mincore(void* address, size_t length, unsigned char* pages);
void* __real_mremap(void* address, size_t old_length, size_t length, int flags, void* to);

void* __wrap_mmap(void* address, size_t length, int protection, int flags, int file, off_t offset) {
  if ((flags & MAP_FIXED) != 0 && !BeginsPage(address)) return Refuse("mmap", MAP_FAILED);
  return __real_mmap(address, length, protection, flags, file, offset);
}

int __wrap_munmap(void* address, size_t length) {
  return BeginsPage(address) ? __real_munmap(address, length) : Refuse("munmap", -1);
}

int __wrap_madvise(void* address, size_t length, int advice) {
  return BeginsPage(address) ? __real_madvise(address, length, advice) : Refuse("madvise", -1);
}

int __wrap_mincore(void* address, size_t length, unsigned char* pages) {
  if (!BeginsPage(address)) return Refuse("mincore", -1);
  std::vector<unsigned char> host_pages((length + kHostPageBytes - 1) / kHostPageBytes);
  const int result = __real_mincore(address, length, host_pages.data());
  const size_t ratio = PageBytes() / kHostPageBytes;
  for (size_t i = 0; result == 0 && i < host_pages.size(); i += ratio) {
    pages[i / ratio] = host_pages[i];
  }
  return result;
}

void* __wrap_mremap(void* address, size_t old_length, size_t length, int flags, void* to) {
  const bool are_pages = BeginsPage(address) && BeginsPage(to);
  return are_pages ? __real_mremap(address, old_length, length, flags, to)
                   : Refuse("mremap", MAP_FAILED);
}

}  // extern "C"
