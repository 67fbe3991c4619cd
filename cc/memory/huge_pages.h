// Advice to the system to use huge pages.
#ifndef CONDACC_MEMORY_HUGE_PAGES_H_
#define CONDACC_MEMORY_HUGE_PAGES_H_

#include <cstddef>

namespace condacc {

// Contains the size of the system's huge pages.
inline constexpr char kHugePageSizeFile[] = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";

// Asks the system to use huge pages for memory that begins at a multiple of kHugePageBytes. Does
// nothing if the system's huge pages are of another size. Where an ordinary page has 64 KiB, as on
// some aarch64 systems, they are of 512 MiB: touching one byte could fill that much memory.
void AdviseHugePages(void* first, size_t num_bytes) noexcept;

// Returns the size of the system's huge pages, which `file` contains. If it cannot be read, the
// size follows from that of an ordinary page: a huge page takes the place of as many as there are
// entries, of 8 bytes each, in one page of the page table.
size_t SystemHugePageBytes(const char* file, size_t page_bytes) noexcept;

}  // namespace condacc

#endif  // CONDACC_MEMORY_HUGE_PAGES_H_
