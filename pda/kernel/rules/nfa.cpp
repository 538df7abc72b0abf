// Questions about a whole rule, which lower all of it.
#include "rules/nfa.h"

namespace stackmask {

std::vector<RuleId> Nfa::distinct_rules(RuleId rule) {
  if (unlowered) return unlowered->distinct_rules(*this, rule);
  std::vector<RuleId> found;
  for (const NfaStateId state : complete_rule(rule))
    for (u32 e = states[state].first; e != NONE; e = edges[e].next)
      if (edges[e].kind == EDGE_CALL && (edges[e].flags & EDGE_DISTINCT)) found.push_back(edges[e].callee());
  return found;
}

std::vector<NfaStateId> Nfa::complete_rule(RuleId rule, std::size_t most) {
  std::vector<NfaStateId> found;
  std::vector<bool> seen(states.size());
  auto add = [&](NfaStateId state) {
    if (!seen[state]) found.push_back(state);
    seen[state] = true;
  };
  add(rules[rule].start);
  for (std::size_t i = 0; i < found.size() && found.size() <= most; i++) {
    const NfaStateId at = found[i];
    work.spend(4);
    expand(at);
    seen.resize(states.size());
    for (u32 e = states[at].first; e != NONE; e = edges[e].next) add(edges[e].target);
    if (counting(at).head == NONE) continue;
    const Head& head = heads[counting(at).head];
    add(head.body);
    add(head.exit);
    for (const NfaStateId member : head.members) add(member);
  }
  return found;
}

}  // namespace stackmask
