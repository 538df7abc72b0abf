// Masks by the upper levels of stacks: a mask depends on no more of a stack than its tokens can pop.
//
//   [array] -> [array] -> [array] -> [array] -> bottom       a composition that popped twice at most has read three levels: stacks with
//   [array] -> [array] -> [array] -> bottom                  these three on top have the same mask, whatever is below them
//
// So the levels of a deep structure share masks, as do the places at which a rule is called. The upper levels are spelled as words: for each
// node how many edges it has, and for each edge its state and the number of the node below it, by when that was first met. How many levels
// to spell is remembered by the state of the last edge on top: as many as a composition with this state there has read so far. A text of
// more levels than its composition read is only found less often.
//
// A composition reads the edges of the nodes that it pops. Where a rule returns to a state that may end, its node holds the edges of the node
// below, which is read, too (StackSet::push).
//
// Some masks depend on the whole stack, and are not kept: those under guards, those of joined calls, whose unions are of any nodes, and those of
// returns as above where states count, since a union then drops stacks that others cover (covered_stacks.h).
//
// A lookup takes time by the words, at most MOST_WORDS. Tested by tests/pda/test_upper_levels.py.
#pragma once

#include <algorithm>

#include "stacks/stack_set.h"

namespace stackmask {

class UpperLevels {
 public:
  UpperLevels(RuleDfa& dfa, const StackSet& stacks) : dfa_(dfa), stacks_(stacks) {}

  // The mask of another configuration with the same upper levels, NONE if none is known.
  MaskId find(StackId configuration) {
    if (!stacks_.edge_count(configuration)) return NONE;
    const StateId state = top(configuration);
    const u32 levels = state < levels_.size() ? levels_[state] : UNSEEN;
    if (levels == 0 || !spell(configuration, levels)) return NONE;
    const u32 number = spelled_.find(words_.data(), words_.size());
    return number < masks_.size() ? masks_[number] : MaskId(NONE);
  }

  // Keeps the mask of a configuration, whose composition read these nodes.
  void add(StackId configuration, MaskId mask, std::span<const StackId> read) {
    if (!stacks_.edge_count(configuration) || read.size() > MOST_READ) return;
    const StateId state = top(configuration);
    if (levels_.size() <= state) levels_.resize(dfa_.size(), UNSEEN);
    u8& levels = levels_[state];
    if (levels == UNSEEN) {  // PERF: most states have a mask above one stack only
      levels = 0;
      return;
    }
    levels = std::max(levels, levels_read(configuration, read));
    if (!spell(configuration, levels)) return;
    const u32 number = spelled_.intern(words_.data(), words_.size());
    if (masks_.size() <= number) masks_.resize(number + 1, NONE);  // by more than one after an allocation failed here
    masks_[number] = mask;
  }

  void clear() { levels_ = {}, spelled_.clear(), masks_ = {}; }
  std::size_t bytes() const { return levels_.bytes() + spelled_.bytes() + masks_.bytes(); }

 private:
  static constexpr u32 MOST_LEVELS = 16, MOST_WORDS = 64, MOST_READ = 256;
  static constexpr u8 UNSEEN = 255;
  RuleDfa& dfa_;
  const StackSet& stacks_;
  GrowingArray<u8> levels_;  // by the state of the last edge on top; 0 after one composition
  Interner spelled_;
  GrowingArray<MaskId> masks_;  // by number of what is spelled
  std::vector<StackId> nodes_;  // used by add() and spell(); kept to reuse their memory
  std::vector<u32> words_;

  StateId top(StackId configuration) const { return stacks_.edges(configuration)[stacks_.edge_count(configuration) - 1].state; }

  u32 number_of(StackId node) {
    const auto found = std::find(nodes_.begin(), nodes_.end(), node);
    if (found != nodes_.end()) return static_cast<u32>(found - nodes_.begin());
    nodes_.push_back(node);
    return static_cast<u32>(nodes_.size() - 1);
  }

  // The levels from the top down to the last in which a node was read; MOST_LEVELS + 1 where these are many or wide.
  u8 levels_read(StackId configuration, std::span<const StackId> read) {
    const auto was_read = [read](StackId node) { return std::find(read.begin(), read.end(), node) != read.end(); };
    nodes_.assign(1, configuration);
    u8 levels = 1;
    for (std::size_t begin = 0, end = 1; levels <= MOST_LEVELS; levels++) {
      for (; begin < end; begin++) {
        const u32 count = stacks_.edge_count(nodes_[begin]);
        if (nodes_.size() + count > MOST_WORDS) return MOST_LEVELS + 1;
        dfa_.work().spend(2ull + count);
        for (u32 k = 0; k < count; k++)
          if (const StackEdge edge = stacks_.edges(nodes_[begin])[k]; edge.state != BOTTOM) number_of(edge.below);
      }
      end = nodes_.size();
      if (std::none_of(nodes_.begin() + static_cast<std::ptrdiff_t>(begin), nodes_.end(), was_read)) break;
    }
    return levels;
  }

  // Sets words_ to the upper levels of a configuration; false if they are too many.
  bool spell(StackId configuration, u32 levels) {
    if (levels > MOST_LEVELS) return false;
    nodes_.assign(1, configuration);
    words_.clear();
    for (std::size_t i = 0, end = 1; levels && i < end; levels--, end = nodes_.size()) {
      for (; i < end; i++) {
        const u32 count = stacks_.edge_count(nodes_[i]);
        if (words_.size() + 1 + 2 * count > MOST_WORDS) return false;
        dfa_.work().spend(2ull + count);
        words_.push_back(count);
        for (u32 k = 0; k < count; k++) {
          const StackEdge edge = stacks_.edges(nodes_[i])[k];
          words_.push_back(edge.state);
          words_.push_back(edge.state == BOTTOM ? NONE : number_of(edge.below));
        }
      }
    }
    return true;
  }
};

}  // namespace stackmask
