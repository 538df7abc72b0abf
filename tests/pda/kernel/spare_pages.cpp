// Blocks of pda/kernel/blocks.h that grow and are freed: what they hold, and which pages are used again. Says what is wrong, if anything.
#include "blocks.h"

#include <sys/mman.h>

#include <cstdio>
#include <cstring>
#include <set>

namespace {

constexpr std::size_t PAGE = 2 << 20;
int wrong = 0;

void expect(bool holds, const char* what) {
  if (!holds) std::printf("%s\n", what), wrong = 1;
}

bool is_mapped(void* page) { return msync(page, PAGE, MS_ASYNC) == 0; }

char* fresh(std::size_t size) { return static_cast<char*>(stackmask::grow_block(nullptr, 0, size)); }

}  // namespace

int main() {
  // What a block held when it was small it holds in pages, and after it was moved.
  std::size_t size = 1 << 18;
  char* block = fresh(size);
  std::memset(block, 1, size);
  for (char value = 2; size < 6 * PAGE; value++, size *= 2) {
    block = static_cast<char*>(stackmask::grow_block(block, size, size * 2));
    std::memset(block + size, value, size);
  }
  expect(size == 8 * PAGE, "the block has another size");
  std::size_t at = 0;
  for (std::size_t end = 1 << 18, value = 1; end <= size; end *= 2, value++)
    for (; at < end; at++)
      if (block[at] != static_cast<char>(value)) return std::printf("byte %zu changed\n", at), 1;

  // Of a freed block four pages are kept, and the next blocks of a page lie there; the rest is given back.
  stackmask::free_block(block, size);
  for (std::size_t page = 0; page < 8; page++) expect(is_mapped(block + page * PAGE) == (page < 4), "another page is kept");
  std::set<char*> pages, kept;
  for (std::size_t page = 0; page < 4; page++) kept.insert(block + page * PAGE), pages.insert(fresh(PAGE));
  expect(pages == kept, "a page is not used again");
  char* const more = fresh(PAGE);
  expect(more && !pages.count(more), "a page is used twice");

  // A page that was kept grows like any other.
  std::memset(more, 7, PAGE);
  stackmask::free_block(more, PAGE);
  char* const again = fresh(PAGE);
  expect(again == more, "a page that was freed alone is not used again");
  std::memset(again, 8, PAGE);
  char* const grown = static_cast<char*>(stackmask::grow_block(again, PAGE, 3 * PAGE));
  expect(grown[0] == 8 && grown[PAGE - 1] == 8, "a page that was used again loses its content");
  grown[3 * PAGE - 1] = 1;
  stackmask::free_block(grown, 3 * PAGE);
  return wrong;
}
