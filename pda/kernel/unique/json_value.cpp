#include "unique/json_value.h"

#include <algorithm>
#include <optional>

#include "base.h"

namespace stackmask {

namespace {

class Canonical {
 public:
  explicit Canonical(const std::string& text) : text_(text) {}

  std::optional<std::string> run() {
    // There is one buffer. An open object keeps the places of its members in it, to sort them when it closes.
    struct Open {
      bool object;
      std::size_t start;
      std::vector<std::pair<std::size_t, std::size_t>> members;  // begin of the key, begin of the value
    };
    std::vector<Open> open;
    for (;;) {
      blanks();
      if (at_ >= text_.size()) return std::nullopt;
      const char c = text_[at_];
      bool value = true;
      if (c == '[' || c == '{') {
        at_++;
        open.push_back({c == '{', out_.size(), {}});
        out_.push_back(c);
        blanks();
        if (at_ < text_.size() && text_[at_] == (c == '{' ? '}' : ']')) {
          at_++;
          out_.push_back(c == '{' ? '}' : ']');
          open.pop_back();
        } else {
          if (c == '{' && !key(open.back().members)) return std::nullopt;
          value = false;
        }
      } else if (c == '"') {
        if (!string()) return std::nullopt;
      } else if (c == '-' || (c >= '0' && c <= '9')) {
        if (!number()) return std::nullopt;
      } else if (!word("true") && !word("false") && !word("null")) {
        return std::nullopt;
      }
      while (value) {
        blanks();
        if (open.empty()) return at_ == text_.size() ? std::optional(std::move(out_)) : std::nullopt;
        if (at_ >= text_.size()) return std::nullopt;
        const char mark = text_[at_++];
        Open& top = open.back();
        if (mark == ',') {
          out_.push_back(',');
          if (top.object && !key(top.members)) return std::nullopt;
          break;
        }
        if (mark != (top.object ? '}' : ']')) return std::nullopt;
        if (top.object) sort_members(top.start, top.members);
        out_.push_back(mark);
        open.pop_back();
      }
    }
  }

 private:
  const std::string& text_;
  std::size_t at_ = 0;
  std::string out_;

  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) at_++;
  }

  bool word(const char* name) {
    const std::size_t length = std::strlen(name);
    if (text_.compare(at_, length, name) != 0) return false;
    at_ += length;
    out_ += name;
    return true;
  }

  bool key(std::vector<std::pair<std::size_t, std::size_t>>& members) {
    blanks();
    const std::size_t begin = out_.size();
    if (at_ >= text_.size() || text_[at_] != '"' || !string()) return false;
    blanks();
    if (at_ >= text_.size() || text_[at_++] != ':') return false;
    out_.push_back(':');
    members.push_back({begin, out_.size()});
    return true;
  }

  void sort_members(std::size_t start, const std::vector<std::pair<std::size_t, std::size_t>>& members) {
    struct Member {
      std::string key, value;
    };
    std::vector<Member> list;
    for (std::size_t i = 0; i < members.size(); i++) {
      const std::size_t end = i + 1 < members.size() ? members[i + 1].first - 1 : out_.size();
      const auto& [key, value] = members[i];
      list.push_back({out_.substr(key, value - key), out_.substr(value, end - value)});
    }
    auto by_key = [](const Member& a, const Member& b) { return a.key < b.key; };
    if (std::is_sorted(list.begin(), list.end(), by_key) && list.size() < 2) return;
    std::stable_sort(list.begin(), list.end(), by_key);
    out_.resize(start + 1);
    for (std::size_t i = 0; i < list.size(); i++) {
      if (i + 1 < list.size() && list[i].key == list[i + 1].key) continue;  // the last of equal keys counts
      if (out_.size() > start + 1) out_.push_back(',');
      out_ += list[i].key;
      out_ += list[i].value;
    }
  }

  static int hex(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  }

  bool unit(u32& value) {  // four hexadecimal digits
    if (at_ + 4 > text_.size()) return false;
    value = 0;
    for (int i = 0; i < 4; i++) {
      const int digit = hex(text_[at_++]);
      if (digit < 0) return false;
      value = value * 16 + static_cast<u32>(digit);
    }
    return true;
  }

  void utf8(u32 code) {  // a lone surrogate keeps its three bytes
    auto first = [&](u32 mark, u32 shift) { return static_cast<char>(mark | code >> shift); };
    auto more = [&](u32 shift) { return static_cast<char>(0x80 | (code >> shift & 63)); };
    if (code < 0x80) out_.push_back(static_cast<char>(code));
    else if (code < 0x800) out_ += {first(0xC0, 6), more(0)};
    else if (code < 0x10000) out_ += {first(0xE0, 12), more(6), more(0)};
    else out_ += {first(0xF0, 18), more(12), more(6), more(0)};
  }

  // As its characters between quotes, with only the quote and the backslash escaped.
  bool string() {
    at_++;
    out_.push_back('"');
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '"') {
        out_.push_back('"');
        return true;
      }
      if (static_cast<u8>(c) < 0x20) return false;
      if (c != '\\') {
        out_.push_back(c);
        continue;
      }
      if (at_ >= text_.size()) return false;
      const char escape = text_[at_++];
      static constexpr char FROM[] = "bfnrt/", TO[] = "\b\f\n\r\t/";
      if (escape == '"' || escape == '\\') {
        out_.push_back('\\');
        out_.push_back(escape);
      } else if (const char* found = std::strchr(FROM, escape); found && escape) {
        out_.push_back(TO[found - FROM]);
      } else if (escape == 'u') {
        u32 code;
        if (!unit(code)) return false;
        if (code >= 0xD800 && code < 0xDC00 && text_.compare(at_, 2, "\\u") == 0) {
          const std::size_t back = at_;
          at_ += 2;
          u32 low;
          if (!unit(low)) return false;
          if (low >= 0xDC00 && low < 0xE000) code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
          else at_ = back;
        }
        if (code == '"' || code == '\\') out_.push_back('\\');
        utf8(code);
      } else {
        return false;
      }
    }
    return false;
  }

  std::string digits() {
    std::string result;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') result.push_back(text_[at_++]);
    return result;
  }

  // Sign, digits without zeros at either end, exponent; the exponent is a decimal number of any size.
  bool number() {
    const bool negative = text_[at_] == '-';
    at_ += negative;
    const std::string whole = digits();
    if (whole.empty() || (whole.size() > 1 && whole[0] == '0')) return false;
    std::string fraction;
    if (at_ < text_.size() && text_[at_] == '.') {
      at_++;
      fraction = digits();
      if (fraction.empty()) return false;
    }
    std::string exponent;
    bool exponent_negative = false;
    if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
      at_++;
      if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) exponent_negative = text_[at_++] == '-';
      exponent = digits();
      if (exponent.empty()) return false;
    }
    std::string all = whole + fraction;
    const std::size_t first = all.find_first_not_of('0');
    if (first == std::string::npos) {
      out_ += '0';
      return true;
    }
    const std::size_t last = all.find_last_not_of('0');
    const i64 shift = static_cast<i64>(all.size() - 1 - last) - static_cast<i64>(fraction.size());
    exponent.erase(0, std::min(exponent.find_first_not_of('0'), exponent.size()));
    if (negative) out_.push_back('-');
    out_ += all.substr(first, last - first + 1);
    out_.push_back('e');
    if (exponent.size() <= 17) {
      const i64 value = exponent.empty() ? 0 : std::stoll(exponent);
      out_ += std::to_string((exponent_negative ? -value : value) + shift);
    } else {
      out_ += add_decimal(exponent, exponent_negative, shift);
    }
    return true;
  }

  // A decimal magnitude of 18 digits or more with a sign, plus a small number: it cannot change the sign.
  static std::string add_decimal(std::string magnitude, bool negative, i64 small) {
    const bool grows = (small >= 0) != negative;
    u64 carry = static_cast<u64>(small < 0 ? -small : small);
    if (grows) {
      for (std::size_t i = magnitude.size(); i-- > 0 && carry;) {
        carry += static_cast<u64>(magnitude[i] - '0');
        magnitude[i] = static_cast<char>('0' + carry % 10);
        carry /= 10;
      }
      while (carry) magnitude.insert(magnitude.begin(), static_cast<char>('0' + carry % 10)), carry /= 10;
    } else {
      for (std::size_t i = magnitude.size(); i-- > 0 && carry;) {
        const int take = static_cast<int>(carry % 10);
        carry /= 10;
        int digit = magnitude[i] - '0' - take;
        if (digit < 0) digit += 10, carry++;
        magnitude[i] = static_cast<char>('0' + digit);
      }
      magnitude.erase(0, magnitude.find_first_not_of('0'));
    }
    return (negative ? "-" : "") + magnitude;
  }
};

}  // namespace

std::string canonical_json(const std::string& text) {
  if (auto canonical = Canonical(text).run()) return *std::move(canonical);
  return "\x01" + text;
}

}  // namespace stackmask
