// Which strings have no end of values, and whether characters may be spelled by escapes that they do not need.
#include <algorithm>
#include <cstdlib>

#include "grammar/facts/passes.h"

namespace stackmask {

namespace {

class Strings : StateSearch {
 public:
  Strings(const Expressions& expressions, Survey& survey) : StateSearch(expressions, survey) {}

  // GRAPHs, counted repetitions, permutations and rules that call themselves are never found endless.
  void find_endless() {
    std::vector<u8>& endless = facts_.endless;
    endless.assign(facts_.flags.size(), 0);
    for (const u32 v : order_) {
      const i32 kind = v < nodes_ ? op(v) : OP_CALL;
      if (kind == OP_EXCEPT) endless[v] = 1;
      else if (kind == OP_AUTOMATON) endless[v] = repeats_letters(v);
      else if (kind == OP_REPEAT && ex_.arg(v, 2) < 0 && ex_.arg(v, 1) <= 1) endless[v] = endless[operand(v)] || letters(operand(v)) > 1;
      else if (kind != OP_REPEAT && kind != OP_GRAPH && kind != OP_PERMUTE && kind != OP_DISTINCT)
        each_child(v, [&](u32 c) { endless[v] |= endless[c]; });
    }
  }

  bool any_escapes() const {
    return std::any_of(order_.begin(), order_.end(), [this](u32 vertex) { return vertex < nodes_ && escapes(vertex); });
  }

 private:
  static u32 letters(i32 lo, i32 hi) { return static_cast<u32>(std::max(0, std::min<i32>(hi, 'z') - std::max<i32>(lo, 'a') + 1)); }
  u32 letters(u32 node) const {
    u32 count = 0;
    if (op(node) == OP_BYTES || op(node) == OP_CHARS)
      for (std::size_t i = op(node) == OP_CHARS; i < ex_.count(node); i += 2) count += letters(ex_.arg(node, i), ex_.arg(node, i + 1));
    return count;
  }
  // A state that is reached and leads on reads two letters or more and is back.
  bool repeats_letters(u32 node) {
    if (ex_.arg(node, 2) > 0 || ex_.arg(node, 3) >= 0) return false;
    std::vector<u32> least;
    automaton_lengths(ex_, node, least, nullptr);
    enter_automaton(node);
    while (!work_.empty()) {
      const u32 s = work_.back();
      work_.pop_back();
      u32 count = 0;
      for (u32 i = begin_[s] + 2, end = i + 3 * operand(node, begin_[s] + 1); i < end; i += 3) {
        const u32 target = operand(node, i + 2);
        if (target == s) count += letters(ex_.arg(node, i), ex_.arg(node, i + 1));
        if (reached_[target] || least[target] == NONE) continue;
        reached_[target] = 1;
        work_.push_back(target);
      }
      if (count > 1) return true;
    }
    return false;
  }

  // Whether a JSON text may spell a character by an escape that it does not need.
  bool escapes(u32 node) const {
    auto backslash = [](i32 lo, i32 hi) { return lo <= '\\' && '\\' <= hi; };
    const std::size_t n = ex_.count(node);
    switch (op(node)) {
      case OP_LITERAL: return odd_escape(ex_.literal(node, 0));
      case OP_BYTES:
        for (std::size_t i = 0; i < n; i += 2)
          if (backslash(ex_.arg(node, i), ex_.arg(node, i + 1))) return true;
        return false;
      case OP_CHARS:
        if (ex_.arg(node, 0) == JSON_ANY) return true;
        for (std::size_t i = 1; i < n && ex_.arg(node, 0) == UTF8; i += 2)
          if (backslash(ex_.arg(node, i), ex_.arg(node, i + 1))) return true;
        return false;
      case OP_EXCEPT: return ex_.arg(node, 0) != JSON;
      case OP_AUTOMATON: {
        if (ex_.arg(node, 0) == JSON) return false;
        if (ex_.arg(node, 0) == JSON_ANY) return true;
        std::size_t at = 4;
        for (i32 s = 0; s < ex_.arg(node, 1); s++) {
          const std::size_t end = at + 2 + 3 * operand(node, at + 1);
          for (at += 2; at < end; at += 3)
            if (backslash(ex_.arg(node, at), ex_.arg(node, at + 1))) return true;
        }
        return false;
      }
      default: return false;
    }
  }
  // A JSON text that begins here or before may spell a character by an escape that it does not need.
  static bool odd_escape(std::string_view data) {
    for (std::size_t i = data.find('\\'); i != std::string_view::npos; i = data.find('\\', i + 2)) {
      if (i + 1 >= data.size()) return true;
      if (data[i + 1] != 'u') continue;
      const u32 code = static_cast<u32>(std::strtoul(std::string(data.substr(i + 2, 4)).c_str(), nullptr, 16));
      if (i + 6 > data.size() || code >= 0x20 || (code >= 8 && code <= 13 && code != 11)) return true;
    }
    return false;
  }
};

}  // namespace

void find_endless(const Expressions& expressions, Survey& survey) { Strings(expressions, survey).find_endless(); }
bool any_escapes(const Expressions& expressions, Survey& survey) { return Strings(expressions, survey).any_escapes(); }

}  // namespace stackmask
