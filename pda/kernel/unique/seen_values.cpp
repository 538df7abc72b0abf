#include "unique/seen_values.h"

#include <algorithm>

#include "unique/json_value.h"

namespace stackmask {

namespace {

constexpr std::ptrdiff_t MOST_SLASHES = 8;  // in a string whose spellings are counted: 256 of them

// Of the characters that a string may hold without an escape only the slash has two spellings, as itself and behind a backslash.
u32 spellings_of(const std::string& value) {
  const std::ptrdiff_t slashes = std::count(value.begin(), value.end(), '/');
  const bool escapes = std::any_of(value.begin(), value.end(), [](char byte) { return static_cast<u8>(byte) < 0x20 || byte == '\\'; });
  if (value[0] != '"' || slashes > MOST_SLASHES || escapes) return NONE;
  return 1u << slashes;
}

}  // namespace

u32 SeenValues::canonical_id(const std::string& canonical) {
  const auto [found, added] = ids_.try_emplace(canonical, static_cast<u32>(values_.size()));
  if (added) {
    values_.push_back(canonical);
    spellings_.push_back(spellings_of(canonical));
  }
  return found->second;
}

u32 SeenValues::value_id(const std::string& text) { return canonical_id(canonical_json(text)); }

u32 SeenValues::with(u32 id, u32 value) {
  Scratch<u32> larger;
  const std::span<const u32> members = set(id);
  larger.assign(members.begin(), members.end());
  const auto at = std::lower_bound(larger.begin(), larger.end(), value);
  if (at != larger.end() && *at == value) return NONE;
  larger.insert(at, value);
  return sets_.intern(larger.data(), larger.size());
}

u32 SeenValues::adopt(const SeenValues& other, u32 id) {
  Scratch<u32> members;
  for (const u32 value : other.set(id)) members.push_back(canonical_id(other.value(value)));
  std::sort(members.begin(), members.end());
  return sets_.intern(members.data(), members.size());
}

}  // namespace stackmask
