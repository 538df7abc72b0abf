#include "grammar/lowering/words.h"

#include <algorithm>
#include <array>

#include "grammar/lowering/repetitions.h"

namespace stackmask {

namespace {

// The code point at `at` of well-formed UTF-8; moves to where the next begins.
i32 decode(std::string_view text, std::size_t& at) {
  const u8 lead = static_cast<u8>(text[at++]);
  if (lead < 0x80) return lead;
  i32 code = lead < 0xE0 ? lead & 0x1F : lead < 0xF0 ? lead & 0x0F : lead & 0x07;
  for (i32 more = lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3; more > 0; more--) code = code << 6 | (static_cast<u8>(text[at++]) & 0x3F);
  return code;
}

}  // namespace

void WordWriter::alternatives(const Task& task) {
  const u32 first = static_cast<u32>(words_.size());
  const std::size_t n = ex_.count(task.node);
  for (std::size_t i = 0; i < n; i++) {
    const u32 alternative = operand(task.node, i);
    if (const Word word = word_of(alternative, task); word.literal != NONE) words_.push_back(word);
    else out_.part(task, static_cast<i32>(alternative), task.from, task.to);
  }
  out_.spend(4 * n);
  std::stable_sort(words_.begin() + first, words_.end(), [](const Word& a, const Word& b) { return a.behind < b.behind; });
  u32 kept = first;
  for (u32 begin = first, end = first; begin < words_.size(); begin = end) {
    std::size_t bytes = 0;
    const u32 behind = words_[begin].behind;
    for (; end < words_.size() && words_[end].behind == behind; end++) bytes += ex_.literal(words_[end].literal, 0).size();
    if (end - begin == 1 || bytes < sharing_bytes_) {
      for (u32 i = begin; i < end; i++) out_.part(task, static_cast<i32>(words_[i].alternative), task.from, task.to);
      continue;
    }
    const u32 from = kept;
    for (u32 i = begin; i < end; i++) words_[kept++] = words_[i];
    const Piece words{from, kept, 0, NONE};
    if (behind == NONE) {
      Task here = task;
      here.piece = out_.add_piece(words);
      out_.now(here);
    } else {
      const NfaStateId start = out_.state();
      out_.part(task, static_cast<i32>(behind), task.from, start);
      out_.defer_piece(task, start, task.to, words);
    }
  }
  words_.resize(kept);
}

// An alternative as a word; the literal is NONE if it is no word.
WordWriter::Word WordWriter::word_of(u32 alternative, const Task& task) const {
  Word word{alternative, NONE, NONE, NONE};
  u32 node = alternative;
  auto own = [&](u32 at) { return facts_.is(at, PRODUCTIVE) && !facts_.is(at, SHARED); };
  if (!own(node)) return word;
  if (ex_.nodes[node].op == OP_CALL) {
    const u32 called = operand(node, 0);
    node = rule_body(called);
    if (!out_.merges(vertex_of_rule(called), task) || !own(node)) return word;
    word.rule = called;
  }
  if (ex_.nodes[node].op == OP_SEQ && ex_.count(node) == 2 && !(task.in_body() && delimits_count(ex_, facts_, node))) {
    word.behind = operand(node, 0);
    node = operand(node, 1);
  }
  if (ex_.nodes[node].op == OP_LITERAL && own(node) && !ex_.literal(node, 0).empty()) word.literal = node;
  return word;
}

u32 WordWriter::origin_of(u32 rule, const Task& task) {
  if (rule == NONE) return task.origin;
  nfa().origins.push_back({rule, task.origin});
  return static_cast<u32>(nfa().origins.size() - 1);
}

void WordWriter::alternatives_piece(const Task& task) {
  const Piece at = out_.piece(task.piece);
  const auto begin = words_.begin() + at.first, end = words_.begin() + at.last;
  auto text_of = [&](const Word& word) { return ex_.literal(word.literal, 0); };
  // By their next byte; those that end here come first (counting sort).
  auto key = [&](const Word& word) { return text_of(word).size() == at.depth ? 0u : 1u + static_cast<u8>(text_of(word)[at.depth]); };
  out_.spend(64 + 2 * (at.last - at.first));
  std::array<u32, 258> ends{};
  for (auto w = begin; w != end; ++w) ends[key(*w) + 1]++;
  for (std::size_t i = 1; i < ends.size(); i++) ends[i] += ends[i - 1];
  PooledVector<Word> sorted;
  sorted.assign(begin, end);
  for (const Word& each : sorted) words_[at.first + ends[key(each)]++] = each;
  for (u32 i = at.first; i < at.last;) {
    const u32 from = i, group = key(words_[i]);
    while (i < at.last && key(words_[i]) == group) i++;
    if (group == 0) {
      out_.epsilon(task.from, task.to);
      continue;
    }
    if (i - from == 1) {
      const std::string_view rest = text_of(words_[from]).substr(at.depth);
      Task own = task;
      // The rest of a word that was single before has its origin already.
      if (at.last - at.first > 1) out_.place.origin = own.origin = origin_of(words_[from].rule, task);
      if (rest.size() <= spelled_bytes_) {
        out_.text(rest, task.from, task.to);
      } else {
        const NfaStateId below = out_.state();
        out_.text(rest.substr(0, spelled_bytes_), task.from, below);
        out_.defer_piece(own, below, task.to, {from, i, at.depth + spelled_bytes_, NONE});
      }
      out_.place.origin = task.origin;
      continue;
    }
    const NfaStateId below = out_.state();
    const i32 byte = static_cast<i32>(group - 1);
    out_.byte(task.from, below, byte, byte);
    out_.defer_piece(task, below, task.to, {from, i, at.depth + 1, NONE});
  }
}

// The trie of the words, with an end wherever no word ends, and a state for every text that has left it.
void WordWriter::except(const Task& task) {
  const NfaStateId outside = out_.state(), start = out_.state();
  nfa().states[outside].is_default = true;
  out_.epsilon(outside, task.to);
  out_.epsilon(task.from, start);
  const i32 all[] = {0, 0x10FFFF};
  out_.chars(outside, outside, all, 2, ex_.arg(task.node, 0));
  out_.defer_piece(task, start, task.to, {0, static_cast<u32>(ex_.count(task.node) - 1), 0, outside});
}

void WordWriter::except_piece(const Task& task) {
  const i32 encoding = ex_.arg(task.node, 0);
  const Piece at = out_.piece(task.piece);
  auto word = [&](std::size_t i) { return ex_.literal(task.node, i + 1); };
  PooledVector<i32> others;
  u32 i = at.first;
  if (i < at.last && word(i).size() == at.depth) i++;
  else out_.epsilon(task.from, task.to);
  i32 low = 0;
  bool bytes = encoding != JSON_ANY;  // each character that continues in words is one byte and has one spelling
  while (i < at.last) {
    std::size_t end = at.depth;
    const i32 code = decode(word(i), end);
    u32 j = i + 1;
    while (j < at.last && word(j).compare(at.depth, end - at.depth, word(i), at.depth, end - at.depth) == 0) j++;
    const NfaStateId below = out_.state();
    const i32 one[] = {code, code};
    out_.chars(task.from, below, one, 2, encoding);
    bytes = bytes && code < 0x80 && (encoding == UTF8 || (code >= 0x20 && code != '"' && code != '\\' && code != '/'));
    if (low < code) others.insert(others.end(), {low, code - 1});
    low = code + 1;
    out_.defer_piece(task, below, task.to, {i, j, static_cast<u32>(end), at.state});
    i = j;
  }
  if (bytes) {
    nfa().add_edge(task.from, EDGE_DEFAULT, at.state);
    nfa().add_edge(task.from, EDGE_NON_ASCII, at.state);
    return;
  }
  if (low <= 0x10FFFF) others.insert(others.end(), {low, 0x10FFFF});
  out_.chars(task.from, at.state, others.data(), others.size(), encoding);
}

}  // namespace stackmask
