#include "masks/state_mask.h"

namespace stackmask {

StateMasks::StateMasks(const TokenTrie& trie, RuleDfa& dfa, Counters& counters, TextCounts& counts, ClassLoops& loops,
                       Statistics& statistics)
    : trie_(trie), counters_(counters), statistics_(statistics), lists_(trie),
      context_{trie, dfa, counters, counts, loops, lists_, statistics, *this} {
  // The size for an everyday grammar: growing step by step would copy it several times.
  ids_.reserve(64);
  masks_.reserve(64);
  tokens_.reserve(1024);
  moves_.reserve(64);
  nested_.reserve(64);
}

StateMaskId StateMasks::get(ListId list, StateId state, bool guarded) {
  const StateId asked = state;
  if (!guarded) state = counters_.saturated(state);
  const u64 key = static_cast<u64>(list) << 32 | state | (guarded ? ID_FLAG : 0u);
  if (const u32* found = ids_.find(key)) return StateMaskId(*found);
  statistics_.state_masks++, statistics_.guarded_state_masks += guarded, statistics_.saturated += state != asked;
  context_.dfa.work().at_dfa_state(state);
  context_.dfa.work().spend(20);
  StateMaskBuilder builder(context_);
  builder.build(list, state, guarded);
  const StateMaskId id = keep(builder);
  ids_.insert(key, id);
  return id;
}

StateMaskId StateMasks::keep(StateMaskBuilder& made) {
  const StateMaskId id(static_cast<u32>(masks_.size()));
  context_.dfa.work().spend((made.tokens.size() + made.excluded.size()) / 8 + made.moves.size() + made.scarce.size());
  auto append = [](auto& all, const auto& added) {
    const u32 begin = static_cast<u32>(all.size());
    if (!added.empty()) all.append(added.data(), added.size());
    return StateMask::List{begin, static_cast<u32>(all.size())};
  };
  masks_.push_back({made.dense, append(tokens_, made.tokens), append(tokens_, made.excluded), append(moves_, made.moves),
                    append(nested_, made.nested), append(scarce_, made.scarce)});
  if (!made.own.empty()) {
    own_masks_.push_back(std::move(made.own));
    made.own = {};
  }
  return id;
}

const u32* StateMasks::hold(const std::shared_ptr<const LoopMask>& mask) {
  return loop_masks_.try_emplace(mask->words.data(), mask).first->first;
}

void StateMasks::clear() {
  ids_.clear(), lists_.clear();
  masks_ = {}, tokens_ = {}, moves_ = {}, nested_ = {}, scarce_ = {}, own_masks_ = {}, loop_masks_ = {};
}

std::size_t StateMasks::bytes() const {
  std::size_t forgotten = 0;  // by the vocabulary, so counted here
  for (const auto& [words, mask] : loop_masks_) forgotten += mask->forgotten ? trie_.words() * sizeof(u32) : 0;
  return forgotten + ids_.bytes() + lists_.bytes() + masks_.bytes() + tokens_.bytes() + moves_.bytes() + nested_.bytes() + scarce_.bytes() +
         own_masks_.size() * trie_.words() * sizeof(u32);
}

}  // namespace stackmask
