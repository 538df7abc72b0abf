#include "vocabulary/classes.h"

#include <algorithm>
#include <numeric>

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

// A path that ends inside a character cannot be left there.
u64 complete(u64 inside) { return inside & ~SIG_INCOMPLETE; }

u32 largest(const Lengths& lengths) { return lengths->empty() ? 0 : lengths->back(); }

// The bounds of the lengths between two others. Different bounds with the same lengths between them have one answer, made once: counts are
// many, and only a few tokens are long. PERF: the mask behind a new count takes 5 us where no token is as long, and 10 elsewhere, instead
// of 84; without this and `takes_most` the steps of MaskBench take 6 % longer at p99.
struct Bounds {
  u32 low = 1, high = 0;
  Bounds(const Lengths& lengths, u32 least, u32 most) {
    const auto begin = std::lower_bound(lengths->begin(), lengths->end(), least), end = std::upper_bound(begin, lengths->end(), most);
    if (begin != end) low = *begin, high = end[-1];
  }
};

// The question that a memo's key belongs to. Values of different types may share one.
enum Question : u32 { LOOP_MASK, LOOP_MASK_WITH_EXITS, LOOP_TOKENS, LOOP_NODES, EXIT_PATHS, LOOP_EXITS /* and the exit */ };

struct Key {
  u32 words[6];
  Key(u32 question, NodeId node, u64 inside, u64 detail)
      : words{question,
              node,
              static_cast<u32>(inside),
              static_cast<u32>(inside >> 32),
              static_cast<u32>(detail),
              static_cast<u32>(detail >> 32)} {}
  Key(u32 question, NodeId node, u64 inside, const Bounds& bounds)
      : Key(question, node, inside, static_cast<u64>(bounds.low) << 32 | bounds.high) {}
  operator std::span<const u32>() const { return words; }
};

// A value that was made, and its bytes.
template <class Value>
auto made_with(Value&& value, std::size_t bytes) {
  return std::pair(std::forward<Value>(value), bytes);
}

std::pair<Lengths, std::size_t> made_with(std::vector<u32> lengths) {
  const std::size_t bytes = lengths.capacity() * sizeof(u32);
  return {std::make_shared<const std::vector<u32>>(std::move(lengths)), bytes};
}

u64 next_list() {
  static std::atomic<u64> lists = 0;
  return lists++;
}

// An id of a path, by the path's kind.
template <class AnyId>
struct Entry {
  u32 kind, exit;
  AnyId id;
};

// Sorted by the ranks of their kinds. Those of one kind keep their order.
template <class AnyId>
std::vector<Entry<AnyId>> by_rank(const std::vector<Entry<AnyId>>& entries, const std::vector<u32>& ranks) {
  std::vector<u32> begin(ranks.size() + 1, 0);
  for (const auto& entry : entries) begin[ranks[entry.kind] + 1]++;
  for (std::size_t rank = 0; rank < ranks.size(); rank++) begin[rank + 1] += begin[rank];
  std::vector<Entry<AnyId>> sorted(entries.size());
  for (const auto& entry : entries) sorted[begin[ranks[entry.kind]]++] = entry;
  return sorted;
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
  Interner kinds;  // the signature and the characters of a path
  auto kind_of = [&](u64 signature, u32 chars) {
    const u32 words[] = {static_cast<u32>(signature), static_cast<u32>(signature >> 32), chars};
    return kinds.intern(words, std::size(words));
  };
  struct Level {
    Path path;
    u32 kind;
  };
  std::vector<Level> levels(trie.max_token_bytes() + 1u);  // of the nodes above the next one
  levels[0].kind = kind_of(0, 0);
  std::vector<Entry<NodeId>> below, occurrences;
  std::vector<Entry<TokenId>> tokens;
  below.reserve(size), occurrences.reserve(size);
  node_signatures_.assign(size, 0);
  for (const NodeId at : trie.each_below(node)) {
    const u32 level = nodes[at].depth - base;
    const Level& before = levels[level - 1];
    const u8 byte = nodes[at].byte();
    occurrences.push_back({before.kind, byte, at});
    Path path = before.path;
    path.append(byte);
    if (path.space != NONE) occurrences.push_back({kind_of(path.before, path.chars - 1u), path.space, at});
    const u64 signature = path.ended();
    node_signatures_[at - node] = signature;
    const u32 kind = kind_of(signature, path.chars);
    below.push_back({kind, 0, at});
    if (nodes[at].token != NONE) {
      const u32 whole = path.pending ? kind_of(signature, path.chars + 1u) : kind;
      for (const TokenId token : trie.tokens_at(at)) tokens.push_back({whole, 0, token});
    }
    levels[level] = {path, kind};
  }
  std::vector<u32> kinds_in_order(kinds.size()), ranks(kinds.size());
  std::iota(kinds_in_order.begin(), kinds_in_order.end(), 0u);
  std::stable_sort(kinds_in_order.begin(), kinds_in_order.end(), [&](u32 a, u32 b) { return kinds.at(a)[2] < kinds.at(b)[2]; });
  for (u32 rank = 0; rank < ranks.size(); rank++) ranks[kinds_in_order[rank]] = rank;
  auto open = [&](auto& groups, u32 kind) {
    const u32* words = kinds.at(kind);
    groups.open(words[0] | static_cast<u64>(words[1]) << 32, words[2]);
  };
  for (const auto& entry : by_rank(tokens, ranks)) open(tokens_, entry.kind), tokens_.add(entry.id);
  for (const auto& entry : by_rank(below, ranks)) {
    open(inner_, entry.kind);
    if (nodes[entry.id].skip() > 1) inner_.add(entry.id);
  }
  for (const auto& entry : by_rank(occurrences, ranks)) open(occurrences_[entry.exit], entry.kind), occurrences_[entry.exit].add(entry.id);
  tokens_.shrink(), inner_.shrink();
  for (auto& groups : occurrences_) groups.shrink();
}

u32 ClassIndex::depth() const { return trie_.nodes()[node_].depth; }

std::shared_ptr<const LoopMask> ClassIndex::loop_mask(u64 inside, u32 chars) const {
  const Lengths lengths = token_lengths(inside);
  chars = Bounds(lengths, 0, chars).high;
  return memos_.get<std::shared_ptr<const LoopMask>>(Key(LOOP_MASK, node_, inside, chars), [&] {
    auto mask = std::make_shared<LoopMask>();
    // A count leaves most strings room for nearly all tokens: the others are taken out of the mask of all.
    const bool takes_most = chars < largest(lengths) && 2 * tokens_.size_up_to(chars) > tokens_.size();
    if (takes_most) mask->words = loop_mask(inside, NONE)->words;
    else mask->words.assign(trie_.words(), 0);
    tokens_.each(takes_most ? chars + 1 : 0, takes_most ? NONE : chars, [&](const auto& group, std::span<const TokenId> tokens) {
      if (!group.lies_in(inside)) return;
      for (const TokenId token : tokens) mask->words[token >> 5] ^= 1u << (token & 31);
    });
    return made_with(std::shared_ptr<const LoopMask>(std::move(mask)), trie_.words() * sizeof(u32));
  });
}

std::shared_ptr<const std::vector<TokenId>> ClassIndex::loop_tokens(u64 inside, u32 low, u32 high) const {
  const Bounds bounds(token_lengths(inside), low, high);
  return memos_.get<std::shared_ptr<const std::vector<TokenId>>>(Key(LOOP_TOKENS, node_, inside, bounds), [&] {
    auto found = std::make_shared<std::vector<TokenId>>(tokens_.inside(inside, bounds.low, bounds.high));
    const std::vector<u32>& place = trie_.order().place;
    std::sort(found->begin(), found->end(), [&](TokenId a, TokenId b) { return place[a] < place[b]; });
    const std::size_t bytes = found->capacity() * sizeof(TokenId);
    return made_with(std::move(found), bytes);
  });
}

std::shared_ptr<const LoopMask> ClassIndex::loop_mask_with_exits(u64 inside, u32 chars,
                                                                 std::span<const std::shared_ptr<const NodeList>> exits) const {
  chars = Bounds(token_lengths(inside), 0, chars).high;
  const Key head(LOOP_MASK_WITH_EXITS, node_, inside, chars);
  PooledVector<u32> key;
  key.assign(std::begin(head.words), std::end(head.words));
  for (const auto& exit : exits) key.insert(key.end(), {static_cast<u32>(exit->number), static_cast<u32>(exit->number >> 32)});
  return memos_.get<std::shared_ptr<const LoopMask>>(key, [&] {
    auto mask = std::make_shared<LoopMask>();
    mask->words = loop_mask(inside, chars)->words;
    for (const auto& exit : exits)
      for (const TokenId token : exit->tokens) set_bit(mask->words.data(), token);
    return made_with(std::shared_ptr<const LoopMask>(std::move(mask)), trie_.words() * sizeof(u32));
  });
}

std::shared_ptr<const NodeList> ClassIndex::loop_exits(u64 inside, u32 exit, u32 low, u32 high) const {
  return memos_.get<std::shared_ptr<const NodeList>>(Key(LOOP_EXITS + exit, node_, inside, static_cast<u64>(low) << 32 | high), [&] {
    auto list = std::make_shared<NodeList>(next_list());
    std::vector<NodeId> found = occurrences_[exit].inside(complete(inside), low, high);
    sort_nodes(found, trie_.node_count());
    for (const NodeId at : found) {
      for (const TokenId token : trie_.tokens_at(at)) list->tokens.push_back(token);
      (trie_.nodes()[at].skip() > 1 ? list->nodes : list->leaves).push_back(at);
      list->height = std::max<u32>(list->height, trie_.height(at));
    }
    const std::size_t bytes = bytes_of(*list);
    return made_with(std::shared_ptr<const NodeList>(std::move(list)), bytes);
  });
}

std::shared_ptr<const NodeList> ClassIndex::loop_exits_up_to(u64 inside, u32 exit, u32 most) const {
  const Lengths places = exit_places(inside, exit);
  return loop_exits(inside, exit, 0, most >= largest(places) ? NONE : Bounds(places, 0, most).high);
}

Lengths ClassIndex::exit_places(u64 inside, u32 exit) const {
  return memos_.get<Lengths>(Key(LOOP_EXITS + exit, node_, inside, 0),
                             [&] { return made_with(occurrences_[exit].lengths(complete(inside))); });
}

std::shared_ptr<const Paths> ClassIndex::exit_paths(u64 inside) const {
  return memos_.get<std::shared_ptr<const Paths>>(Key(EXIT_PATHS, node_, inside, 0), [&] {
    std::vector<NodeId> nodes;
    for (u32 exit = 0; exit < EXITS; exit++) {
      if ((signature_of_exit(exit) & inside) || (exit >= 256 && !(inside & SIG_NON_ASCII))) continue;
      const std::vector<NodeId> found = occurrences_[exit].inside(complete(inside), 0, NONE);
      nodes.insert(nodes.end(), found.begin(), found.end());
    }
    sort_nodes(nodes, trie_.node_count());
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
  const Bounds bounds(path_lengths(inside), low, high);
  return memos_.get<std::shared_ptr<const NodeList>>(Key(LOOP_NODES, node_, inside, bounds), [&] {
    auto list = std::make_shared<NodeList>(next_list());
    list->nodes = inner_.inside(complete(inside), bounds.low, bounds.high);
    sort_nodes(list->nodes, trie_.node_count());
    const std::size_t bytes = bytes_of(*list);
    return made_with(std::move(list), bytes);
  });
}

Lengths ClassIndex::token_lengths(u64 inside) const {
  return memos_.get<Lengths>(Key(LOOP_TOKENS, node_, inside, 0), [&] { return made_with(tokens_.lengths(inside)); });
}

Lengths ClassIndex::path_lengths(u64 inside) const {
  return memos_.get<Lengths>(Key(LOOP_NODES, node_, inside, 0), [&] { return made_with(inner_.lengths(inside)); });
}

u32 ClassIndex::longest_exit(u64 inside, u32 exit) const { return largest(exit_places(inside, exit)); }
u32 ClassIndex::longest_loop(u64 inside) const { return largest(token_lengths(inside)); }
u32 ClassIndex::longest_path(u64 inside) const { return largest(path_lengths(inside)); }

std::size_t ClassIndex::bytes() const {
  std::size_t total = tokens_.bytes() + inner_.bytes() + node_signatures_.capacity() * sizeof(u64);
  for (const auto& groups : occurrences_) total += groups.bytes();
  return total;
}

}  // namespace stackmask
