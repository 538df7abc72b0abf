#include "blocks.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>

#ifdef __linux__
#include <sys/mman.h>

#include <mutex>
#endif

namespace stackmask {

#ifdef __linux__

namespace {

constexpr std::size_t HUGE_PAGE = 2 << 20;  // where it is larger, such as on some ARM systems, the system uses smaller ones

bool is_large(std::size_t size) { return size >= HUGE_PAGE; }

std::size_t whole_pages(std::size_t size) { return (size + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1); }

// Pages of freed blocks, for the tables that next reach the size of a page.
// PERF: the first touch of a huge page takes 2 to 4 ms where the host of a virtual machine has to find the memory, and a step of every grammar
// with such a table waited for it.
class SparePages {
 public:
  // One of them; null if there is none, or another thread takes or keeps one now.
  void* take() {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    return lock && count_ ? pages_[--count_] : nullptr;
  }
  // Keeps pages at the beginning of a block, and returns how many.
  std::size_t keep(void* block, std::size_t pages) {
    const std::unique_lock lock(mutex_, std::try_to_lock);  // a thread that no fork copied may hold it for good
    std::size_t kept = 0;
    while (lock && kept < pages && count_ < MOST) pages_[count_++] = static_cast<char*>(block) + kept++ * HUGE_PAGE;
    return kept;
  }

 private:
  static constexpr std::size_t MOST = 4;
  std::mutex mutex_;
  std::size_t count_ = 0;
  void* pages_[MOST] = {};
};

constinit SparePages spare;

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
  void* const known = whole_pages(after) == HUGE_PAGE ? spare.take() : nullptr;
  void* const grown = known ? known : map(after);
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
  if (!is_large(size)) return std::free(block);
  const std::size_t length = whole_pages(size), kept = spare.keep(block, length / HUGE_PAGE) * HUGE_PAGE;
  if (kept < length) munmap(static_cast<char*>(block) + kept, length - kept);
}

void* zeroed_block(std::size_t size) noexcept {
  if (!is_large(size)) return std::calloc(1, size);
  void* const mapped = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return mapped == MAP_FAILED ? nullptr : mapped;
}

void free_zeroed_block(void* block, std::size_t size) noexcept {
  if (!is_large(size)) return std::free(block);
  munmap(block, size);
}

#else

void* grow_block(void* block, std::size_t, std::size_t after) noexcept { return std::realloc(block, after); }

void free_block(void* block, std::size_t) noexcept { std::free(block); }

void* zeroed_block(std::size_t size) noexcept { return std::calloc(1, size); }

void free_zeroed_block(void* block, std::size_t) noexcept { std::free(block); }

#endif

}  // namespace stackmask
