#include "vocabulary/classes.h"

#include <algorithm>

#include "vocabulary/trie.h"

namespace stackmask {

namespace {

// Signature and UTF-8 state of a path, extended byte by byte. `low` and `high` bound the next continuation byte.
struct Path {
  u64 signature = 0;
  u16 chars = 0;
  u8 pending = 0, low = 0x80, high = 0xBF;
  u32 code = 0;          // of the character so far
  u64 before = 0;        // signature before this character
  u32 space = NONE;      // the exit that just ended, if it is a space

  void append(u8 byte) {
    space = NONE;
    if (pending) {
      code = code << 6 | (byte & 0x3F);
      if (byte < low || byte > high) {
        signature |= SIG_MALFORMED;
        pending = 0;
      } else {
        low = 0x80, high = 0xBF;
        if (--pending == 0) {
          const u32* found = std::find(std::begin(NON_ASCII_SPACES), std::end(NON_ASCII_SPACES), code);
          if (found != std::end(NON_ASCII_SPACES)) space = 256 + static_cast<u32>(found - NON_ASCII_SPACES);
          before = signature;
          signature |= space == NONE ? SIG_NON_ASCII : SIG_SPACE;
          chars++;
        }
        return;
      }
    }
    low = 0x80, high = 0xBF;
    if (byte < 0x80) signature |= signature_of_ascii(byte), chars++;
    else if (byte >= 0xC2 && byte <= 0xDF) pending = 1;
    else if (byte >= 0xE0 && byte <= 0xEF) pending = 2, low = byte == 0xE0 ? 0xA0 : 0x80, high = byte == 0xED ? 0x9F : 0xBF;
    else if (byte >= 0xF0 && byte <= 0xF4) pending = 3, low = byte == 0xF0 ? 0x90 : 0x80, high = byte == 0xF4 ? 0x8F : 0xBF;
    else signature |= SIG_MALFORMED;
    if (pending) code = byte & (0x3Fu >> pending);
  }
  // The signature of a text that ends here.
  u64 ended() const { return pending ? signature | SIG_INCOMPLETE : signature; }
};

// The question that a memo's key belongs to. Values of different types may share one.
enum Question : u32 { LOOP_MASK, LOOP_MASK_WITH_EXITS, LOOP_TOKENS, LOOP_NODES, EXIT_PLACES, EXIT_PATHS, LOOP_EXITS /* and the exit */ };

struct Key {
  u32 words[6];
  Key(u32 question, NodeId node, u64 inside, u64 detail)
      : words{question,
              node,
              static_cast<u32>(inside),
              static_cast<u32>(inside >> 32),
              static_cast<u32>(detail),
              static_cast<u32>(detail >> 32)} {}
  operator std::span<const u32>() const { return words; }
};

// A value that was made, and its bytes.
template <class Value>
auto made_with(Value&& value, std::size_t bytes) {
  return std::pair(std::forward<Value>(value), bytes);
}

u64 next_list() {
  static std::atomic<u64> lists = 0;
  return lists++;
}

std::size_t bytes_of(const NodeList& list) {
  return sizeof(NodeList) + (list.nodes.capacity() + list.leaves.capacity()) * sizeof(NodeId) + list.tokens.capacity() * sizeof(TokenId);
}

}  // namespace

std::string exit_text(u32 exit) {
  if (exit < 256) return std::string(1, static_cast<char>(exit));
  const u32 code = NON_ASCII_SPACES[exit - 256];
  if (code < 0x800) return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
  return {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 63)), static_cast<char>(0x80 | (code & 63))};
}

u64 signature_inside(const AsciiSet& set) {
  u64 inside = 0;
  for (u32 c = 0; c < CLASSES.count; c++)
    if (set.holds(CLASSES.bytes[c])) inside |= 1ull << c;
  return inside;
}

AsciiSet ascii_inside(u64 inside) {
  AsciiSet set;
  for (u32 c = 0; c < CLASSES.count; c++)
    if (inside >> c & 1) set.add(CLASSES.bytes[c]);
  return set;
}

ClassIndex::ClassIndex(const TokenTrie& trie, NodeId node, ClassMemos& memos) : trie_(trie), node_(node), memos_(memos) {
  const TrieNode* nodes = trie.nodes();
  const u32 base = depth(), size = nodes[node].skip();
  std::vector<Path> paths(trie.max_token_bytes() + 1u);
  std::vector<std::pair<TokenId, NodeId>> ends;  // (token, node)
  node_signatures_.assign(size, 0);
  node_chars_.assign(size, 0);
  std::vector<u16> chars(size, 0);  // including the character that the node lies in
  for (const NodeId at : trie.each_below(node)) {
    const u32 level = nodes[at].depth - base;
    const Path& before = paths[level - 1];
    const u8 byte = nodes[at].byte();
    occurrences_[byte].push_back({before.ended(), at, before.chars});
    Path& path = paths[level];
    path = before;
    path.append(byte);
    if (path.space != NONE) occurrences_[path.space].push_back({path.before, at, path.chars - 1u});
    node_signatures_[at - node] = path.ended();
    node_chars_[at - node] = path.chars;
    chars[at - node] = static_cast<u16>(path.chars + (path.pending ? 1 : 0));
    for (const TokenId token : trie.tokens_at(at)) ends.push_back({token, at});
  }
  std::sort(ends.begin(), ends.end());
  for (const auto& [token, at] : ends) {
    tokens_.push_back(token);
    signatures_.push_back(node_signatures_[at - node]);
    chars_.push_back(chars[at - node]);
  }
  inner_begin_.assign(trie.max_token_bytes() + 2u, 0);
  auto each_inner = [&](auto visit) {
    for (u32 i = 1; i < size; i++)
      if (nodes[node + i].skip() > 1) visit(node_chars_[i], NodeId(node + i));
  };
  each_inner([&](u32 count, NodeId) { inner_begin_[count + 1]++; });
  for (std::size_t i = 1; i < inner_begin_.size(); i++) inner_begin_[i] += inner_begin_[i - 1];
  inner_.resize(inner_begin_.back());
  std::vector<u32> next(inner_begin_.begin(), inner_begin_.end() - 1);
  each_inner([&](u32 count, NodeId at) { inner_[next[count]++] = at; });
  for (u32 i = 0; i < tokens_.size(); i++) longest_first_.push_back(i);
  std::stable_sort(longest_first_.begin(), longest_first_.end(), [this](u32 a, u32 b) { return chars_[a] > chars_[b]; });
}

u32 ClassIndex::depth() const { return trie_.nodes()[node_].depth; }

std::shared_ptr<const LoopMask> ClassIndex::loop_mask(u64 inside, u32 chars) const {
  return memos_.get<std::shared_ptr<const LoopMask>>(Key(LOOP_MASK, node_, inside, chars), [&] {
    if (chars != NONE && chars >= longest_loop(inside)) return made_with(loop_mask(inside, NONE), trie_.words() * sizeof(u32));
    auto mask = std::make_shared<LoopMask>();
    if (chars != NONE && chars >= trie_.thresholds().trimmed_characters) {
      mask->words = loop_mask(inside, NONE)->words;
      for (const u32 i : longest_first_) {
        if (chars_[i] <= chars) break;
        clear_bit(mask->words.data(), tokens_[i]);
      }
    } else {
      mask->words.assign(trie_.words(), 0);
      const u64 outside = ~inside;
      for (std::size_t i = 0; i < tokens_.size(); i++)
        mask->words[tokens_[i] >> 5] |= static_cast<u32>((signatures_[i] & outside) == 0 && chars_[i] <= chars) << (tokens_[i] & 31);
    }
    return made_with(std::shared_ptr<const LoopMask>(std::move(mask)), trie_.words() * sizeof(u32));
  });
}

std::shared_ptr<const std::vector<TokenId>> ClassIndex::loop_tokens(u64 inside, u32 low, u32 high) const {
  high = std::min(high, longest_loop(inside));
  low = std::min(low, high + 1);
  return memos_.get<std::shared_ptr<const std::vector<TokenId>>>(Key(LOOP_TOKENS, node_, inside, static_cast<u64>(low) << 32 | high), [&] {
    auto found = std::make_shared<std::vector<TokenId>>();
    for (std::size_t i = 0; i < tokens_.size(); i++)
      if ((signatures_[i] & ~inside) == 0 && chars_[i] >= low && chars_[i] <= high) found->push_back(tokens_[i]);
    std::sort(found->begin(), found->end(), [this](TokenId a, TokenId b) { return trie_.text(a) < trie_.text(b); });
    const std::size_t bytes = found->capacity() * sizeof(TokenId);
    return made_with(std::move(found), bytes);
  });
}

std::shared_ptr<const LoopMask> ClassIndex::loop_mask_with_exits(u64 inside, u32 chars,
                                                                 const std::vector<std::pair<u32, u64>>& exits) const {
  const Key head(LOOP_MASK_WITH_EXITS, node_, inside, chars);
  PooledVector<u32> key;
  key.assign(std::begin(head.words), std::end(head.words));
  for (const auto& [exit, range] : exits) key.insert(key.end(), {exit, static_cast<u32>(range), static_cast<u32>(range >> 32)});
  return memos_.get<std::shared_ptr<const LoopMask>>(key, [&] {
    if (const u32 longest = longest_loop(inside); chars > longest)
      return made_with(loop_mask_with_exits(inside, longest, exits), trie_.words() * sizeof(u32));
    auto mask = std::make_shared<LoopMask>();
    mask->words = loop_mask(inside, chars)->words;
    for (const auto& [exit, range] : exits) {
      const auto list = loop_exits(inside, exit, static_cast<u32>(range >> 32), static_cast<u32>(range));
      for (const TokenId token : list->tokens) set_bit(mask->words.data(), token);
    }
    return made_with(std::shared_ptr<const LoopMask>(std::move(mask)), trie_.words() * sizeof(u32));
  });
}

std::shared_ptr<const NodeList> ClassIndex::loop_exits(u64 inside, u32 exit, u32 low, u32 high) const {
  return memos_.get<std::shared_ptr<const NodeList>>(Key(LOOP_EXITS + exit, node_, inside, static_cast<u64>(low) << 32 | high), [&] {
    // Bounds that no path comes near ask for the same list, which is then kept under both keys: a known one costs one lookup.
    const u32 longest = longest_exit(inside, exit);
    if (low > longest + 1 || high > longest) {
      auto known = loop_exits(inside, exit, std::min(low, longest + 1), std::min(high, longest));
      const std::size_t bytes = bytes_of(*known);
      return made_with(std::move(known), bytes);
    }
    auto list = std::make_shared<NodeList>(next_list());
    // A path that ends inside a character cannot be left there, so INCOMPLETE must not be inside.
    const u64 outside = ~(inside & ~SIG_INCOMPLETE);
    for (const Occurrence& at : occurrences_[exit]) {
      if ((at.before & outside) != 0 || at.chars < low || at.chars > high) continue;
      for (const TokenId token : trie_.tokens_at(at.node)) list->tokens.push_back(token);
      (trie_.nodes()[at.node].skip() > 1 ? list->nodes : list->leaves).push_back(at.node);
      list->height = std::max<u32>(list->height, trie_.height(at.node));
    }
    const std::size_t bytes = bytes_of(*list);
    return made_with(std::shared_ptr<const NodeList>(std::move(list)), bytes);
  });
}

std::shared_ptr<const std::vector<u16>> ClassIndex::exit_places(u64 inside, u32 exit) const {
  return memos_.get<std::shared_ptr<const std::vector<u16>>>(Key(EXIT_PLACES, node_, inside, exit), [&] {
    auto found = std::make_shared<std::vector<u16>>();
    const u64 outside = ~(inside & ~SIG_INCOMPLETE);
    for (const Occurrence& at : occurrences_[exit])
      if ((at.before & outside) == 0) found->push_back(static_cast<u16>(at.chars));
    std::sort(found->begin(), found->end());
    found->erase(std::unique(found->begin(), found->end()), found->end());
    found->shrink_to_fit();
    const std::size_t bytes = found->capacity() * sizeof(u16);
    return made_with(std::move(found), bytes);
  });
}

std::shared_ptr<const Paths> ClassIndex::exit_paths(u64 inside) const {
  return memos_.get<std::shared_ptr<const Paths>>(Key(EXIT_PATHS, node_, inside, 0), [&] {
    std::vector<NodeId> nodes;
    const u64 outside = ~(inside & ~SIG_INCOMPLETE);
    for (u32 exit = 0; exit < EXITS; exit++) {
      if ((signature_of_exit(exit) & inside) || (exit >= 256 && !(inside & SIG_NON_ASCII))) continue;
      for (const Occurrence& at : occurrences_[exit])
        if ((at.before & outside) == 0) nodes.push_back(at.node);
    }
    std::sort(nodes.begin(), nodes.end());
    auto paths = std::make_shared<Paths>();
    std::string before, path;
    for (const NodeId node : nodes) {
      path.assign(trie_.nodes()[node].depth - depth(), 0);
      NodeId at = node;
      for (std::size_t i = path.size(); i-- > 0; at = trie_.parent(at)) path[i] = static_cast<char>(trie_.nodes()[at].byte());
      const auto differs = std::mismatch(path.begin(), path.end(), before.begin(), before.end()).first;
      paths->ways.push_back({node, static_cast<u32>(paths->bytes.size()), static_cast<u16>(differs - path.begin())});
      paths->bytes.insert(paths->bytes.end(), differs, path.end());
      before.swap(path);
    }
    paths->ways.push_back({NONE, static_cast<u32>(paths->bytes.size()), 0});
    const std::size_t bytes = sizeof(Paths) + paths->ways.capacity() * sizeof(Paths::Way) + paths->bytes.capacity();
    return made_with(std::move(paths), bytes);
  });
}

std::shared_ptr<const NodeList> ClassIndex::loop_nodes(u64 inside, u32 low, u32 high) const {
  high = std::min(high, longest_path(inside));
  low = std::min(low, high + 1);
  return memos_.get<std::shared_ptr<const NodeList>>(Key(LOOP_NODES, node_, inside, static_cast<u64>(low) << 32 | high), [&] {
    auto list = std::make_shared<NodeList>(next_list());
    const u64 outside = ~(inside & ~SIG_INCOMPLETE);
    auto add = [&](NodeId node) {
      if ((signature(node) & outside) == 0) list->nodes.push_back(node);
    };
    if (low == high) {  // PERF: a chain whose states leave asks for each number: 120 passes over all nodes took 70 ms
      for (u32 i = inner_begin_[low]; i < inner_begin_[low + 1]; i++) add(inner_[i]);
    } else {
      for (u32 i = 1; i < node_chars_.size(); i++)
        if (node_chars_[i] >= low && node_chars_[i] <= high && trie_.nodes()[node_ + i].skip() > 1) add(NodeId(node_ + i));
    }
    const std::size_t bytes = bytes_of(*list);
    return made_with(std::move(list), bytes);
  });
}

u32 ClassIndex::longest_exit(u64 inside, u32 exit) const {
  return memos_.get<u32>(Key(LOOP_EXITS + exit, node_, inside, 0), [&] {
    u32 longest = 0;
    const u64 outside = ~(inside & ~SIG_INCOMPLETE);
    for (const Occurrence& at : occurrences_[exit])
      if ((at.before & outside) == 0) longest = std::max(longest, at.chars);
    return made_with(u32{longest}, 0);
  });
}

u32 ClassIndex::longest_loop(u64 inside) const {
  return memos_.get<u32>(Key(LOOP_MASK, node_, inside, 0), [&] {
    u32 longest = 0;
    for (std::size_t i = 0; i < tokens_.size(); i++)
      if ((signatures_[i] & ~inside) == 0) longest = std::max(longest, static_cast<u32>(chars_[i]));
    return made_with(u32{longest}, 0);
  });
}

u32 ClassIndex::longest_path(u64 inside) const {
  return memos_.get<u32>(Key(LOOP_NODES, node_, inside, 0), [&] {
    u32 longest = 0;
    for (std::size_t i = 0; i < node_signatures_.size(); i++)
      if ((node_signatures_[i] & ~inside) == 0) longest = std::max<u32>(longest, node_chars_[i]);
    return made_with(u32{longest}, 0);
  });
}

std::size_t ClassIndex::bytes() const {
  std::size_t total = tokens_.capacity() * 4 + signatures_.capacity() * 8 + chars_.capacity() * 2 + longest_first_.capacity() * 4 +
                      node_signatures_.capacity() * 8 + node_chars_.capacity() * 2 + (inner_.capacity() + inner_begin_.capacity()) * 4;
  for (const auto& list : occurrences_) total += list.capacity() * sizeof(Occurrence);
  return total;
}

}  // namespace stackmask
