#include "masks/denied_tokens.h"

#include <algorithm>

namespace stackmask {

// Strings without escapes are compared as text, down the trie; all
// other values by their canonical spelling.
void DeniedTokens::find_seen(std::span<const NodeId> nodes, StateId guard, std::vector<NodeId>& kept, std::vector<NodeId>& seen_nodes) {
  const StateId back = dfa_.guard_back(guard);
  const std::string before = dfa_.pending_text(guard);
  kept.clear();
  seen_nodes.clear();
  std::vector<std::string_view> values;
  for (const u32 id : dfa_.seen_ids(back)) values.push_back(dfa_.values().value(id));
  // If the characters of a value have only one spelling, only that text can be the value.
  bool plain = !dfa_.nfa().any_escapes && before.find('\\') == std::string::npos;
  for (const std::string_view value : values)
    for (std::size_t i = 0; i < value.size() && plain; i++)
      plain = static_cast<u8>(value[i]) >= 0x20 && value[i] != '\\' && value[i] != '/';
  dfa_.work().spend(values.size() * 4 + nodes.size() * 20);
  std::vector<NodeId> strings;  // nodes that complete a seen string
  for (const std::string_view value : values) {
    if (!plain || !value.starts_with('"') || !value.starts_with(before)) continue;
    NodeId at = TokenTrie::ROOT;
    for (std::size_t i = before.size(); i < value.size() && at != NONE; i++) at = trie_.child(at, static_cast<u8>(value[i]));
    if (at != NONE) strings.push_back(at);
  }
  std::sort(strings.begin(), strings.end());
  const NodeId quote = before.empty() ? trie_.child(TokenTrie::ROOT, '"') : NONE;
  const NodeId quote_end = quote == NONE ? TokenTrie::ROOT : trie_.after(quote);
  std::string path;
  for (const NodeId node : nodes) {
    bool seen;
    if (plain && (before.empty() ? quote != NONE && node >= quote && node < quote_end : before[0] == '"')) {
      seen = std::binary_search(strings.begin(), strings.end(), node);
    } else {
      path.clear();
      for (NodeId at = node; at != TokenTrie::ROOT; at = trie_.parent(at)) path.push_back(static_cast<char>(trie_.nodes()[at].byte()));
      std::reverse(path.begin(), path.end());
      seen = dfa_.was_seen(back, before + path);
    }
    (seen ? seen_nodes : kept).push_back(node);
  }
}

void DeniedTokens::split_refuted(StateId state, std::vector<NodeId>& left, std::vector<NodeId>& refuted, std::vector<NodeId>& unverified) {
  std::sort(left.begin(), left.end());
  auto sure = [&](NodeId node) {
    std::string path;
    for (NodeId at = node; at != TokenTrie::ROOT; at = trie_.parent(at)) {
      if (at != node && std::binary_search(left.begin(), left.end(), at)) return false;
      path.push_back(static_cast<char>(trie_.nodes()[at].byte()));
    }
    StateId at = state;
    for (std::size_t i = path.size(); i-- > 0 && at != DEAD;) at = dfa_.next(at, static_cast<u8>(path[i]));
    return at != DEAD && (!(dfa_[at].flags & STATE_FINAL) || dfa_.only_ends(at));
  };
  dfa_.work().spend(refuted.size() * 10 + left.size());
  std::erase_if(refuted, [&](NodeId node) {
    if (sure(node)) return false;
    unverified.push_back(node);
    return true;
  });
}

DeniedTokens::Waiting DeniedTokens::waiting(StackId configuration) {
  Waiting found;
  stacks_.each_edge(configuration, [&](const StackEdge& edge) {
    if (edge.state == BOTTOM) return false;
    if (!(dfa_[edge.state].flags & STATE_GUARD)) return (stacks_.guarded(edge.below) & GUARD_BELOW) != 0;
    if (!dfa_.seen_any(dfa_.guard_back(edge.state))) return false;
    const u32 text = dfa_.guard_text(edge.state);
    const bool in_string = text != IN_TOKEN && dfa_.texts().inside_string(text);
    (in_string ? found.string : found.other) = true;
    found.zero = found.zero || (text != IN_TOKEN && !in_string && dfa_.texts().number(text).find_first_not_of("-0.") == std::string::npos);
    return false;
  });
  return found;
}

void DeniedTokens::find_zeros(StackId configuration, bool own, std::vector<TokenId>& denied) {
  const TokenTrie::ZeroExponents& tokens = trie_.zero_exponents();
  const Waiting value = stacks_.guarded(configuration) & GUARD_BELOW ? waiting(configuration) : Waiting();
  auto try_all = [&](const std::vector<TokenId>& each, bool in_string) {
    for (const TokenId token : each) {
      const std::string& text = trie_.text(token);
      if (in_string && text.find('"') == std::string::npos) continue;
      dfa_.work().spend(4);
      if (steps_.step_bytes(configuration, text.data(), text.size()) == NO_STACK) add(token, denied);
    }
  };
  if (own || value.other || value.string) try_all(tokens.own, !own && !value.other);
  if (value.zero) try_all(tokens.begun, false);
}

// Denies the tokens at and below refuted nodes, and tries those at and below unverified ones one by one.
void DeniedTokens::find_denied(StackId configuration, const u32* allowed, std::vector<NodeId>& unverified, std::vector<NodeId>& refuted,
                               std::vector<TokenId>& denied) {
  auto in_mask = [&](TokenId token) { return !allowed || has_bit(allowed, token); };
  auto refuse = [&](NodeId node) {
    if (const TokenId token = trie_.nodes()[node].token; token != NONE && in_mask(token)) add(token, denied);
  };
  std::sort(refuted.begin(), refuted.end());
  std::sort(unverified.begin(), unverified.end());
  std::vector<std::pair<NodeId, NodeId>> spans;
  NodeId end = TokenTrie::ROOT;
  for (const NodeId first : refuted) {
    if (first < end) continue;
    end = trie_.after(first);
    dfa_.work().spend(end - first);
    for (const NodeId node : EachId<NodeId>{end, first}) refuse(node);
    spans.push_back({first, end});
  }
  end = TokenTrie::ROOT;
  auto span = spans.begin();
  for (const NodeId to_try : unverified) {
    const NodeId last = trie_.after(to_try);
    for (NodeId node = std::max(to_try, end); node < last; node = NodeId(node + 1)) {
      while (span != spans.end() && span->second <= node) ++span;
      if (span != spans.end() && node >= span->first) {
        node = NodeId(span->second - 1);
        continue;
      }
      const TokenId token = trie_.nodes()[node].token;
      if (token == NONE || !in_mask(token)) continue;
      const std::string& text = trie_.text(token);
      dfa_.work().spend(4);
      if (steps_.step_bytes(configuration, text.data(), text.size()) == NO_STACK) refuse(node);
    }
    end = std::max(end, last);
  }
}

}  // namespace stackmask
