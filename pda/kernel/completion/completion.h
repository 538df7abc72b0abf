// Completions of a text: least lengths, and a shortest one.
//
// Lengths are measured on first use. This lowers the whole grammar, and costs as much as the rest of a compilation.
//
// Tested by tests/pda/test_engine_interface.py and test_engine_distinct.py.
#pragma once

#include <queue>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "stacks/step.h"

namespace stackmask {

class Completion {
 public:
  Completion(RuleDfa& dfa, StackSet& stacks, Steps& steps, const Limits& limits)
      : dfa_(dfa), stacks_(stacks), steps_(steps), limits_(limits) {}

  u64 distance(StackId configuration);         // least bytes to a completion, as if values need not differ; NONE for none
  std::string shortest(StackId configuration);
  u64 shortest_length(StackId configuration);  // of that text
  void clear() { distances_.clear(), lengths_.clear(), scope_lengths_.clear(), cheap_values_.clear(); }
  std::size_t bytes() const;

 private:
  RuleDfa& dfa_;
  StackSet& stacks_;
  Steps& steps_;
  Limits limits_;
  bool measured_ = false;
  FlatMap distances_, lengths_;  // by configuration
  u64 least(StackId configuration);
  struct Straight {
    StackId configuration;
    u8 byte;
  };
  StackId straight_down(StackId configuration, u64 left, std::vector<Straight>& way, bool to_known);  // returns its end
  std::string search(StackId configuration);
  struct SearchNode {
    StackId configuration;
    u32 parent, length;
    u8 byte;
  };
  using SearchKey = std::tuple<u64, u32, u32>;  // whole length, bytes to go, complement of the node: newest first
  using SearchQueue = std::priority_queue<SearchKey, std::vector<SearchKey>, std::greater<>>;
  template <class F>
  void each_step(StackId here, bool every, F take);
  // The values that a rule generates, the cheapest first, as many as have been needed.
  struct CheapValues {
    struct Value {
      u32 length, id, node;
    };
    std::vector<Value> values;
    std::unordered_set<u32> known;
    std::vector<SearchNode> nodes;
    SearchQueue queue;
    u32 least = 0;                             // no other value is shorter
    bool ended = false, left = false, busy = false;  // there are no more; there are too many to search; a search is running
    std::string text(u32 node) const;
  };
  std::unordered_map<u32, CheapValues> cheap_values_;  // by rule
  u32 extending_ = 0;
  FlatMap scope_lengths_;                        // by state of a scope, and whether a value must come first
  StackId new_value(StackId configuration, u64& left, std::vector<Straight>& way);
  u64 state_length(StateId state);                 // least bytes until the rule ends, with values that differ
  u64 values_length(RuleId rule, u32 count, std::span<const u32> seen);
  bool find_value(RuleId rule, CheapValues& cheap);
  bool values_take_more();
};

}  // namespace stackmask
