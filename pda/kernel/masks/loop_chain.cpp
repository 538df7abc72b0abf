// A counter chain: states q0 q1 q2 ... where every character of a class leads from each to the next, until one leads to itself or the class
// is no longer read. The state depends only on the number of characters. A counter near its bounds is such a chain; an unbounded loop is
// one of length 0.
//
//   "[a-z]{0,3}"     q0 --a..z--> q1 --a..z--> q2 --a..z--> q3          q0 to q3 read the quote, q3 no letter
//
//   tokens   a  ab  abc       of at most 3 characters: one bitmask
//   exits    quote            after 0 to 3 characters, wherever the vocabulary has one there: lists of nodes, one for each target
//
// A chain of a counted automaton stops at the first state that differs from the next only by its count: the rest is arithmetic.
//
// States that leave, such as those of a name without a closing delimiter, do so at all nodes that a given number of characters leads to;
// the vocabulary keeps lists of these. At the node where the mask begins, the caller adds the moves. Where the chain ends, no ASCII
// character of the class is live; characters above U+007F may be, as in `.é`, and their first bytes are exits there and nowhere else.
//
// Tested by tests/pda/test_mask_exits.py, classes x counts x exits.
#include <algorithm>
#include <tuple>

#include "masks/loops.h"

namespace stackmask {

namespace {

class CounterChain {
 public:
  CounterChain(StateMaskBuilder& mask, u64 inside) : mask_(mask), inside_(inside) {}

  // Follows the chain from a state; false if there is none.
  bool follow(StateId state) {
    const u32 longest = mask_.index->longest_loop(inside_);
    const u32 furthest = mask_.guarded ? furthest_exit() : 0;
    states_.push_back(state);
    for (;;) {
      const StateId last = states_.back();
      mask_.dfa.build(last);
      mask_.dfa.work().spend(10);
      const ClassLoop here = mask_.loops.class_loop(last);
      if (here.target == DEAD || (here.inside & inside_) != inside_) {
        if ((here.live & inside_ & ~SIG_INCOMPLETE) || mask_.loops.reads_any(last, ascii_inside(inside_))) return false;
        cap_ = static_cast<u32>(states_.size() - 1);
        ends_ = true;
        break;
      }
      const StateId next = mask_.guarded ? here.target : mask_.counters.saturated(here.target);
      const bool loops = next == last;
      if ((states_.size() > 1 || loops) && leaves(last) && mask_.guarded) return false;
      if (loops) break;
      if (states_.size() > longest + 1 && states_.size() > mask_.index->longest_path(inside_) + 1) break;  // no token is longer
      if (u32 more = 0; (!mask_.guarded || states_.size() > furthest + 1) && mask_.counters.differs_by_count(last, next, inside_, &more)) {
        cap_ = static_cast<u32>(states_.size() - 1) + more;  // a counter continues like this to its end
        counts_ = true;
        break;
      }
      states_.push_back(next);
    }
    tail_ = static_cast<u32>(states_.size() - 1);
    if ((tail_ > 0 || counts_) && leaves(states_[tail_]) && (mask_.guarded || (counts_ && !only_ends(states_[tail_])))) return false;
    return cap_ != 0 && !(mask_.guarded && has_few_texts());
  }

  // Makes the mask: the tokens inside, and the states after each exit.
  void take() {
    if (counts_) std::tie(free_, needed_) = mask_.counters.with_free_counts(states_[tail_]);
    PooledVector<u32> live;
    for (const StateId link : states_) mask_.loops.live_exits(link, inside_, live);
    if (states_.size() > 1) {
      std::sort(live.begin(), live.end());
      live.erase(std::unique(live.begin(), live.end()), live.end());
    }
    for (const u32 exit : live) leave_by(exit);
    if (cap_ != NONE && (inside_ & SIG_NON_ASCII)) leave_by_lead_bytes();
    leave_inside();
    mask_.dfa.work().spend(mask_.trie.words() / 4);
    mask_.take_bitmask(mask_.index->loop_mask_with_exits(inside_, cap_, exits_));
    (counts_ ? mask_.statistics.counted_chains : mask_.statistics.chains)++;
    mask_.statistics.guarded_chains += mask_.guarded;
  }

 private:
  StateMaskBuilder& mask_;
  u64 inside_;
  PooledVector<StateId> states_;
  u32 tail_ = 0;  // the last of them
  u32 cap_ = NONE;  // characters that the chain can take, NONE if it loops
  bool counts_ = false;  // the state after the last differs from it only in its count
  bool ends_ = false;  // the last state takes no character of the class as a whole
  StateId free_ = DEAD;
  u32 needed_ = 0;  // if it counts: the last state far from its bounds, and the characters that it may still need
  LoopExits exits_;

  u32 furthest_exit() const {  // characters before an exit; only guards need it
    u32 furthest = 0;
    for (u32 exit = 0; exit < EXITS; exit++)
      if (!(signature_of_exit(exit) & inside_)) furthest = std::max(furthest, mask_.index->longest_exit(inside_, exit));
    return furthest;
  }

  // Of states that differ by their count, the last one that a token comes to has the fewest texts: all of its texts follow a character
  // that the one before it reads.
  bool has_few_texts() {
    auto few = [&](StateId state) { return mask_.counts.min_text_count(state) < mask_.trie.thresholds().guarded_texts; };
    if (std::any_of(states_.begin(), states_.end(), few)) return true;
    if (!counts_) return false;
    const u32 most = std::max(mask_.index->longest_loop(inside_), mask_.index->longest_path(inside_)) + 1;
    const StateId last = state_after(std::max(tail_, std::min(cap_, most)));
    return last == DEAD || few(last);
  }

  bool leaves(StateId state) const { return mask_.dfa[state].flags & STATE_LEAVES; }

  // It leaves because the rule may end, and so do all states that differ from it by their count, up to the last one.
  bool only_ends(StateId state) {
    mask_.dfa.build(state);
    const StateId last = mask_.counters.advanced(state, cap_ - static_cast<u32>(states_.size() - 1));
    return mask_.dfa[state].call_count == 0 && last != DEAD && (mask_.dfa[last].flags & STATE_FINAL) &&
           !(mask_.dfa[last].flags & STATE_CALLS);
  }

  // Adds the moves of the states that leave, at the nodes where they are reached; the caller does so where the mask begins.
  void leave_inside() {
    for (u32 characters = 0; characters <= tail_; characters++) {
      if (!leaves(states_[characters])) continue;
      const u32 most = characters < tail_ ? characters : counts_ ? cap_ : ends_ ? tail_ : NONE;
      if (const u32 least = std::max(characters, 1u); least <= most)
        mask_.leave_at(states_[characters], *mask_.index->loop_nodes(inside_, least, most));
      mask_.statistics.leaving_chains++;
    }
  }

  StateId state_after(u32 characters) {
    if (characters <= tail_) return states_[characters];
    return counts_ ? mask_.counters.advanced(states_[tail_], characters - tail_) : states_[tail_];
  }

  // The exit leads to `target` after `low` to `high` characters.
  void leave_by(u32 exit, u32 low, u32 high, StateId target) {
    const auto list = mask_.index->loop_exits(inside_, exit, low, high);
    mask_.dfa.work().spend(20 + (list->nodes.size() + list->tokens.size()) / 4);
    if (!list->tokens.empty()) exits_.push_back(list);
    if (mask_.guarded) {
      for (const NodeId node : list->nodes) mask_.record_guarded(node, target);
      for (const NodeId node : list->leaves) mask_.record_guarded(node, target);
    }
    mask_.go_on_at(list->nodes, target, list.get());
  }

  // Whether an exit leads to the same state from all counts. From the last count it may not: if the exit is counted, as U+2028 in
  // `(.*\s?){0,3}`; or if it leads both into a new body and on in the old one, as the bracket of `(.{2,5}\()*`, whose counts are united
  // where possible.
  bool leads_alike(u32 exit, u32 far) {
    const StateId next = !counts_ || cap_ == tail_ ? DEAD : state_after(tail_ + 1);
    if (next == DEAD) return true;
    const StateId target = mask_.loops.after_exit(states_[tail_], exit);
    if (target != mask_.loops.after_exit(next, exit)) return false;
    if (target == DEAD || far <= tail_ + 1) return true;
    const StateId last = state_after(far);
    return last != DEAD && target == mask_.loops.after_exit(last, exit);
  }

  // An exit, grouped by its targets. An exit out of the counted body leads to the same state from everywhere (alike). An exit that stays
  // in it leads to a state whose bound is out of reach, except near the end; that matters only where the exit occurs.
  void leave_by(u32 exit) {
    const Lengths places = mask_.index->exit_places(inside_, exit);
    const auto end = std::upper_bound(places->begin(), places->end(), cap_);
    if (end == places->begin()) return;
    const bool alike = leads_alike(exit, end[-1]);
    auto leads_to = [&](u32 characters) {
      if (alike || characters < tail_) {
        const StateId target = mask_.loops.after_exit(states_[std::min(characters, tail_)], exit);
        return target == DEAD || mask_.guarded ? target : mask_.counters.saturated(target);
      }
      auto longest_below = [&] { return mask_.index->loop_exits(inside_, exit, characters, characters)->height; };
      const bool out_of_reach = !mask_.guarded && cap_ - characters > longest_below() + 2 + needed_;
      const StateId at = out_of_reach ? free_ : state_after(characters);
      return at == DEAD ? DEAD : mask_.loops.after_exit(at, exit);
    };
    for (auto at = places->begin(); at != end;) {
      mask_.dfa.work().spend(10);
      const auto first = at;
      const StateId target = leads_to(*first);
      const bool is_last = alike && *first >= tail_;  // PERF: all places from here on lead to one state, so none of them is asked
      do at++;
      while (at != end && (is_last || leads_to(*at) == target));
      if (target != DEAD) leave_by(exit, first == places->begin() ? 0 : *first, at == places->end() ? NONE : at[-1], target);
    }
  }

  // After the last state some characters above U+007F are live, by their first bytes. A token that ends inside such a character is not a
  // text of the loop, since it counts one character more.
  void leave_by_lead_bytes() {
    if (cap_ > mask_.index->longest_path(inside_)) return;
    const StateId last = state_after(cap_);
    if (last == DEAD) return;
    mask_.dfa.build(last);
    for (u32 r = 0; r < mask_.dfa[last].range_count; r++) {
      const Range range = mask_.dfa.range(last, r);
      for (u32 b = std::max<u32>(range.lo, 128); b <= range.hi; b++) {
        const StateId target = mask_.dfa.range_target(last, r);
        if (target == DEAD) break;
        leave_by(b, cap_, cap_, target);
      }
    }
  }
};

}  // namespace

bool take_counter_chain(StateMaskBuilder& mask, StateId state, const ClassLoop& loop) {
  CounterChain chain(mask, loop.inside);
  if (!chain.follow(state)) return false;
  chain.take();
  return true;
}

}  // namespace stackmask
