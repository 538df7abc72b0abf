#include "unique/seen_values.h"

#include <algorithm>

#include "unique/json_value.h"

namespace stackmask {

namespace {

constexpr std::ptrdiff_t MOST_SLASHES = 8;  // in a string whose spellings are counted, of which there are 256 then

// A text as words: its length, and its bytes, of which the last word may lack some.
void to_words(std::string_view text, PooledVector<u32>& words) {
  words.assign(1 + (text.size() + sizeof(u32) - 1) / sizeof(u32), 0);
  words[0] = static_cast<u32>(text.size());
  std::memcpy(words.data() + 1, text.data(), text.size());
}

}  // namespace

// Among the characters that need no escape in a string only the slash has two spellings, as itself and after a backslash.
u32 SeenValues::spellings_of(std::string_view value, std::size_t from) {
  const auto rest = value.begin() + static_cast<std::ptrdiff_t>(from);
  const std::ptrdiff_t slashes = std::count(rest, value.end(), '/');
  const bool escapes = std::any_of(rest, value.end(), [](char byte) { return static_cast<u8>(byte) < 0x20 || byte == '\\'; });
  if (!value.starts_with('"') || slashes > MOST_SLASHES || escapes) return NONE;
  return 1u << slashes;
}

u32 SeenValues::canonical_id(std::string_view canonical) {
  PooledVector<u32> words;
  to_words(canonical, words);
  const u32 id = values_.intern(words.data(), words.size());
  if (id >= MOST_VALUES) throw LimitExceeded("states", MOST_VALUES, "more than 33,554,432 values that must differ");
  return id;
}

u32 SeenValues::value_id(const std::string& text) { return canonical_id(canonical_json(text)); }

u32 SeenValues::find(const std::string& text) const {
  PooledVector<u32> words;
  to_words(canonical_json(text), words);
  return values_.find(words.data(), words.size());
}

u32 SeenValues::node(std::span<const u32> words, u32 count) {
  const u32 id = nodes_.intern(words.data(), words.size());
  if (id == counts_.size()) counts_.push_back(count);
  return id;
}

bool SeenValues::contains(u32 set, u32 value) const {
  u32 at = set;
  for (u32 level = LEVELS; level > 0; level--) at = child(at, digit(value, level));
  return at != NO_VALUES && (nodes_.at(at)[0] >> digit(value, 0) & 1);
}

u32 SeenValues::with(u32 set, u32 value) {
  if (contains(set, value)) return NONE;
  u32 way[LEVELS + 1];
  way[LEVELS] = set;
  for (u32 level = LEVELS; level > 0; level--) way[level - 1] = child(way[level], digit(value, level));
  const u32 bits = (way[0] == NO_VALUES ? 0 : nodes_.at(way[0])[0]) | 1u << digit(value, 0);
  u32 made = node({&bits, 1}, static_cast<u32>(std::popcount(bits)));
  for (u32 level = 1; level <= LEVELS; level++) {
    PooledVector<u32> words{0};
    if (way[level] != NO_VALUES) words.assign(nodes_.at(way[level]), nodes_.at(way[level]) + nodes_.length(way[level]));
    const u32 place = digit(value, level), index = 1 + static_cast<u32>(std::popcount(words[0] & ((1u << place) - 1)));
    if (words[0] >> place & 1) words[index] = made;
    else words.insert(words.begin() + index, made);
    words[0] |= 1u << place;
    made = node(words, counts_[way[level]] + 1);
  }
  return made;
}

u32 SeenValues::build(std::span<const u32> values, u32 level) {
  PooledVector<u32> words{0};
  for (std::size_t i = 0; i < values.size();) {
    const u32 place = digit(values[i], level);
    words[0] |= 1u << place;
    std::size_t end = i + 1;
    while (end < values.size() && digit(values[end], level) == place) end++;
    if (level > 0) words.push_back(build(values.subspan(i, end - i), level - 1));
    i = end;
  }
  return node(words, static_cast<u32>(values.size()));
}

u32 SeenValues::spellings(u32 set) {
  if (const u32* known = spellings_.find(set)) return *known;
  u64 total = 0;
  bool known = true;
  each(set, [&](u32 id) {
    const u32 spelled = spellings_of(value(id));
    known = known && spelled != NONE;
    total += known ? spelled : 0;
  });
  const u32 result = known ? static_cast<u32>(std::min<u64>(total, NONE)) : NONE;
  spellings_.insert(set, result);
  return result;
}

bool SeenValues::grown(u32 from, u32 to, u32 level, u32 prefix, std::vector<u32>& added) const {
  if (from == to) return true;
  const u32 before = from == NO_VALUES ? 0 : nodes_.at(from)[0], bits = to == NO_VALUES ? 0 : nodes_.at(to)[0];
  if (before & ~bits) return false;
  for (u32 left = level == 0 ? bits & ~before : bits; left; left &= left - 1) {
    const u32 place = static_cast<u32>(std::countr_zero(left)), number = prefix << DIGIT | place;
    if (level == 0) added.push_back(number);
    else if (!grown(child(from, place), child(to, place), level - 1, number, added)) return false;
  }
  return true;
}

u32 SeenValues::adopt(const SeenValues& other, u32 set, LastAdopted& last) {
  constexpr std::size_t FEW = 8;  // values that are added one by one
  if (set == NO_VALUES) return NO_VALUES;
  PooledVector<u32> added;
  u32 made = NO_VALUES;
  for (const Adopted& before : last) {
    added.clear();
    made = before.own;
    if (other.grown(before.theirs, set, LEVELS, 0, added) && added.size() <= FEW) break;
    made = NONE;
  }
  if (made == NONE) {
    added.clear();
    other.each(set, [&](u32 value) { added.push_back(value); });
  }
  for (u32& value : added) value = canonical_id(other.value(value));
  if (made == NONE) {
    std::sort(added.begin(), added.end());
    made = build(added, LEVELS);
  } else {
    for (const u32 value : added) made = with(made, value);
  }
  std::copy_backward(last.begin(), last.end() - 1, last.end());
  last[0] = {set, made};
  return made;
}

}  // namespace stackmask
