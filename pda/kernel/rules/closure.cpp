#include <algorithm>

#include "rules/nfa.h"

namespace stackmask {

bool TokenSet::contains(u32 id) const { return negated ? bits[id >> 5] >> (id & 31) & 1 : std::binary_search(ids.begin(), ids.end(), id); }

bool member_available(const Registers& registers, const Head& head, const Register& reg, u32 member) {
  if (head.flags[member] & NEVER_MEMBER) return false;
  if (!(head.flags[member] & REPEATABLE) && registers.used(reg.used, member)) return false;
  if (head.maximum == NONE) return true;
  u64 required = 0;
  for (u32 i = 0; i < head.members.size(); i++) required += (head.flags[i] & REQUIRED) && i != member && !registers.used(reg.used, i);
  return reg.count + 1 + required <= head.maximum;
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
  // Members of a permutation that may read nothing make a closure exponential in their number.
  if (++extra_count_ > MAX_REGISTERS)
    throw LimitExceeded("states", MAX_REGISTERS,
                        "one state of the automaton needs more than " + std::to_string(MAX_REGISTERS) + " counters");
  extra_.insert(key, 1);
  return false;
}

void Closure::expand_head(const Item& item, const Head& head) {
  const Register reg = registers_.get(item.reg);
  Register outside = reg;
  outside.count = outside.used = 0;
  if (head.automaton) return add(head.body, item.reg);
  if (!head.permutation) {
    const bool free = reg.count == COUNT_FREE, deep = reg.count == COUNT_DEEP;
    if (free || deep || head.maximum == NONE || reg.count < head.maximum) add(head.body, item.reg);
    if (!deep && (free || reg.count >= head.minimum)) add(head.exit, registers_.id(outside));
    return;
  }
  bool complete = reg.count >= head.minimum, available = false;
  nfa_.work.spend(4 + head.members.size() * (head.maximum == NONE ? 1 : 1 + head.members.size() / 4));
  for (u32 i = 0; i < head.members.size(); i++) {
    if ((head.flags[i] & REQUIRED) && !registers_.used(reg.used, i)) complete = false;
    if (!member_available(registers_, head, reg, i)) continue;
    available = true;
    if (head.after_separator || reg.count == 0) add(head.members[i], item.reg);
  }
  if (head.after_separator) return;
  if (available && reg.count > 0) add(head.body, item.reg);
  if (complete) add(head.exit, registers_.id(outside));
}

// In a counted automaton: the characters that can still be counted keep the bounds.
bool Closure::alive(const NfaState& state, const Item& item) const {
  if (state.least == NONE) return false;
  const Head& head = nfa_.heads[state.body];
  const u64 count = registers_.get(item.reg).count;
  if (count >= COUNT_DEEP) return true;
  return (head.maximum == NONE || count + state.least <= head.maximum) && (state.most == NONE || count + state.most >= head.minimum);
}

void Closure::run() {
  while (!pending_.empty()) {
    const Item item = pending_.back();
    pending_.pop_back();
    if (seen(item)) continue;
    nfa_.work.at_nfa_state(item.state);
    nfa_.work.spend(2);
    if (nfa_.states[item.state].pending != NONE) {
      nfa_.expand(item.state);
      if (marks_.size() < nfa_.states.size()) marks_.resize(nfa_.states.size(), {0, 0});
    }
    const NfaState& state = nfa_.states[item.state];
    if (state.body != NONE && nfa_.heads[state.body].automaton && !alive(state, item)) continue;
    if (state.head != NONE) {
      expand_head(item, nfa_.heads[state.head]);
      continue;
    }
    bool reads = false;
    for (u32 e = state.first; e != NONE; e = nfa_.edges[e].next) {
      const Edge& edge = nfa_.edges[e];
      switch (edge.kind) {
        case EDGE_EPSILON: add(edge.target, item.reg); break;
        case EDGE_ENTER: {
          Register reg = registers_.get(item.reg);
          reg.count = reg.used = 0;
          add(edge.target, registers_.id(reg));
          break;
        }
        case EDGE_COUNT: {
          nfa_.work.spend(8);
          Register reg = registers_.get(item.reg);
          const Head& head = nfa_.heads[state.body];
          if (reg.count < COUNT_DEEP) {
            reg.count++;
            if (head.maximum == NONE && reg.count >= head.minimum) reg.count = COUNT_FREE;
          }
          add(edge.target, registers_.id(reg));
          break;
        }
        case EDGE_LEAVE: {
          Register reg = registers_.get(item.reg);
          if (reg.count == COUNT_DEEP || (reg.count != COUNT_FREE && reg.count < nfa_.heads[state.body].minimum)) break;
          reg.count = reg.used = 0;
          add(edge.target, registers_.id(reg));
          break;
        }
        case EDGE_MEMBER: {
          Register reg = registers_.get(item.reg);
          const Head& head = nfa_.heads[nfa_.states[edge.target].head];
          // Repeatable members are only remembered where they are required: otherwise every object of free keys would be a new state.
          nfa_.work.spend(4 + head.members.size() / 32);
          if (!(head.flags[edge.data] & REPEATABLE) || (head.flags[edge.data] & REQUIRED)) reg.used = registers_.use(reg.used, edge.data);
          reg.count++;
          if (head.maximum == NONE) reg.count = std::min(reg.count, std::max(head.minimum, 1u));
          add(edge.target, registers_.id(reg));
          break;
        }
        case EDGE_SET: add(edge.target, edge.data); break;
        case EDGE_CALL:
          reads = true;
          if (nfa_.rules[edge.callee()].nullable && !(edge.flags & EDGE_NONEMPTY)) add(edge.target, item.reg);
          break;
        case EDGE_NON_ASCII: break;
        default: reads = true; break;
      }
    }
    const Rule& rule = nfa_.rules[state.rule];
    if (reads) result.push_back(item);
    else if (item.state == rule.final) {
      Register reg;  // nothing is counted any more; what a scope has seen decides whether a value may be the last
      reg.seen = registers_.get(item.reg).seen;
      result.push_back({item.state, registers_.id(reg)});
    }
  }
  nfa_.work.spend(result.size() * 2);
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
}

}  // namespace stackmask
