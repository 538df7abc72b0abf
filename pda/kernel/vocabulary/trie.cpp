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
    : size_(size), thresholds_(thresholds), class_memos_(class_bytes), most_set_bytes_(set_bytes) {
  // Sort by the first eight bytes as a number, then by the rest: most comparisons never touch the text.
  struct Entry {
    u64 prefix;
    u32 id;
  };
  std::vector<Entry> order;
  order.reserve(tokens.size());
  texts_.resize(tokens.size());
  same_.assign(tokens.size(), -1);
  for (u32 id = 0; id < tokens.size(); id++) {
    const auto& [data, length] = tokens[id];
    if (data == nullptr || length == 0) continue;
    if (length > 0xFFFF) throw BadGrammar("a token is longer than 65,535 bytes");
    texts_[id].assign(data, length);
    u64 prefix = 0;
    for (std::size_t i = 0; i < 8; i++) prefix = prefix << 8 | (i < length ? static_cast<u8>(data[i]) : 0);
    order.push_back({prefix, id});
    max_token_bytes_ = std::max(max_token_bytes_, static_cast<u32>(length));
  }
  std::sort(order.begin(), order.end(), [&](const Entry& a, const Entry& b) {
    if (a.prefix != b.prefix) return a.prefix < b.prefix;
    const int order_of = texts_[a.id].compare(texts_[b.id]);
    return order_of ? order_of < 0 : a.id < b.id;
  });

  nodes_.push_back({0, -1, 0, 0, 0});
  std::vector<u32> path{0};  // nodes from the root to the last one
  std::string previous;
  auto close = [&](std::size_t depth) {
    while (path.size() > depth + 1) {
      const u32 node = path.back();
      nodes_[node].skip_byte |= (static_cast<u32>(nodes_.size()) - node) << 8;
      path.pop_back();
    }
  };
  i32 last = -1;
  u32 entries = 0;
  for (const Entry& entry : order) {
    if ((++entries & 0xFFFF) == 0) host.check();
    const std::string& text = texts_[entry.id];
    if (last >= 0 && text == previous) {
      same_[last] = static_cast<i32>(entry.id);
      duplicates_ = true;
    } else {
      std::size_t common = 0;
      while (common < previous.size() && common < text.size() && previous[common] == text[common]) common++;
      close(common);
      for (std::size_t i = common; i < text.size(); i++) {
        const u8 byte = static_cast<u8>(text[i]);
        const u32 node = static_cast<u32>(nodes_.size());
        if (node >= (1u << 24)) throw BadGrammar("the vocabulary needs more than 16 million trie nodes");
        nodes_.push_back({byte, -1, path.back(), static_cast<u16>(i + 1), 0});
        path.push_back(node);
      }
      nodes_[path.back()].token = static_cast<i32>(entry.id);
      const u8 zero = zero_exponents_of(text);
      if (zero & 1) zero_exponents_.begun.push_back(static_cast<i32>(entry.id));
      if (zero & 2) zero_exponents_.own.push_back(static_cast<i32>(entry.id));
      previous = text;
    }
    last = static_cast<i32>(entry.id);
  }
  close(0);
  nodes_[0].skip_byte = static_cast<u32>(nodes_.size()) << 8;

  heights_.assign(nodes_.size(), 0);
  for (u32 node = static_cast<u32>(nodes_.size()); node-- > 1;)
    heights_[nodes_[node].parent] = std::max(heights_[nodes_[node].parent], static_cast<u16>(heights_[node] + 1));

  host.check();
  const ClassIndex* all = classes(0);
  host.check();
  whole_.resize(nodes_.size());
  for (u32 node = 0; node < nodes_.size(); node++) whole_[node] = (all->signature(node) & (SIG_INCOMPLETE | SIG_MALFORMED)) == 0;

  // Nodes with many children get a table of them.
  std::vector<u16> fanout(nodes_.size(), 0);
  for (u32 node = 1; node < nodes_.size(); node++) fanout[nodes_[node].parent]++;
  u16 tables = 0;
  for (u32 node = 0; node < nodes_.size() && tables < 0xFFFF; node++) {
    if (fanout[node] < thresholds_.wide_children) continue;
    wide_.resize(wide_.size() + 256, NONE);
    for (u32 at = node + 1, end = node + nodes_[node].skip(); at < end; at += nodes_[at].skip())
      wide_[tables * 256u + nodes_[at].byte()] = at;
    nodes_[node].wide = ++tables;
  }
  // Made here, so that the first request does not pay for it.
  for (u32 node = 1; node < nodes_.size(); node++)
    if (heavy(node)) classes(node);
}

u32 TokenTrie::child(u32 node, u8 byte) const {
  if (const u16 wide = nodes_[node].wide) return wide_[(wide - 1u) * 256 + byte];
  for (u32 at = node + 1, end = node + nodes_[node].skip(); at < end; at += nodes_[at].skip())
    if (nodes_[at].byte() == byte) return at;
  return NONE;
}

const ClassIndex* TokenTrie::classes(u32 node) const {
  const std::lock_guard lock(mutex_);
  auto& found = classes_[node];
  if (!found) found = std::make_unique<ClassIndex>(*this, node, class_memos_);
  return found.get();
}

const NodeSet* TokenTrie::make_set(const u32* nodes, std::size_t count) const {
  if (set_bytes_ >= most_set_bytes_) return nullptr;
  const u32 id = set_keys_.intern(nodes, count);
  if (id < sets_.size()) return sets_[id].get();
  auto made = std::make_unique<NodeSet>();
  made->number = id;
  for (std::size_t i = 0; i < count; i++) {
    const u32 node = nodes[i];
    (nodes_[node].skip() > 1 ? made->nodes : made->leaves).push_back(node);
    made->heavy = made->heavy || heavy(node);
    for (u32 at = node + 1, end = node + nodes_[node].skip(); at < end; at += nodes_[at].skip())
      made->bytes[nodes_[at].byte() >> 6] |= 1ull << (nodes_[at].byte() & 63);
    for (i32 token = nodes_[node].token; token >= 0; token = same(token)) made->tokens.push_back(token);
  }
  if (made->tokens.size() > thresholds_.set_tokens) {
    made->mask.assign(words(), 0);
    for (const i32 token : made->tokens) made->mask[static_cast<u32>(token) >> 5] |= 1u << (token & 31);
  }
  set_bytes_ += sizeof(NodeSet) + 64 + (count * 2 + made->tokens.size() + made->mask.size()) * 4;
  sets_.push_back(std::move(made));
  return sets_.back().get();
}

const NodeSet* TokenTrie::set(const u32* nodes, std::size_t count) const {
  const std::lock_guard lock(mutex_);
  return make_set(nodes, count);
}

const NodeSet* TokenTrie::below(const NodeSet* set, u8 lo, u8 hi) const {
  const std::lock_guard lock(mutex_);
  const u64 key = static_cast<u64>(lo) << 8 | hi;
  if (const u32* found = set->steps.find(key)) return sets_[*found].get();
  Scratch<u32> reached;
  for (const u32 node : set->nodes) {
    if (wide(node)) {
      for (u32 b = lo; b <= hi; b++)
        if (const u32 at = child(node, static_cast<u8>(b)); at != NONE) reached.push_back(at);
    } else {
      for (u32 at = node + 1, end = node + nodes_[node].skip(); at < end && nodes_[at].byte() <= hi; at += nodes_[at].skip())
        if (nodes_[at].byte() >= lo) reached.push_back(at);
    }
  }
  std::sort(reached.begin(), reached.end());
  const NodeSet* to = make_set(reached.data(), reached.size());
  if (to) set->steps.insert(key, to->number), set_bytes_ += 24;
  return to;
}

const NodeSet* TokenTrie::run(const NodeSet* set, const AsciiSet& bytes, u32 left) const {
  left = std::min(left, max_token_bytes_);
  const std::lock_guard lock(mutex_);
  for (const NodeSet::Run& run : set->runs)
    if (run.left == left && run.bytes == bytes) return run.to;
  const std::vector<u32> nodes = run_nodes(set->nodes, bytes, left);
  const NodeSet* to = make_set(nodes.data(), nodes.size());
  if (to) set->runs.push_back({bytes, left, to}), set_bytes_ += sizeof(NodeSet::Run);
  return to;
}

std::vector<u32> TokenTrie::run_nodes(const std::vector<u32>& nodes, const AsciiSet& bytes, u32 left) const {
  std::vector<u32> reached;
  for (const u32 from : nodes)
    for (u32 at = from + 1, end = from + nodes_[from].skip(); at < end;) {
      if (!bytes.has(nodes_[at].byte())) {
        at += nodes_[at].skip();
        continue;
      }
      reached.push_back(at);
      at += static_cast<u32>(nodes_[at].depth - nodes_[from].depth) < left ? 1 : nodes_[at].skip();
    }
  std::sort(reached.begin(), reached.end());
  reached.erase(std::unique(reached.begin(), reached.end()), reached.end());
  return reached;
}

const TokenTrie::Order& TokenTrie::order() const {
  const std::lock_guard lock(mutex_);
  if (order_) return *order_;
  auto made = std::make_unique<Order>();
  made->before.reserve(nodes_.size() + 1);
  made->place.assign(size_, 0);
  for (const TrieNode& node : nodes_) {
    made->before.push_back(made->tokens);
    for (i32 token = node.token; token >= 0; token = same(token)) made->place[static_cast<u32>(token)] = made->tokens++;
  }
  made->before.push_back(made->tokens);
  order_ = std::move(made);
  return *order_;
}

std::size_t TokenTrie::bytes() const {
  std::size_t total = nodes_.capacity() * sizeof(TrieNode) + wide_.capacity() * 4 + heights_.capacity() * 2 + whole_.capacity();
  const std::lock_guard lock(mutex_);
  total += set_bytes_ + set_keys_.bytes() + class_memos_.bytes();
  if (order_) total += (order_->before.capacity() + order_->place.capacity()) * sizeof(u32);
  for (const auto& [node, index] : classes_) total += index->bytes();
  for (const std::string& text : texts_) total += sizeof(std::string) + (text.capacity() > 15 ? text.capacity() : 0);
  return total;
}

}  // namespace stackmask
