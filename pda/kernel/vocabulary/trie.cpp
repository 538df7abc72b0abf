#include "vocabulary/trie.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace stackmask {

namespace {
// Whether a token spells an exponent after zeros only: 1 in a number that began before it, 2 in a number of its own, 3 in both.
u8 zero_exponents_of(const std::string& text) {
  u8 found = 0;
  for (std::size_t at = 0; at < text.size(); at++) {
    if (text[at] != 'e' && text[at] != 'E') continue;
    const std::size_t next = at + 1 < text.size() && (text[at + 1] == '+' || text[at + 1] == '-') ? at + 2 : at + 1;
    if (next < text.size() && (text[next] < '0' || text[next] > '9')) continue;
    const std::size_t before = at ? text.find_last_not_of("-0.", at - 1) : std::string::npos;
    if (before == std::string::npos) found |= 1;
    else if (before + 1 < at && std::string_view("123456789eE+").find(text[before]) == std::string_view::npos) found |= 2;
  }
  return found;
}
}  // namespace

TokenTrie::TokenTrie(const std::vector<std::pair<const char*, std::size_t>>& tokens, u32 size, std::size_t set_bytes,
                     std::size_t class_bytes, const Thresholds& thresholds)
    : size_(size), thresholds_(thresholds), class_memos_(class_bytes), sets_(*this, set_bytes) {
  // Sort by the first eight bytes as a number, then by the rest: most comparisons never touch the text.
  struct Entry {
    u64 prefix;
    TokenId token;
  };
  std::vector<Entry> order;
  order.reserve(tokens.size());
  texts_.resize(tokens.size());
  next_duplicates_.assign(tokens.size(), NONE);
  for (u32 id = 0; id < tokens.size(); id++) {
    const auto& [data, length] = tokens[id];
    if (data == nullptr || length == 0) continue;
    if (length > 0xFFFF) throw BadGrammar("a token is longer than 65,535 bytes");
    texts_[id].assign(data, length);
    u64 prefix = 0;
    for (std::size_t i = 0; i < 8; i++) prefix = prefix << 8 | (i < length ? static_cast<u8>(data[i]) : 0);
    order.push_back({prefix, TokenId(id)});
    max_token_bytes_ = std::max(max_token_bytes_, static_cast<u32>(length));
  }
  std::sort(order.begin(), order.end(), [&](const Entry& a, const Entry& b) {
    if (a.prefix != b.prefix) return a.prefix < b.prefix;
    const int order_of = texts_[a.token].compare(texts_[b.token]);
    return order_of ? order_of < 0 : a.token < b.token;
  });

  nodes_.push_back({0, NONE, ROOT, 0, 0});
  std::vector<NodeId> path{ROOT};  // nodes from the root to the last one
  std::string previous;
  auto close = [&](std::size_t depth) {
    while (path.size() > depth + 1) {
      const NodeId node = path.back();
      nodes_[node].skip_byte |= (static_cast<u32>(nodes_.size()) - node) << 8;
      path.pop_back();
    }
  };
  constexpr std::size_t PREFETCHED = 16;  // PERF: texts lie in another order, and half of the time went to waiting for them
  TokenId last = NONE;
  for (std::size_t at = 0; at < order.size(); at++) {
    if ((at & 0xFFFF) == 0xFFFF) host.check();
    const Entry& entry = order[at];
    if (at + PREFETCHED < order.size()) prefetch(&texts_[order[at + PREFETCHED].token]);
    const std::string& text = texts_[entry.token];
    if (last != NONE && text == previous) {
      next_duplicates_[last] = entry.token;
      duplicates_ = true;
    } else {
      std::size_t common = 0;
      while (common < previous.size() && common < text.size() && previous[common] == text[common]) common++;
      close(common);
      for (std::size_t i = common; i < text.size(); i++) {
        const u8 byte = static_cast<u8>(text[i]);
        const NodeId node(node_count());
        if (node >= (1u << 24)) throw BadGrammar("the vocabulary needs more than 16 million trie nodes");
        nodes_.push_back({byte, NONE, path.back(), static_cast<u16>(i + 1), 0});
        path.push_back(node);
      }
      nodes_[path.back()].token = entry.token;
      const u8 zero = zero_exponents_of(text);
      if (zero & 1) zero_exponents_.begun.push_back(entry.token);
      if (zero & 2) zero_exponents_.own.push_back(entry.token);
      previous = text;
    }
    last = entry.token;
  }
  close(0);
  nodes_[ROOT].skip_byte = static_cast<u32>(nodes_.size()) << 8;

  heights_.assign(nodes_.size(), 0);
  for (u32 node = static_cast<u32>(nodes_.size()); node-- > 1;)
    heights_[nodes_[node].parent] = std::max(heights_[nodes_[node].parent], static_cast<u16>(heights_[node] + 1));

  host.check();
  const ClassIndex* all = classes(ROOT);
  host.check();
  ends_character_.resize(nodes_.size());
  for (const NodeId node : each_node()) ends_character_[node] = (all->signature(node) & (SIG_INCOMPLETE | SIG_MALFORMED)) == 0;

  // Nodes with many children get a table of them.
  std::vector<u16> fanout(nodes_.size(), 0);
  for (const NodeId node : each_below(ROOT)) fanout[nodes_[node].parent]++;
  u16 tables = 0;
  for (const NodeId node : each_node()) {
    if (tables == 0xFFFF) break;
    if (fanout[node] < thresholds_.wide_children) continue;
    child_tables_.resize(child_tables_.size() + 256, NONE);
    for (const NodeId at : children(node)) child_tables_[tables * 256u + nodes_[at].byte()] = at;
    nodes_[node].wide = ++tables;
  }
  // Made here, so that the first request does not pay for it.
  order_.before.reserve(nodes_.size() + 1);
  order_.place.assign(size_, 0);
  for (const NodeId node : each_node()) {
    order_.before.push_back(order_.tokens);
    for (const TokenId token : tokens_at(node)) order_.place[token] = order_.tokens++;
  }
  order_.before.push_back(order_.tokens);
  for (const NodeId node : each_below(ROOT))
    if (large(node)) classes(node);
}

NodeId TokenTrie::child(NodeId node, u8 byte) const {
  if (const u16 wide = nodes_[node].wide) return child_tables_[(wide - 1u) * 256 + byte];
  for (const NodeId at : children(node))
    if (nodes_[at].byte() == byte) return at;
  return NONE;
}

const ClassIndex* TokenTrie::classes(NodeId node) const {
  const std::lock_guard lock(mutex_);
  auto& found = classes_[node];
  if (!found) found = std::make_unique<ClassIndex>(*this, node, class_memos_);
  return found.get();
}

std::size_t TokenTrie::bytes() const {
  std::size_t total =
      nodes_.capacity() * sizeof(TrieNode) + child_tables_.capacity() * 4 + heights_.capacity() * 2 + ends_character_.capacity();
  const std::lock_guard lock(mutex_);
  total += sets_.bytes() + class_memos_.bytes();
  total += (order_.before.capacity() + order_.place.capacity()) * sizeof(u32);
  for (const auto& [node, index] : classes_) total += index->bytes();
  for (const std::string& text : texts_) total += sizeof(std::string) + (text.capacity() > 15 ? text.capacity() : 0);
  return total;
}

}  // namespace stackmask
