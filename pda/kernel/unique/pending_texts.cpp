#include "unique/pending_texts.h"

#include <algorithm>
#include <string_view>

#include "unique/json_value.h"

namespace stackmask {

namespace {
constexpr std::size_t MOST_SORTED = 1024;  // bytes of an object whose members are sorted as they come

u32 hex_digit(u8 byte) {
  if (byte >= '0' && byte <= '9') return byte - '0';
  const u8 lower = byte | 0x20;
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10u : NONE;
}
}  // namespace

u32 PendingTexts::extend(u32 text, u8 byte) {
  const u8 mode = modes_[text];
  if (mode == OUTSIDE) {
    const char last = static_cast<char>(parents_[text].second);
    if (is_blank(byte)) {
      if (text == EMPTY || std::strchr("{[:, ", last)) return text;
      byte = ' ';
    } else if (last == ' ' && std::strchr(",:]}", static_cast<char>(byte))) {
      text = parents_[text].first;
    }
  }
  const u64 key = static_cast<u64>(text) << 8 | byte;
  if (const u32* found = children_.find(key)) return *found;
  u32 id;
  if (mode == OUTSIDE && (byte == ',' || byte == '}')) id = child(sorted(text), byte);
  else if (mode == BEHIND_BACKSLASH && byte == '/') id = child(parents_[text].first, '/');
  else if (mode == INSIDE && hex_digit(byte) != NONE) id = unescaped(text, byte);
  else id = child(text, byte);
  children_.insert(key, id);
  return id;
}

u32 PendingTexts::child(u32 text, u8 byte) {
  const u64 key = static_cast<u64>(text) << 8 | byte;
  if (const u32* found = children_.find(key)) return *found;
  const u8 mode = modes_[text];
  parents_.push_back({text, byte});
  if (mode == OUTSIDE) modes_.push_back(byte == '"' ? INSIDE : OUTSIDE);
  else if (mode == BEHIND_BACKSLASH) modes_.push_back(INSIDE);
  else modes_.push_back(byte == '"' ? OUTSIDE : byte == '\\' ? BEHIND_BACKSLASH : INSIDE);
  const u32 id = static_cast<u32>(parents_.size() - 1);
  children_.insert(key, id);
  return id;
}

// The text with the members of its open object sorted by their keys, of equal keys the older one first. All members before the last are
// sorted already.
u32 PendingTexts::sorted(u32 text) {
  std::string reversed;
  std::vector<std::size_t> commas;  // of the object, as places in `reversed`
  std::size_t depth = 0;
  u32 at = text;
  for (; at != EMPTY; at = parents_[at].first) {
    const u8 byte = parents_[at].second;
    if (modes_[at] == OUTSIDE) {
      if (byte == '}' || byte == ']') depth++;
      else if (byte == ',' && depth == 0) commas.push_back(reversed.size());
      else if ((byte == '{' || byte == '[') && depth-- == 0) break;
    }
    if (reversed.size() == MOST_SORTED) return text;
    reversed.push_back(static_cast<char>(byte));
  }
  if (at == EMPTY || parents_[at].second != '{' || commas.empty()) return text;
  const std::string inside(reversed.rbegin(), reversed.rend());
  std::vector<std::string> members;
  std::size_t begin = 0;
  while (!commas.empty()) {
    const std::size_t end = inside.size() - 1 - commas.back();
    members.push_back(inside.substr(begin, end - begin));
    commas.pop_back();
    begin = end + 1;
  }
  members.push_back(inside.substr(begin));
  auto key_of = [](const std::string& member) {
    std::size_t end = 1;
    while (end < member.size() && member[end] != '"') end += member[end] == '\\' ? 2 : 1;
    return std::string_view(member).substr(0, end);
  };
  auto by_key = [&](const std::string& a, const std::string& b) { return key_of(a) < key_of(b); };
  if (std::is_sorted(members.begin(), members.end(), by_key) || canonical_json("{" + inside + "}")[0] != '{') return text;
  std::stable_sort(members.begin(), members.end(), by_key);
  for (std::size_t m = 0; m < members.size(); m++) {
    if (m > 0) at = child(at, ',');
    for (const char byte : members[m]) at = child(at, static_cast<u8>(byte));
  }
  return at;
}

// The text after a byte that may be the last of \uXXXX. That escape becomes its character, in UTF-8 or after a backslash, or it stays, with
// digits in lower case.
u32 PendingTexts::unescaped(u32 text, u8 byte) {
  auto unit = [this](u32 at, u8 last, u32& before) -> u32 {  // the four digits that end with `last`, NONE if there are none
    u32 value = hex_digit(last);
    for (u32 shift = 4; shift < 16; shift += 4, at = parents_[at].first) {
      const u32 digit = hex_digit(parents_[at].second);
      if (digit == NONE || modes_[at] != INSIDE) return NONE;
      value |= digit << shift;
    }
    if (parents_[at].second != 'u' || modes_[parents_[at].first] != BEHIND_BACKSLASH) return NONE;
    before = parents_[parents_[at].first].first;
    return value;
  };
  u32 at = text;
  u32 code = unit(text, byte, at);
  if (code == NONE) return child(text, byte);
  auto write = [&](std::string_view bytes) {
    for (const char each : bytes) at = child(at, static_cast<u8>(each));
    return at;
  };
  if (code >= 0xDC00 && code < 0xE000) {
    u32 before = at;
    if (const u32 high = unit(parents_[at].first, parents_[at].second, before); high != NONE && high >= 0xD800 && high < 0xDC00)
      at = before, code = 0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00);
  }
  static constexpr char FROM[] = "\b\f\n\r\t\"\\", TO[] = "bfnrt\"\\";
  if (const char* found = std::strchr(FROM, static_cast<int>(code)); found && code != 0 && code < 0x80)
    return write(std::string{'\\', TO[found - FROM]});
  if (code < 0x20 || (code >= 0xD800 && code < 0xE000)) {
    static constexpr char DIGITS[] = "0123456789abcdef";
    return write(std::string{'\\', 'u', DIGITS[code >> 12], DIGITS[code >> 8 & 15], DIGITS[code >> 4 & 15], DIGITS[code & 15]});
  }
  auto last = [code](u32 shift) { return static_cast<char>(0x80 | (code >> shift & 63)); };
  if (code < 0x80) return write(std::string{static_cast<char>(code)});
  if (code < 0x800) return write(std::string{static_cast<char>(0xC0 | code >> 6), last(0)});
  if (code < 0x10000) return write(std::string{static_cast<char>(0xE0 | code >> 12), last(6), last(0)});
  return write(std::string{static_cast<char>(0xF0 | code >> 18), last(12), last(6), last(0)});
}

// PERF: no text is read again byte by byte, since the guards of a value of 2,000 bytes hold two million bytes of texts.
u32 PendingTexts::adopt(const PendingTexts& other, u32 text, std::vector<u32>& known) {
  PooledVector<u32> way;
  for (; text != EMPTY && known[text] == EMPTY; text = other.parents_[text].first) way.push_back(text);
  u32 at = known[text];
  for (; !way.empty(); way.pop_back()) {
    const u32 id = static_cast<u32>(parents_.size());
    const u8 byte = other.parents_[way.back()].second;
    parents_.push_back({at, byte});
    modes_.push_back(other.modes_[way.back()]);
    children_.insert(static_cast<u64>(at) << 8 | byte, id);
    at = known[way.back()] = id;
  }
  return at;
}

std::string PendingTexts::text(u32 text) const {
  std::string result;
  for (; text != EMPTY; text = parents_[text].first) result.push_back(static_cast<char>(parents_[text].second));
  std::reverse(result.begin(), result.end());
  return result;
}

std::string PendingTexts::number(u32 text) const {
  std::string number;
  for (; text != EMPTY && modes_[text] == OUTSIDE; text = parents_[text].first) {
    const char byte = static_cast<char>(parents_[text].second);
    if (std::string_view("0123456789.eE+-").find(byte) == std::string_view::npos) break;
    number.push_back(byte);
  }
  std::reverse(number.begin(), number.end());
  return number;
}

}  // namespace stackmask
