// Maps and interners of pda/kernel/base.h that grow bit by bit: what they hold at each size, and how much one item adds. Says what is wrong.
#include "base.h"

#include <cstdio>
#include <unordered_map>

namespace {

using namespace stackmask;

constexpr std::size_t LARGE = 1 << 19;  // bytes: from here on a table grows bit by bit
int wrong = 0;

void expect(bool holds, const char* what) {
  if (!holds && wrong++ < 20) std::printf("%s\n", what);
}

u64 scrambled(u64 i) { return mix(i * 0x9E3779B97F4A7C15ull + 1) >> 1; }

void check_map() {
  FlatMap map;
  std::unordered_map<u64, u32> model;
  const auto insert = [&](u64 key, u32 value) {
    const std::size_t before = map.bytes();
    map.insert(key, value);
    model[key] = value;
    expect(before < LARGE || map.bytes() <= before + 8 * 16, "one item makes a large map much larger");
  };
  const auto check = [&] {
    for (const auto& [key, value] : model) {
      const u32* found = map.find(key);
      expect(found && *found == value, "the map has another value");
    }
    for (u64 i = 0; i < 1000; i++) expect(!map.find(scrambled(i) | 1ull << 63), "the map has a key that was not inserted");
  };
  expect(!map.find(1), "an empty map has a key");
  for (u32 i = 0; i < 600'000; i++) {
    insert(scrambled(i), i);
    if (i % 3 == 0) insert(scrambled(i / 2), ~i);  // a key that is there, copied already or not
    if (i % 60'000 == 0) check();
  }
  insert(0, 5);
  check();
  FlatMap moved = std::move(map);
  expect(moved.find(0) && !map.find(0), "a map that was moved keeps its items");
  map = std::move(moved);
  check();
  expect(map.bytes() > 16 * model.size() * 4 / 3, "the map takes less memory than its items");
  map.clear();
  expect(map.bytes() == 0 && !map.find(0), "a map that was cleared has items");
  map.insert(7, 8);
  expect(map.find(7) && *map.find(7) == 8, "a map that was cleared is of no use");
}

void check_interner() {
  Interner interner;
  const auto words_of = [](u32 i, u32* words) {
    for (u32 k = 0; k < i % 4; k++) words[k] = static_cast<u32>(scrambled(i + k));
    return i % 4u;
  };
  u32 words[4], known = 0;
  expect(interner.find(words, 0) == NONE, "an empty interner has a sequence");
  for (u32 i = 0; i < 900'000; i++) {
    const std::size_t length = words_of(i, words), before = interner.size();
    const u32 seen = interner.find(words, length), id = interner.intern(words, length);
    expect(seen == NONE ? id == before : id == seen, "a sequence has another number");
    expect(interner.size() == before + (seen == NONE), "the size is another");
    known += seen != NONE;
    if (i == 500'000) interner.expect(100'000, 400'000);  // while it grows
    if (i % 90'000 == 0 || i == 500'000)
      for (u32 k = 0; k <= i; k++) {
        const std::size_t of_k = words_of(k, words);
        const u32 found = interner.find(words, of_k);
        expect(found != NONE && interner.length(found) == of_k && std::equal(words, words + of_k, interner.at(found)),
               "a sequence is lost");
      }
  }
  expect(known >= 900'000 / 4 - 1, "not all empty sequences are one");
  const std::size_t size = interner.size();
  u32 fresh[5] = {1, 2, 3, 4, 5};
  expect(interner.add(fresh, 5) == size && interner.find(fresh, 5) == size, "an added sequence is lost");
}

}  // namespace

int main() {
  check_map();
  check_interner();
  return wrong != 0;
}
