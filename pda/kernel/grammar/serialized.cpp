#include "grammar/serialized.h"

#include <algorithm>
#include <charconv>

#include "grammar/packed.h"
#include "grammar/sha256.h"

namespace stackmask {

namespace {

constexpr std::string_view MAGIC = "stackmask grammar\n";
constexpr u64 VERSION = 1;

[[noreturn]] void malformed_bytes(const std::string& what) { throw BadGrammar("the bytes are no grammar: " + what); }

// JSON (RFC 8259), read piece by piece: the caller knows which piece comes next.
class Json {
 public:
  Json(const char* data, std::size_t size) : begin_(data), at_(data), end_(data + size) {}

  bool take(char wanted) {
    blanks();
    if (at_ == end_ || *at_ != wanted) return false;
    at_++;
    return true;
  }
  void need(char wanted) {
    if (!take(wanted)) fail(std::string("'") + wanted + "'");
  }
  // Calls item() for every item of a list.
  template <class F>
  void list(F item) {
    need('[');
    if (take(']')) return;
    do item();
    while (take(','));
    need(']');
  }
  // A number that fits, or a truth value as 0 or 1.
  i32 integer() {
    blanks();
    if (word("true")) return 1;
    if (word("false")) return 0;
    i32 value = 0;
    const auto [after, error] = std::from_chars(at_, end_, value);
    if (error != std::errc() || (after != end_ && (*after == '.' || *after == 'e' || *after == 'E'))) fail("an integer of 32 bits");
    at_ = after;
    return value;
  }
  double number() {
    blanks();
    double value = 0;
    const auto [after, error] = std::from_chars(at_, end_, value);
    if (error != std::errc()) fail("a number");
    at_ = after;
    return value;
  }
  // A string, each of its characters by append(code point).
  template <class F>
  void string(F append) {
    need('"');
    for (;;) {
      u32 code = character();
      if (code == '"') return;
      if (code == '\\') {
        code = escape();
        if (code >= 0xD800 && code < 0xDC00 && at_ + 2 <= end_ && at_[0] == '\\' && at_[1] == 'u') {
          const char* const before = at_++;
          const u32 low = escape();
          if (low >= 0xDC00 && low < 0xE000) code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
          else at_ = before;
        }
      }
      append(code);
    }
  }
  // ... as UTF-8, or with a byte for each character.
  std::string text() {
    std::string found;
    string([&](u32 code) {
      if (code >= 0xD800 && code < 0xE000) fail("a string without lone surrogates");
      if (code < 0x80) return found.push_back(static_cast<char>(code));
      const u32 more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
      found.push_back(static_cast<char>((0xFF00u >> (more + 1) & 0xFF) | code >> 6 * more));
      for (u32 i = more; i-- > 0;) found.push_back(static_cast<char>(0x80 | (code >> 6 * i & 0x3F)));
    });
    return found;
  }
  std::string latin1() {
    std::string found;
    string([&](u32 code) {
      if (code > 0xFF) fail("a string of bytes");
      found.push_back(static_cast<char>(code));
    });
    return found;
  }
  // Any value, left unread.
  void skip() {
    std::string open;
    do {
      blanks();
      if (at_ == end_) fail("a value");
      const char next = *at_;
      if (next == '"') string([](u32) {});
      else at_++;
      if (next == '[' || next == '{') open.push_back(next == '[' ? ']' : '}');
      if ((next == ']' || next == '}') && (open.empty() || open.back() != next)) fail("a value");
      if (next == ']' || next == '}') open.pop_back();
      if (open.empty() && next != '"' && next != ']' && next != '}')
        while (at_ != end_ && *at_ != ',' && *at_ != ']' && *at_ != '}') at_++;  // the rest of a number or a word
    } while (!open.empty());
  }
  void end() {
    blanks();
    if (at_ != end_) fail("the end");
  }
  [[noreturn]] void fail(const std::string& wanted) const {
    malformed_bytes(wanted + " was expected at byte " + std::to_string(at_ - begin_) + " of its JSON");
  }

 private:
  const char *begin_, *at_, *end_;
  void blanks() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t')) at_++;
  }
  bool word(std::string_view wanted) {
    if (static_cast<std::size_t>(end_ - at_) < wanted.size() || std::string_view(at_, wanted.size()) != wanted) return false;
    at_ += wanted.size();
    return true;
  }
  u32 character() {  // of UTF-8; the writer escapes all above ASCII, so nothing else is read
    if (at_ == end_ || static_cast<u8>(*at_) < 0x20 || static_cast<u8>(*at_) >= 0x80) fail("a character of ASCII");
    return static_cast<u8>(*at_++);
  }
  u32 escape() {
    const u32 letter = character();
    constexpr std::string_view LETTERS = "\"\\/bfnrt", MEANT = "\"\\/\b\f\n\r\t";
    if (const std::size_t found = LETTERS.find(static_cast<char>(letter)); found != LETTERS.npos) return static_cast<u8>(MEANT[found]);
    u32 code = 0;
    if (letter != 'u' || end_ - at_ < 4) fail("an escape");
    const auto [after, error] = std::from_chars(at_, at_ + 4, code, 16);
    if (error != std::errc() || after != at_ + 4) fail("an escape");
    at_ = after;
    return code;
  }
};

// The arguments of a node, in the order of Expressions.
void read_node(Json& json, Expressions& ex) {
  const u32 begin = static_cast<u32>(ex.ints.size());
  auto add = [&](i32 value) { ex.ints.push_back(value); };
  auto next = [&] { return json.need(','), json.integer(); };
  auto spread = [&] { json.list([&] { add(json.integer()); }); };
  // A list that stands before numbers in the bytes and behind them in Expressions.
  auto list_behind = [&](std::size_t numbers) {
    std::vector<i32> items;
    json.need(',');
    json.list([&] { items.push_back(json.integer()); });
    for (std::size_t i = 0; i < numbers; i++) add(next());
    ex.ints.insert(ex.ints.end(), items.begin(), items.end());
  };
  json.need('[');
  const i32 op = json.integer();
  switch (op) {
    case OP_LITERAL:
      json.need(',');
      add(static_cast<i32>(ex.literals.size()));
      ex.literals.push_back(json.latin1());
      break;
    case OP_BYTES: json.need(','), spread(); break;
    case OP_CHARS:
    case OP_TOKENS: list_behind(1); break;
    case OP_GRAPH: add(next()), json.need(','), spread(); break;
    case OP_PERMUTE: list_behind(3); break;
    case OP_AUTOMATON: {
      std::vector<std::vector<i32>> states;
      std::vector<i32> accepting;
      json.need(',');
      json.list([&] {
        std::vector<i32>& state = states.emplace_back();
        json.list([&] {
          const std::size_t before = state.size();
          json.list([&] { state.push_back(json.integer()); });
          if (state.size() != before + 3) json.fail("(lo, hi, target)");
        });
      });
      json.need(',');
      json.list([&] { accepting.push_back(json.integer()); });
      if (states.size() != accepting.size()) json.fail("as many accepting states as states");
      add(next());
      add(static_cast<i32>(states.size()));
      const bool counted = json.take(',');
      add(counted ? json.integer() : 0);
      add(counted ? next() : -1);
      for (std::size_t s = 0; s < states.size(); s++) {
        add(accepting[s]);
        add(static_cast<i32>(states[s].size() / 3));
        ex.ints.insert(ex.ints.end(), states[s].begin(), states[s].end());
      }
      break;
    }
    case OP_EXCEPT: {
      std::vector<i32> words;
      json.need(',');
      json.list([&] {
        words.push_back(static_cast<i32>(ex.literals.size()));
        ex.literals.push_back(json.text());
      });
      add(next());
      ex.ints.insert(ex.ints.end(), words.begin(), words.end());
      break;
    }
    case OP_CAPTURE: add(next()), json.need(','), json.skip(); break;
    case OP_TEMPERATURE:
      add(next());
      json.need(',');
      add(static_cast<i32>(ex.numbers.size()));
      ex.numbers.push_back(json.number());
      break;
    default:
      while (json.take(',')) add(json.integer());
  }
  json.need(']');
  ex.nodes.push_back({op, begin, static_cast<u32>(ex.ints.size())});
}

u64 little_endian(const char* data, u32 bytes) {
  u64 value = 0;
  for (u32 i = bytes; i-- > 0;) value = value << 8 | static_cast<u8>(data[i]);
  return value;
}

}  // namespace

Serialized read_serialized(const char* data, std::size_t size) {
  constexpr std::size_t HEADER = MAGIC.size() + 2 + 8 + 32;
  if (size < HEADER || std::string_view(data, MAGIC.size()) != MAGIC) malformed_bytes("they do not begin as one");
  const u64 version = little_endian(data + MAGIC.size(), 2), length = little_endian(data + MAGIC.size() + 2, 8);
  if (version != VERSION)
    throw BadGrammar("the grammar is of version " + std::to_string(version) + "; this stackmask reads version " + std::to_string(VERSION));
  const auto hash = sha256(data + HEADER, size - HEADER);
  if (length != size - HEADER || std::memcmp(hash.data(), data + HEADER - hash.size(), hash.size()) != 0)
    malformed_bytes("they are damaged");
  Serialized read{std::make_shared<Expressions>(), {}};
  Expressions& ex = *read.expressions;
  Json json(data + HEADER, size - HEADER);
  u32 seen = 0;
  json.need('{');
  do {
    constexpr std::string_view FIELDS[] = {"vocabulary", "kind", "report", "root", "rules", "names", "nodes"};
    const std::string name = json.text();
    const auto field = static_cast<u32>(std::find(std::begin(FIELDS), std::end(FIELDS), name) - std::begin(FIELDS));
    if (field == std::size(FIELDS) || seen >> field & 1) json.fail("a field of a grammar");
    seen |= 1u << field;
    json.need(':');
    if (name == "vocabulary") read.vocabulary = json.text();
    else if (name == "root") ex.root = json.integer();
    else if (name == "rules") json.list([&] { ex.rules.push_back(json.integer()); });
    else if (name == "names") json.list([&] { ex.names.push_back(json.text()); });
    else if (name == "nodes") json.list([&] { read_node(json, ex); });
    else json.skip();
  } while (json.take(','));
  json.need('}');
  json.end();
  if (seen != 0x7F) json.fail("every field of a grammar");
  check_indices(ex);
  return read;
}

}  // namespace stackmask
