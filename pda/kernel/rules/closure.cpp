#include <algorithm>
#include <array>
#include <bit>
#include <tuple>

#include "rules/nfa.h"

namespace stackmask {

// A radix sort, from the last byte to the first; bytes in which no two items differ are passed over.
void sort_many_items(std::vector<Item>& items) {
  auto key = [](const Item& item) { return static_cast<u64>(item.state) << 32 | item.reg; };
  u64 differing = 0;
  for (const Item& item : items) differing |= key(item) ^ key(items[0]);
  std::vector<Item> sorted(items.size());
  for (u32 shift = 0; shift < 64; shift += 8) {
    if ((differing >> shift & 0xFF) == 0) continue;
    std::array<u32, 257> begin{};
    for (const Item& item : items) begin[(key(item) >> shift & 0xFF) + 1]++;
    for (std::size_t byte = 0; byte < 256; byte++) begin[byte + 1] += begin[byte];
    for (const Item& item : items) sorted[begin[key(item) >> shift & 0xFF]++] = item;
    items.swap(sorted);
  }
}

bool TokenSet::contains(TokenId token) const {
  return negated ? has_bit(bits.data(), token) : std::binary_search(ids.begin(), ids.end(), token);
}

void Head::index_members() {
  bits.assign((flags.size() + 31) / 32, {});
  for (std::size_t i = 0; i < flags.size(); i++) {
    const u32 bit = 1u << (i % 32);
    bits[i / 32].possible |= flags[i] & NEVER_MEMBER ? 0 : bit;
    bits[i / 32].required |= flags[i] & REQUIRED ? bit : 0;
    bits[i / 32].repeatable |= flags[i] & REPEATABLE ? bit : 0;
  }
}

bool find_available(const Registers& registers, const Head& head, const Register& reg, std::vector<u32>& available) {
  const std::span<const u32> used = registers.used(reg.used);
  auto used_word = [&](std::size_t w) { return w < used.size() ? used[w] : 0; };
  available.assign(head.bits.size(), 0);
  u64 missing = 0;
  for (std::size_t w = 0; w < head.bits.size(); w++) missing += static_cast<u32>(std::popcount(head.bits[w].required & ~used_word(w)));
  const u64 after = reg.count + u64{1} + missing;  // members, after one that is not required and all that are missing
  if (head.maximum != NONE && after > head.maximum + u64{1}) return missing == 0;
  const bool only_missing = head.maximum != NONE && after > head.maximum;
  for (std::size_t w = 0; w < head.bits.size(); w++) {
    const Head::Bits& bits = head.bits[w];
    available[w] = bits.possible & (bits.repeatable | ~used_word(w)) & (only_missing ? bits.required & ~used_word(w) : ~0u);
  }
  return missing == 0;
}

bool Closure::seen(const Item& item) {
  Mark& mark = marks_[item.state];
  if (mark.epoch != epoch_) {
    mark = {epoch_, item.reg};
    return false;
  }
  if (mark.reg == item.reg) return true;
  const u64 key = static_cast<u64>(item.state) << 32 | item.reg;
  nfa_.work.spend(8);
  if (extra_.find(key)) return true;
  // If members of a permutation may read nothing, a closure is exponential in their number.
  if (++extra_count_ > MAX_REGISTERS)
    throw LimitExceeded("states", MAX_REGISTERS,
                        "one state of the automaton needs more than " + std::to_string(MAX_REGISTERS) + " counters");
  extra_.insert(key, 1);
  return false;
}

void Closure::expand_head(const Item& item, const Head& head) {
  const Register reg = registers_.get(item.reg);
  Register outside = reg;
  outside.leave();
  if (head.automaton) return add(head.body, item.reg);
  if (!head.permutation) {
    const bool free = reg.count == COUNT_FREE, deep = reg.count == COUNT_DEEP;
    const u32 last = reg.last();
    if (free || deep || head.maximum == NONE || last < head.maximum) {
      add(head.body, item.reg);
    } else if (reg.count < head.maximum) {
      Register inside = reg;
      inside.further = head.maximum - 1 - reg.count;
      add(head.body, registers_.id(inside));
    }
    if (!deep && (free || last >= head.minimum)) add(head.exit, registers_.id(outside));
    return;
  }
  nfa_.work.spend(4 + head.bits.size());
  const bool all_there = find_available(registers_, head, reg, available_);
  if (head.after_separator || reg.count == 0) {
    for (u32 w = 0; w < available_.size(); w++)
      for (u32 left = available_[w]; left; left &= left - 1) add(head.members[w * 32 + static_cast<u32>(std::countr_zero(left))], item.reg);
  }
  if (head.after_separator) return;
  if (reg.count > 0 && std::ranges::any_of(available_, [](u32 word) { return word != 0; })) add(head.body, item.reg);
  if (all_there && reg.count >= head.minimum) add(head.exit, registers_.id(outside));
}

// Whether the characters that can still be counted in a counted automaton may keep its bounds.
bool Closure::alive(const Counting& counting, const Item& item) const {
  if (counting.least == NONE) return false;
  const Head& head = nfa_.heads[counting.body];
  const u64 count = registers_.get(item.reg).count;
  if (count >= COUNT_DEEP) return true;
  return (head.maximum == NONE || count + counting.least <= head.maximum) &&
         (counting.most == NONE || count + counting.most >= head.minimum);
}

void Closure::run() {
  bool counts = false;
  while (!pending_.empty()) {
    const Item item = pending_.back();
    pending_.pop_back();
    if (seen(item)) continue;
    nfa_.work.at_nfa_state(item.state);
    nfa_.work.spend(2);
    if (nfa_.states[item.state].pending != NONE) {
      nfa_.expand(item.state);
      if (marks_.size() < nfa_.states.size()) marks_.resize(nfa_.states.size(), {0, ZERO_REGISTER});
    }
    const NfaState& state = nfa_.states[item.state];
    const Counting& counting = nfa_.countings[state.counting];
    if (state.counting) {
      if (counting.body != NONE && nfa_.heads[counting.body].automaton && !alive(counting, item)) continue;
      if (counting.head != NONE) {
        expand_head(item, nfa_.heads[counting.head]);
        continue;
      }
    }
    bool reads = false;
    for (u32 e = state.first; e != NONE; e = nfa_.edges[e].next) {
      const Edge& edge = nfa_.edges[e];
      switch (edge.kind) {
        case EDGE_EPSILON: add(edge.target, item.reg); break;
        case EDGE_ENTER: {
          Register reg = registers_.get(item.reg);
          reg.leave();
          add(edge.target, registers_.id(reg));
          break;
        }
        case EDGE_COUNT: {
          nfa_.work.spend(8);
          Register reg = registers_.get(item.reg);
          const Head& head = nfa_.heads[counting.body];
          if (reg.count < COUNT_DEEP) {
            reg.count++;
            if (head.maximum == NONE && reg.last() >= head.minimum) reg.set_count(COUNT_FREE);
          }
          add(edge.target, registers_.id(reg));
          break;
        }
        case EDGE_LEAVE: {
          Register reg = registers_.get(item.reg);
          if (reg.count == COUNT_DEEP || (reg.count != COUNT_FREE && reg.count < nfa_.heads[counting.body].minimum)) break;
          reg.leave();
          add(edge.target, registers_.id(reg));
          break;
        }
        case EDGE_MEMBER: {
          Register reg = registers_.get(item.reg);
          const Head& head = nfa_.heads[nfa_.counting(edge.target).head];
          // A repeatable member is remembered only if it is required: otherwise every object with undeclared keys would be a new state.
          nfa_.work.spend(4 + head.members.size() / 32);
          if (!(head.flags[edge.data] & REPEATABLE) || (head.flags[edge.data] & REQUIRED)) reg.used = registers_.use(reg.used, edge.data);
          reg.count++;
          if (head.maximum == NONE) reg.count = std::min(reg.count, std::max(head.minimum, 1u));
          add(edge.target, registers_.id(reg));
          break;
        }
        case EDGE_SET: add(edge.target, edge.reg()); break;
        case EDGE_CALL:
          reads = true;
          if (nfa_.rules[edge.callee()].nullable && !(edge.flags & EDGE_NONEMPTY)) add(edge.target, item.reg);
          break;
        case EDGE_NON_ASCII: break;
        default: reads = true; break;
      }
    }
    const Rule& rule = nfa_.rules[state.rule];
    counts |= state.counting != 0;
    if (reads) result.push_back(item);
    else if (item.state == rule.final) {
      Register reg;  // counts are over; the values that a scope has seen decide whether a value may be the last
      reg.seen = registers_.get(item.reg).seen;
      result.push_back({item.state, registers_.id(reg)});
    }
  }
  nfa_.work.spend(result.size() * 2);
  if (result.size() > 1) {
    sort_items(result);
    result.erase(std::unique(result.begin(), result.end()), result.end());
  }
  if (counts) unite_counts();
}

// Replaces the items of a state that differ by their counts by one item, if their counts allow the same as a range of counts does
// (counting-set automata, Turonova et al. 2020). After count c a body may follow min - c to max - c times. Two counts c < d allow the same
// as all counts from c to d if d - c is at most max - min + 1. Counts above the minimum allow nothing that the first of them does not.
//
//   (a+b?){2,9}, after "aaa"   counts 0 1 2   one item: 0 and two further
//
// Otherwise an ambiguous repetition has an item for each count, and a state of the DFA for each set of counts.
void Closure::unite_counts() {
  std::size_t out = 0;
  for (std::size_t i = 0; i < result.size();) {
    const std::size_t begin = i;
    const u32 body = nfa_.counting(result[i].state).body;
    while (i < result.size() && result[i].state == result[begin].state) i++;
    if (body == NONE || nfa_.heads[body].permutation || nfa_.heads[body].automaton) {
      for (std::size_t k = begin; k < i; k++) result[out++] = result[k];
      continue;
    }
    const Head& head = nfa_.heads[body];
    nfa_.work.spend(2 * (i - begin));
    if (i - begin == 1 && registers_.get(result[begin].reg).further == 0) {  // PERF: as in most states
      result[out++] = result[begin];
      continue;
    }
    united_.clear();
    for (std::size_t k = begin; k < i; k++) united_.push_back(registers_.get(result[k].reg));
    auto before = [](const Register& a, const Register& b) {
      return std::tie(a.used, a.seen, a.count, a.further) < std::tie(b.used, b.seen, b.count, b.further);
    };
    std::sort(united_.begin(), united_.end(), before);
    std::size_t last = 0;
    for (std::size_t k = 1; k < united_.size(); k++) {
      Register& kept = united_[last];
      const Register& next = united_[k];
      const u64 end = kept.last(), width = head.maximum == NONE ? NONE : head.maximum - head.minimum;
      if (kept.used != next.used || kept.seen != next.seen || next.count >= COUNT_DEEP || next.count > end + width + 1)
        united_[++last] = next;
      else kept.further = std::max(kept.further, next.count - kept.count + next.further);
    }
    united_.resize(last + 1);
    const std::size_t first = out;
    for (Register& reg : united_) {
      if (reg.count < COUNT_DEEP) {
        const u32 end = std::min(reg.last(), std::max(reg.count, head.minimum));
        if (head.maximum == NONE) reg.count = end;  // the last one allows everything that the others allow
        reg.further = end - reg.count;
      }
      result[out++] = {result[begin].state, registers_.id(reg)};
    }
    std::sort(result.begin() + static_cast<std::ptrdiff_t>(first), result.begin() + static_cast<std::ptrdiff_t>(out));
  }
  result.resize(out);
}

}  // namespace stackmask
