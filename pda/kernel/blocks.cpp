#include "blocks.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

#ifdef __linux__
#include <sys/mman.h>
#endif

namespace stackmask {

#ifdef __linux__

namespace {

constexpr std::size_t HUGE_PAGE = 2 << 20;  // where it is larger, such as on some ARM systems, the system uses smaller ones

bool is_large(std::size_t size) { return size >= HUGE_PAGE; }

std::size_t whole_pages(std::size_t size) { return (size + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1); }

// Fresh addresses that begin with a huge page, which the system's own need not do; null if there are none.
void* map(std::size_t size) {
  if (size > SIZE_MAX - 2 * HUGE_PAGE) return nullptr;
  const std::size_t length = whole_pages(size);
  void* const mapped = mmap(nullptr, length + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  char* const begin = static_cast<char*>(mapped);
  const std::size_t before = (HUGE_PAGE - reinterpret_cast<std::uintptr_t>(begin) % HUGE_PAGE) % HUGE_PAGE;
  if (before) munmap(begin, before);
  munmap(begin + before + length, HUGE_PAGE - before);
  madvise(begin + before, length, MADV_HUGEPAGE);  // a hint: without it the pages are small
  return begin + before;
}

}  // namespace

void* grow_block(void* block, std::size_t before, std::size_t after) noexcept {
  if (!is_large(after)) return std::realloc(block, after);
  if (is_large(before) && whole_pages(before) == whole_pages(after)) return block;
  void* const grown = map(after);
  if (!grown) return nullptr;
  if (is_large(before)) {  // its pages take the place of those just mapped
    if (mremap(block, whole_pages(before), whole_pages(after), MREMAP_MAYMOVE | MREMAP_FIXED, grown) != MAP_FAILED) return grown;
    munmap(grown, whole_pages(after));
    return nullptr;
  }
  if (before) std::memcpy(grown, block, before);
  std::free(block);
  return grown;
}

void free_block(void* block, std::size_t size) noexcept {
  if (is_large(size)) munmap(block, whole_pages(size));
  else std::free(block);
}

#else

void* grow_block(void* block, std::size_t, std::size_t after) noexcept { return std::realloc(block, after); }

void free_block(void* block, std::size_t) noexcept { std::free(block); }

#endif

}  // namespace stackmask
