// Memory of the tables that grow: from 2 MB on in huge pages, where the system has them and a table grows by its end.
//
// The first touch of a page costs 4 to 10 us in a virtual machine. A table that grows from 16 to 32 MB has 8,192 pages of 4 KB: 30 ms, all in
// one step, which works for 8 ms. In pages of 2 MB it has 16. Such a block also grows without a copy: its pages are moved to new addresses.
//
// A few pages of freed blocks are kept for the next blocks of a page. Small blocks are the heap's; systems other than Linux have it alone.
//
// Tested by tests/pda/kernel/test_spare_pages.py and test_large_tables.py.
#pragma once

#include <cstddef>

namespace stackmask {

// Like realloc, for a block that grows from `before` bytes, which a null pointer has 0 of. The result is null where there is no memory; then
// the block is as before.
void* grow_block(void* block, std::size_t before, std::size_t after) noexcept;
void free_block(void* block, std::size_t size) noexcept;

// A block of zeros for a table that is filled bit by bit; null where there is none. A large one has small pages, none of which was touched:
// a huge one would make some step wait for all of its 2 MB.
void* zeroed_block(std::size_t size) noexcept;
void free_zeroed_block(void* block, std::size_t size) noexcept;

}  // namespace stackmask
