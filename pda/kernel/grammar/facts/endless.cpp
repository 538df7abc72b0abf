// Finds the strings with infinitely many values, the nodes with parts in any order, and whether characters may be escaped needlessly.
#include <algorithm>
#include <cstdlib>

#include "grammar/facts/passes.h"

namespace stackmask {

namespace {

class Strings : StateSearch {
 public:
  Strings(const Expressions& expressions, Survey& survey) : StateSearch(expressions, survey) {}

  // The least solution: recursive vertices are looked at again until nothing changes, or a few times; a missed one does no harm.
  void find_endless() {
    std::vector<u8>& endless = facts_.endless;
    endless.assign(facts_.flags.size(), 0);
    bool changed = true;
    for (u32 pass = 0; changed && pass < MOST_PASSES; pass++) {
      changed = false;
      for (const u32 v : order_) {
        if (endless[v] || !is_endless(v, pass == 0)) continue;
        endless[v] = 1;
        changed = true;
      }
    }
  }

  // A recursive vertex counts as permuting, because its parts are not in order here.
  void find_permuting() {
    std::vector<u8>& permuting = facts_.permuting;
    permuting.assign(facts_.flags.size(), 0);
    for (const u32 v : order_) {
      permuting[v] = facts_.is_recursive(v) || (v < nodes_ && op(v) == OP_PERMUTE);
      each_child(v, [&](u32 c) { permuting[v] |= permuting[c]; });
    }
  }

  bool any_escapes() const {
    return std::any_of(order_.begin(), order_.end(), [this](u32 vertex) { return vertex < nodes_ && escapes(vertex); });
  }

 private:
  static constexpr u32 MOST_PASSES = 8, DEEPEST_LETTERS = 3;
  bool is_endless(u32 v, bool first) {
    auto holds = [&](u32 child) { return facts_.endless[child] != 0; };
    bool found = false;
    switch (v < nodes_ ? op(v) : OP_CALL) {
      case OP_EXCEPT: return true;
      case OP_AUTOMATON: return first && repeats_letters(v);
      case OP_REPEAT: {
        const i32 minimum = ex_.arg(v, 1), maximum = ex_.arg(v, 2);
        return maximum != 0 && (holds(operand(v)) || (maximum < 0 && minimum <= 1 && letters(operand(v)) > 1));
      }
      case OP_GRAPH: return reads_endless(v);
      case OP_PERMUTE: return permutes_endless(v);
      case OP_DISTINCT: return false;
      default: each_child(v, [&](u32 c) { found = found || holds(c); }); return found;
    }
  }
  // True if an edge on a way from the start to the end reads something endless.
  bool reads_endless(u32 node) {
    const std::size_t n = ex_.count(node);
    auto reads = [&](std::size_t i) { return ex_.arg(node, i + 2) >= 0 && facts_.endless[operand(node, i + 2)]; };
    bool any = false;
    for (std::size_t i = 1; i < n && !any; i += 3) any = reads(i);
    if (!any || !leads(node, PRODUCTIVE)) return false;  // now reached_ has the states that the start leads to
    std::vector<std::pair<u32, u32>> before;  // (state, a state that leads to it)
    for (std::size_t i = 1; i < n; i += 3)
      if (ex_.arg(node, i + 2) < 0 || facts_.is(operand(node, i + 2), PRODUCTIVE))
        before.push_back({operand(node, i + 1), operand(node, i)});
    std::sort(before.begin(), before.end());
    std::vector<u8> ends(operand(node), 0);
    ends[1] = 1;
    work_.assign(1, 1);
    while (!work_.empty()) {
      const u32 state = work_.back();
      work_.pop_back();
      for (auto e = std::lower_bound(before.begin(), before.end(), std::pair{state, 0u}); e != before.end() && e->first == state; ++e)
        if (!ends[e->second]) ends[e->second] = 1, work_.push_back(e->second);
    }
    for (std::size_t i = 1; i < n; i += 3)
      if (reads(i) && reached_[operand(node, i)] && ends[operand(node, i + 1)]) return true;
    return false;
  }
  // Whether an endless member may come and leave room for the required ones.
  bool permutes_endless(u32 node) const {
    const i32 maximum = ex_.arg(node, 2);
    i32 required = 0;
    for (std::size_t i = 3; i < ex_.count(node); i += 2) required += (ex_.arg(node, i + 1) & REQUIRED) != 0;
    for (std::size_t i = 3; i < ex_.count(node); i += 2) {
      const bool fits = maximum < 0 || 1 + required - ((ex_.arg(node, i + 1) & REQUIRED) != 0) <= maximum;
      if (fits && facts_.endless[operand(node, i)]) return true;
    }
    return false;
  }
  static u32 letters(i32 lo, i32 hi) { return static_cast<u32>(std::max(0, std::min<i32>(hi, 'z') - std::max<i32>(lo, 'a') + 1)); }
  // A lower bound on the number of single letters that are texts of the node.
  u32 letters(u32 node, u32 depth = 0) const {
    u32 count = 0;
    switch (op(node)) {
      case OP_BYTES:
      case OP_CHARS:
        for (std::size_t i = op(node) == OP_CHARS; i < ex_.count(node); i += 2) count += letters(ex_.arg(node, i), ex_.arg(node, i + 1));
        return count;
      case OP_ALT:
        for (std::size_t i = 0; i < ex_.count(node) && depth < DEEPEST_LETTERS; i++)
          count = std::max(count, letters(operand(node, i), depth + 1));
        return count;
      case OP_CALL: return depth < DEEPEST_LETTERS ? letters(body(operand(node)), depth + 1) : 0;
      default: return 0;
    }
  }
  // A reached state that leads to the end reads two or more letters and returns to itself.
  bool repeats_letters(u32 node) {
    if (counts_characters(ex_, node)) return false;
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

  // Whether a JSON text may spell a character by a needless escape.
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
  // Whether a JSON text that begins here or earlier may spell a character by a needless escape.
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
void find_permuting(const Expressions& expressions, Survey& survey) { Strings(expressions, survey).find_permuting(); }
bool any_escapes(const Expressions& expressions, Survey& survey) { return Strings(expressions, survey).any_escapes(); }

}  // namespace stackmask
