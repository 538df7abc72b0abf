#include "trie.h"

#include <algorithm>
#include <array>

namespace stackmask {

namespace {

// Classes: digits; a-f, g-z, A-F, G-Z; tab, newline, carriage return; other control characters; DEL; space and each
// punctuation mark by itself. DEL and the control characters must not share a class: JSON strings take one and not the other.
std::array<u8, 128> ascii_classes() {
  std::array<u8, 128> classes{};
  u8 next = 9;
  for (int b = 0; b < 128; b++) {
    if (b == '\t') classes[b] = 5;
    else if (b == '\n') classes[b] = 6;
    else if (b == '\r') classes[b] = 7;
    else if (b < 32) classes[b] = 8;
    else if (b >= '0' && b <= '9') classes[b] = 0;
    else if (b >= 'a' && b <= 'f') classes[b] = 1;
    else if (b >= 'g' && b <= 'z') classes[b] = 2;
    else if (b >= 'A' && b <= 'F') classes[b] = 3;
    else if (b >= 'G' && b <= 'Z') classes[b] = 4;
    else classes[b] = next++;
  }
  return classes;
}
const std::array<u8, 128> CLASSES = ascii_classes();

// Signature and UTF-8 state of a path, extended byte by byte. `low` and `high` bound the next continuation byte.
struct Path {
  u64 signature = 0;
  u16 chars = 0;
  u8 pending = 0, low = 0x80, high = 0xBF;
  u32 code = 0;          // of the character being read
  u64 before = 0;        // signature before it
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
    if (byte < 0x80) signature |= 1ull << CLASSES[byte], chars++;
    else if (byte >= 0xC2 && byte <= 0xDF) pending = 1;
    else if (byte >= 0xE0 && byte <= 0xEF) pending = 2, low = byte == 0xE0 ? 0xA0 : 0x80, high = byte == 0xED ? 0x9F : 0xBF;
    else if (byte >= 0xF0 && byte <= 0xF4) pending = 3, low = byte == 0xF0 ? 0x90 : 0x80, high = byte == 0xF4 ? 0x8F : 0xBF;
    else signature |= SIG_MALFORMED;
    if (pending) code = byte & (0x3Fu >> pending);
  }
  // The signature of a text that ends here.
  u64 ended() const { return pending ? signature | SIG_INCOMPLETE : signature; }
};

}  // namespace

std::string exit_text(u32 exit) {
  if (exit < 256) return std::string(1, static_cast<char>(exit));
  const u32 code = NON_ASCII_SPACES[exit - 256];
  if (code < 0x800) return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 63))};
  return {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 63)), static_cast<char>(0x80 | (code & 63))};
}

u64 signature_of_exit(u32 exit) { return exit < 128 ? signature_of_ascii(static_cast<u8>(exit)) : exit < 256 ? SIG_NON_ASCII : SIG_SPACE; }

u64 signature_of_ascii(u8 byte) { return 1ull << CLASSES[byte]; }

u64 signature_inside(const bool (&ascii)[128]) {
  u64 inside = (1ull << 60) - 1, used = 0;
  for (int b = 0; b < 128; b++) {
    used |= 1ull << CLASSES[b];
    if (!ascii[b]) inside &= ~(1ull << CLASSES[b]);
  }
  return inside & used;
}

TokenTrie::TokenTrie(const std::vector<std::pair<const char*, std::size_t>>& tokens, u32 size) : size_(size) {
  // Sort by the first eight bytes as a number, then by the rest: most comparisons never touch the text.
  struct Entry {
    u64 prefix;
    u32 id;
  };
  std::vector<Entry> order;
  order.reserve(tokens.size());
  texts_.resize(tokens.size());
  same_.assign(tokens.size(), -1);
  signatures_.assign(tokens.size(), ~0ull);
  chars_.assign(tokens.size(), 0);
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

  nodes_.push_back({0, -1});
  node_signatures_.push_back(0);
  node_chars_.push_back(0);
  depths_.push_back(0);
  parents_.push_back(0);
  std::vector<u32> path{0};  // nodes from the root to the last one
  std::vector<Path> paths{Path{}};
  std::string previous;
  auto close = [&](std::size_t depth) {
    while (path.size() > depth + 1) {
      const u32 node = path.back();
      nodes_[node].skip_byte |= (static_cast<u32>(nodes_.size()) - node) << 8;
      path.pop_back();
      paths.pop_back();
    }
  };
  i32 last = -1;
  for (const Entry& entry : order) {
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
        const Path& before = paths.back();
        occurrences_[byte].push_back({before.ended(), node, before.chars});
        Path extended = before;
        extended.append(byte);
        if (extended.space != NONE) occurrences_[extended.space].push_back({extended.before, node, extended.chars - 1u});
        node_signatures_.push_back(extended.ended());
        node_chars_.push_back(extended.chars);
        nodes_.push_back({byte, -1});
        depths_.push_back(static_cast<u16>(i + 1));
        parents_.push_back(path.back());
        path.push_back(node);
        paths.push_back(extended);
      }
      nodes_[path.back()].token = static_cast<i32>(entry.id);
      previous = text;
    }
    last = static_cast<i32>(entry.id);
    const Path& end = paths.back();
    signatures_[entry.id] = end.ended();
    chars_[entry.id] = static_cast<u16>(end.chars + (end.pending ? 1 : 0));
  }
  close(0);
  nodes_[0].skip_byte = static_cast<u32>(nodes_.size()) << 8;

  heights_.assign(nodes_.size(), 0);
  for (u32 node = static_cast<u32>(nodes_.size()); node-- > 1;) heights_[parents_[node]] = std::max(heights_[parents_[node]], static_cast<u16>(heights_[node] + 1));

  for (const Entry& entry : order) longest_first_.push_back(entry.id);
  std::stable_sort(longest_first_.begin(), longest_first_.end(), [this](u32 a, u32 b) { return chars_[a] > chars_[b]; });

  // Nodes with many children get a table of them.
  wide_index_.assign(nodes_.size(), NONE);
  std::vector<u16> fanout(nodes_.size(), 0);
  for (u32 node = 1; node < nodes_.size(); node++) fanout[parents_[node]]++;
  for (u32 node = 0; node < nodes_.size(); node++) {
    if (fanout[node] < 12) continue;
    wide_index_[node] = static_cast<u32>(wide_.size());
    wide_.emplace_back(256, NONE);
    for (u32 at = node + 1, end = node + nodes_[node].skip(); at < end; at += nodes_[at].skip()) wide_.back()[nodes_[at].byte()] = at;
  }
}

u32 TokenTrie::child(u32 node, u8 byte) const {
  if (wide_index_[node] != NONE) return wide_[wide_index_[node]][byte];
  for (u32 at = node + 1, end = node + nodes_[node].skip(); at < end; at += nodes_[at].skip())
    if (nodes_[at].byte() == byte) return at;
  return NONE;
}

const u32* TokenTrie::loop_mask(u64 inside, u32 chars) const {
  if (chars >= longest_loop(inside)) chars = NONE;
  else loop_mask(inside, NONE);  // the shorter ones are made of it
  const std::lock_guard lock(mutex_);
  auto& found = masks_[{inside, chars}];
  constexpr u32 FEW = 12;  // few tokens are longer
  if (const auto whole = masks_.find({inside, NONE}); !found && chars != NONE && chars >= FEW && whole != masks_.end()) {
    found = std::make_unique<std::vector<u32>>(*whole->second);
    for (const u32 id : longest_first_) {
      if (chars_[id] <= chars) break;
      (*found)[id >> 5] &= ~(1u << (id & 31));
    }
  }
  if (!found) {
    auto mask = std::make_unique<std::vector<u32>>(words(), 0);
    const u64 outside = ~inside;
    for (std::size_t id = 0; id < signatures_.size(); id++)
      (*mask)[id >> 5] |= static_cast<u32>((signatures_[id] & outside) == 0 && chars_[id] <= chars) << (id & 31);
    found = std::move(mask);
  }
  return found->data();
}

const std::vector<i32>& TokenTrie::loop_tokens(u64 inside, u32 low, u32 high) const {
  high = std::min(high, longest_loop(inside));
  low = std::min(low, high + 1);
  const std::lock_guard lock(mutex_);
  auto& found = tokens_[{inside, static_cast<u64>(low) << 32 | high}];
  if (!found) {
    found = std::make_unique<std::vector<i32>>();
    for (std::size_t id = 0; id < signatures_.size(); id++)
      if ((signatures_[id] & ~inside) == 0 && chars_[id] >= low && chars_[id] <= high) found->push_back(static_cast<i32>(id));
  }
  return *found;
}

const u32* TokenTrie::loop_mask_with_exits(u64 inside, u32 chars, const std::vector<std::pair<u32, u64>>& exits) const {
  chars = std::min(chars, longest_loop(inside));
  std::string key(reinterpret_cast<const char*>(&inside), 8);
  key.append(reinterpret_cast<const char*>(&chars), 4);
  for (const auto& [exit, range] : exits) {
    key.append(reinterpret_cast<const char*>(&exit), 4);
    key.append(reinterpret_cast<const char*>(&range), 8);
  }
  {
    const std::lock_guard lock(mutex_);
    if (auto found = exit_masks_.find(key); found != exit_masks_.end()) return found->second->data();
  }
  const u32* base = loop_mask(inside, chars);
  auto mask = std::make_unique<std::vector<u32>>(base, base + words());
  for (const auto& [exit, range] : exits)
    for (const i32 token : loop_exits(inside, exit, static_cast<u32>(range >> 32), static_cast<u32>(range))->tokens)
      (*mask)[static_cast<u32>(token) >> 5] |= 1u << (token & 31);
  const std::lock_guard lock(mutex_);
  auto& found = exit_masks_[key];
  if (!found) found = std::move(mask);
  return found->data();
}

const NodeList* TokenTrie::loop_exits(u64 inside, u32 exit, u32 low, u32 high) const {
  const u32 longest = longest_exit(inside, exit);
  low = std::min(low, longest + 1);
  high = std::min(high, longest);
  const std::lock_guard lock(mutex_);
  auto& found = exits_[{inside, static_cast<u64>(exit) << 48 | static_cast<u64>(low) << 24 | high}];
  if (!found) {
    auto list = std::make_unique<NodeList>();
    // A path that ends inside a character cannot be left there: INCOMPLETE must not be inside.
    const u64 outside = ~(inside & ~SIG_INCOMPLETE);
    for (const Occurrence& at : occurrences_[exit]) {
      if ((at.before & outside) != 0 || at.chars < low || at.chars > high) continue;
      for (i32 token = nodes_[at.node].token; token >= 0; token = same_[static_cast<std::size_t>(token)]) list->tokens.push_back(token);
      (nodes_[at.node].skip() > 1 ? list->nodes : list->leaves).push_back(at.node);
      list->height = std::max<u32>(list->height, heights_[at.node]);
    }
    found = std::move(list);
  }
  return found.get();
}

const std::vector<u16>& TokenTrie::exit_places(u64 inside, u32 exit) const {
  const std::lock_guard lock(mutex_);
  auto& found = places_[{inside, exit}];
  if (!found) {
    found = std::make_unique<std::vector<u16>>();
    const u64 outside = ~(inside & ~SIG_INCOMPLETE);
    for (const Occurrence& at : occurrences_[exit])
      if ((at.before & outside) == 0) found->push_back(static_cast<u16>(at.chars));
    std::sort(found->begin(), found->end());
    found->erase(std::unique(found->begin(), found->end()), found->end());
  }
  return *found;
}

const Paths* TokenTrie::exit_paths(u64 inside, u32 exit) const {
  const NodeList* list = loop_exits(inside, exit, 0, NONE);
  const std::lock_guard lock(mutex_);
  auto& found = paths_[{inside, exit}];
  if (!found) {
    std::vector<u32> nodes(list->nodes.size() + list->leaves.size());
    std::merge(list->nodes.begin(), list->nodes.end(), list->leaves.begin(), list->leaves.end(), nodes.begin());
    auto paths = std::make_unique<Paths>();
    std::string before, path;
    for (const u32 node : nodes) {
      path.assign(depths_[node], 0);
      for (u32 at = node, i = depths_[node]; i-- > 0; at = parents_[at]) path[i] = static_cast<char>(nodes_[at].byte());
      const std::size_t common = static_cast<std::size_t>(std::mismatch(path.begin(), path.end(), before.begin(), before.end()).first - path.begin());
      paths->ways.push_back({node, static_cast<u32>(paths->bytes.size()), static_cast<u16>(common)});
      paths->bytes.insert(paths->bytes.end(), path.begin() + static_cast<std::ptrdiff_t>(common), path.end());
      before.swap(path);
    }
    paths->ways.push_back({NONE, static_cast<u32>(paths->bytes.size()), 0});
    found = std::move(paths);
  }
  return found.get();
}

const NodeList* TokenTrie::loop_nodes(u64 inside, u32 high) const {
  high = std::min(high, longest_loop(inside) + 1);
  const std::lock_guard lock(mutex_);
  auto& found = exits_[{inside, 0xFFFFull << 48 | high}];
  if (!found) {
    auto list = std::make_unique<NodeList>();
    for (u32 node = 1; node < nodes_.size(); node++)
      if ((node_signatures_[node] & ~(inside & ~SIG_INCOMPLETE)) == 0 && node_chars_[node] <= high && nodes_[node].skip() > 1) list->nodes.push_back(node);
    found = std::move(list);
  }
  return found.get();
}

u32 TokenTrie::longest_exit(u64 inside, u32 exit) const {
  const std::lock_guard lock(mutex_);
  const auto [found, added] = longest_.try_emplace({inside, exit}, 0);
  if (added) {
    const u64 outside = ~(inside & ~SIG_INCOMPLETE);
    for (const Occurrence& at : occurrences_[exit])
      if ((at.before & outside) == 0) found->second = std::max(found->second, at.chars);
  }
  return found->second;
}

u32 TokenTrie::longest_loop(u64 inside) const {
  const std::lock_guard lock(mutex_);
  const auto [found, added] = longest_.try_emplace({inside, 0xFFFF}, 0);
  if (added)
    for (std::size_t id = 0; id < signatures_.size(); id++)
      if ((signatures_[id] & ~inside) == 0) found->second = std::max(found->second, static_cast<u32>(chars_[id]));
  return found->second;
}

std::size_t TokenTrie::bytes() const {
  std::size_t total = nodes_.capacity() * sizeof(TrieNode) + depths_.capacity() * 2 + parents_.capacity() * 4 + wide_index_.capacity() * 4 +
                      wide_.size() * 1024 + signatures_.capacity() * 8;
  for (const auto& list : occurrences_) total += list.capacity() * sizeof(Occurrence);
  for (const std::string& text : texts_) total += sizeof(std::string) + (text.capacity() > 15 ? text.capacity() : 0);
  return total;
}

}  // namespace stackmask
