#include "vocabulary/node_sets.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "vocabulary/trie.h"

namespace stackmask {

// Many nodes by a bit for each node of the trie, and a bit above for each 64 of these, so that the others are passed over.
// PERF: comparisons, which no processor predicts, were a tenth of the first masks of numbers.
void sort_nodes(std::vector<NodeId>& nodes, u32 node_count) {
  constexpr std::size_t FEW_NODES = 24;  // are compared
  if (nodes.size() < FEW_NODES) {
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    return;
  }
  // Of the thread. PERF: to clear them once for each grammar took 2 % of first visits.
  static thread_local std::vector<u64> marks, marked;  // zero between calls
  const std::size_t words = node_count / 64 + 1;
  if (marks.size() < words) marked.resize(words / 64 + 1), marks.resize(words);  // the last tells that both are done
  for (const NodeId node : nodes) {
    marks[node >> 6] |= 1ull << (node & 63);
    marked[node >> 12] |= 1ull << (node >> 6 & 63);
  }
  nodes.clear();
  for (u32 above = 0; above < marked.size(); above++)
    for (u64 left = std::exchange(marked[above], 0); left; left &= left - 1) {
      const u32 w = above * 64 + static_cast<u32>(std::countr_zero(left));
      for (u64 rest = std::exchange(marks[w], 0); rest; rest &= rest - 1)
        nodes.push_back(NodeId(w * 64 + static_cast<u32>(std::countr_zero(rest))));
    }
}

const NodeSet* NodeSets::make(const NodeId* nodes, std::size_t count) const {
  if (bytes_ >= most_bytes_) return nullptr;
  const u32 id = keys_.intern(reinterpret_cast<const u32*>(nodes), count);
  if (id < sets_.size()) return sets_[id].get();
  auto made = std::make_unique<NodeSet>();
  made->number = id;
  for (std::size_t i = 0; i < count; i++) {
    const NodeId node = nodes[i];
    (trie_.nodes()[node].skip() > 1 ? made->nodes : made->leaves).push_back(node);
    made->large = made->large || trie_.large(node);
    for (const NodeId at : trie_.children(node)) made->bytes[trie_.nodes()[at].byte() >> 6] |= 1ull << (trie_.nodes()[at].byte() & 63);
    for (const TokenId token : trie_.tokens_at(node)) made->tokens.push_back(token);
  }
  if (made->tokens.size() > trie_.thresholds().set_tokens) {
    made->mask.assign(trie_.words(), 0);
    for (const TokenId token : made->tokens) set_bit(made->mask.data(), token);
  }
  bytes_ += sizeof(NodeSet) + 64 + (count * 2 + made->tokens.size() + made->mask.size()) * 4;
  sets_.push_back(std::move(made));
  return sets_.back().get();
}

const NodeSet* NodeSets::of(const NodeId* nodes, std::size_t count) const {
  const std::lock_guard lock(mutex_);
  return make(nodes, count);
}

const NodeSet* NodeSets::below(const NodeSet* set, u8 lo, u8 hi) const {
  const std::lock_guard lock(mutex_);
  const u64 key = static_cast<u64>(lo) << 8 | hi;
  if (const u32* found = set->steps.find(key)) return sets_[*found].get();
  PooledVector<NodeId> reached;
  for (const NodeId node : set->nodes) {
    if (trie_.wide(node)) {
      for (u32 b = lo; b <= hi; b++)
        if (const NodeId at = trie_.child(node, static_cast<u8>(b)); at != NONE) reached.push_back(at);
    } else {
      for (const NodeId at : trie_.children(node)) {
        if (trie_.nodes()[at].byte() > hi) break;
        if (trie_.nodes()[at].byte() >= lo) reached.push_back(at);
      }
    }
  }
  std::sort(reached.begin(), reached.end());
  const NodeSet* to = make(reached.data(), reached.size());
  if (to) set->steps.insert(key, to->number), bytes_ += 24;
  return to;
}

const NodeSet* NodeSets::run(const NodeSet* set, const AsciiSet& bytes, u32 left) const {
  left = std::min(left, trie_.max_token_bytes());
  const std::lock_guard lock(mutex_);
  for (const NodeSet::Run& run : set->runs)
    if (run.left == left && run.bytes == bytes) return run.to;
  const std::vector<NodeId> nodes = run_nodes(trie_, set->nodes, bytes, left);
  const NodeSet* to = make(nodes.data(), nodes.size());
  if (to) set->runs.push_back({bytes, left, to}), bytes_ += sizeof(NodeSet::Run);
  return to;
}

std::size_t NodeSets::bytes() const {
  const std::lock_guard lock(mutex_);
  return bytes_ + keys_.bytes();
}

std::vector<NodeId> run_nodes(const TokenTrie& trie, const std::vector<NodeId>& nodes, const AsciiSet& bytes, u32 left) {
  std::vector<NodeId> reached;
  for (const NodeId from : nodes)
    for (NodeId at{from + 1}, end = trie.after(from); at < end;) {
      if (!bytes.has(trie.nodes()[at].byte())) {
        at = trie.after(at);
        continue;
      }
      reached.push_back(at);
      at = static_cast<u32>(trie.nodes()[at].depth - trie.nodes()[from].depth) < left ? NodeId(at + 1) : trie.after(at);
    }
  sort_nodes(reached, trie.node_count());
  return reached;
}

}  // namespace stackmask
