// A grammar as one NFA per rule, over bytes, calls and tokens: the result of lowering the expressions of pda/grammar.py.
// States are made when a closure first comes to where they begin.
//
// expressions.cpp  malformed expressions are refused
// facts/           which expressions are productive or nullable, which become rules and which are inlined
// lowering/        expressions -> states and edges (Thompson 1968)
// spelling.cpp     characters -> edges of bytes: UTF-8 and JSON's escapes
// rewrite.cpp      left recursion is rewritten, in grammars that were lowered completely
// measure.cpp      least lengths
// closure.cpp      epsilon closures
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "ids.h"
#include "thresholds.h"
#include "vocabulary/token_bits.h"
#include "work.h"

namespace stackmask {

class TokenTrie;

// The operators of pda/grammar.py, same numbers.
// clang-format off
enum Operator : i32 {
  OP_EMPTY, OP_NEVER, OP_LITERAL, OP_BYTES, OP_CHARS, OP_SEQ, OP_ALT, OP_REPEAT, OP_CALL, OP_GRAPH, OP_AUTOMATON, OP_TOKENS, OP_PERMUTE,
  OP_SCOPE, OP_DISTINCT, OP_LIMIT, OP_CAPTURE, OP_TEMPERATURE, OP_EXCEPT
};
// clang-format on
enum Encoding : i32 { RAW, UTF8, JSON, JSON_ANY };
constexpr i32 REQUIRED = 1, REPEATABLE = 2;
constexpr i32 ANY_TOKEN = 2;  // of a negated set of tokens: those without text too

// Texts in one buffer, one after the other.
class Texts {
 public:
  void push_back(std::string_view text) {
    bytes_.append(text);
    ends_.push_back(bytes_.size());
  }
  std::string_view operator[](std::size_t i) const {
    const std::size_t begin = i ? ends_[i - 1] : 0;
    return {bytes_.data() + begin, ends_[i] - begin};
  }
  void reserve(std::size_t texts, std::size_t bytes) { ends_.reserve(texts), bytes_.reserve(bytes); }
  std::size_t size() const { return ends_.size(); }
  std::size_t bytes() const { return bytes_.capacity() + ends_.capacity() * sizeof(std::size_t); }
  void assign(const Texts& other, std::size_t count) {  // the first `count` of another
    ends_.assign(other.ends_.begin(), other.ends_.begin() + static_cast<std::ptrdiff_t>(count));
    bytes_.assign(other.bytes_, 0, count ? ends_.back() : 0);
  }

 private:
  std::string bytes_;
  std::vector<std::size_t> ends_;
};

// The expressions as they come from Python. Arguments of node n: ints[begin, end).
//   LITERAL: index into literals        BYTES: lo hi ...            CHARS: encoding lo hi ...      SEQ, ALT: nodes
//   REPEAT: node minimum maximum        CALL: rule                  GRAPH: states (source target node) ...
//   AUTOMATON: encoding states minimum maximum, then for each state: accepting count (lo hi target) ...
//   EXCEPT: encoding, indices into literals: words as UTF-8, sorted
//   TOKENS: negated ids ...             PERMUTE: separator minimum maximum (node flags) ...        SCOPE, DISTINCT: node
//   LIMIT: node tokens                CAPTURE: node                TEMPERATURE: node, index into numbers
struct Expressions {
  struct Node {
    i32 op;
    u32 begin, end;
  };
  std::vector<Node> nodes;
  std::vector<i32> ints;
  Texts literals;
  std::vector<double> numbers;
  std::vector<i32> rules;
  Texts names;
  i32 root = 0;
  // If the grammar begins as another one did: how many of its nodes are well formed, and which of them are productive or nullable.
  u32 checked = 0;
  std::vector<u8> generates;

  std::size_t count(u32 node) const { return nodes[node].end - nodes[node].begin; }
  i32 arg(u32 node, std::size_t i) const { return ints[nodes[node].begin + i]; }
  // The nodes that a node refers to; NONE for an edge of a GRAPH that reads nothing.
  std::size_t operand_count(u32 node) const {
    switch (nodes[node].op) {
      case OP_SEQ:
      case OP_ALT: return count(node);
      case OP_GRAPH: return count(node) / 3;
      case OP_PERMUTE: return (count(node) - 1) / 2;
      case OP_REPEAT:
      case OP_SCOPE:
      case OP_DISTINCT:
      case OP_LIMIT:
      case OP_CAPTURE:
      case OP_TEMPERATURE: return 1;
      default: return 0;
    }
  }
  u32 operand(u32 node, std::size_t i) const {
    switch (nodes[node].op) {
      case OP_GRAPH: return static_cast<u32>(arg(node, 3 + 3 * i));
      case OP_PERMUTE: return static_cast<u32>(arg(node, i == 0 ? 0 : 1 + 2 * i));
      default: return static_cast<u32>(arg(node, i));
    }
  }
  template <class F>
  void each_operand(u32 node, F f) const {
    for (std::size_t i = 0, n = operand_count(node); i < n; i++)
      if (const u32 found = operand(node, i); found != NONE) f(found);
  }
  std::string_view literal(u32 node, std::size_t i) const { return literals[static_cast<std::size_t>(arg(node, i))]; }
  void begin_as(const Expressions& other, std::size_t count);  // its first nodes, where there are none yet
  std::size_t bytes() const;
  void validate(u32 vocabulary_size) const;  // BadGrammar for anything that lower() does not expect
};

struct Nfa;

enum EdgeKind : u8 {
  EDGE_BYTE,       // lo..hi
  EDGE_DEFAULT,    // every byte that no EDGE_BYTE of the state reads: leads where the EDGE_BYTEs of target lead
  EDGE_NON_ASCII,  // reads nothing, but says that all characters above U+007F lead from here to target by EDGE_BYTEs; with data 1
                   // all but spaces do, with data 2 spaces alone (NON_ASCII_SPACES of classes.h)
  EDGE_EPSILON,
  EDGE_ENTER,      // epsilon into a repetition: its counters start at zero
  EDGE_COUNT,      // epsilon that counts one more: from the end of a repetition's body back to its head, or after a character
                   // of a counted automaton
  EDGE_LEAVE,      // epsilon out of a counted automaton, where it has counted enough
  EDGE_MEMBER,     // epsilon from the end of a permutation's member (data) back to its head
  EDGE_SET,        // epsilon that sets the register to data
  EDGE_CALL,       // rule data
  EDGE_TOKEN,      // one token of token set data
};
enum EdgeFlags : u8 {
  EDGE_IN_BODY = 1,   // inside of a counted body: the callee may not be inlined if it counts itself
  EDGE_NONEMPTY = 2,  // the call must read something
  EDGE_DISTINCT = 4,  // the call reads a value that must be new in this state's scope
};

struct Edge {
  u8 kind, lo, hi, flags;
  NfaStateId target;
  u32 data, next;
  RuleId callee() const { return RuleId(data); }       // of an EDGE_CALL
  RegisterId reg() const { return RegisterId(data); }  // of an EDGE_SET
};

struct NfaState {
  u32 first = NONE;     // first edge, NONE for none
  u32 pending = NONE;   // the Source's number of the expression still to be lowered from here, NONE for none
  RuleId rule{0};       // the rule whose states it occurs in
  u32 origin = 0;       // where it was written, for messages: an index into origins
  u32 counting = 0;     // what it counts, or what counts it: an index into countings, 0 for nothing
  bool is_default = false;         // the target of an EDGE_DEFAULT
  bool partial_non_ascii = false;  // has EDGE_BYTEs above 0x7F that no EDGE_NON_ASCII describes
};

// What a state has to do with counted repetitions, permutations and counted automata. Most states have nothing to do with them.
// PERF: fields of NfaState took 20 bytes of each state, which are copied whenever the array of states grows.
struct Counting {
  u32 head = NONE;    // index into heads, NONE for ordinary states
  u32 body = NONE;    // the head in whose body it lies
  u32 member = NONE;  // the member of that head, NONE for a separator
  u32 least = 0, most = NONE;     // in a counted automaton: characters that can still be counted until it accepts
  u32 settled = 0;                // ... and the `least` of the DFA's state from which its characters are read
  bool inside_character = false;  // ... one of its characters has begun
  bool operator==(const Counting&) const = default;
};

constexpr u8 NEVER_MEMBER = 0x80;  // cannot be read

// A state at which a counted repetition or a permutation continues or ends, or at which a counted automaton begins.
struct Head {
  bool permutation = false;
  bool automaton = false;        // counts the characters of a DFA; its states are the body
  u32 furthest = 0;              // of an automaton: the largest of its states' `least`
  bool bounded = false;          // ... a state has a largest number of characters
  bool after_separator = false;  // a permutation's second head: members only
  u32 minimum = 0, maximum = NONE;
  u32 least = 1;                 // a body takes at least this many bytes
  bool byte = false;             // a body is one byte
  NfaStateId body{0}, exit{0};   // a permutation's body is its separator
  std::vector<NfaStateId> members;  // start states
  std::vector<u8> flags;         // REQUIRED, REPEATABLE, NEVER_MEMBER
  struct Bits {
    u32 possible = 0, required = 0, repeatable = 0;
  };
  std::vector<Bits> bits;        // the flags of 32 members each, made by index_members()
  void index_members();
};

struct Rule {
  NfaStateId start = NONE, final = NONE;
  bool nullable = false;
  u32 limit = NONE;       // the tokens that its text may span, NONE for no bound
  u32 temperature = 0;    // of sampling inside of it, an index into temperatures, 0 for none
  bool scope = false;     // its states carry a set of values seen
  bool counts = false;    // contains heads
  bool recursive = false;
  bool merged = false;    // all its states belong to its one caller now
  u32 name = 0;
  u32 origin = 0;         // of its own states
  u32 rank = 0;           // callers at the same position have smaller ranks
  u32 shortest = NONE;    // least number of bytes of a text that is not empty
  bool is_region() const { return limit != NONE || temperature != 0; }  // a call of it puts a region on the stack
};

struct TokenSet {
  std::vector<TokenId> ids;  // sorted
  bool negated = false;      // every token but these
  std::vector<u32> bits;     // of a negated set, as a bitmask
  bool contains(TokenId token) const;
};

// What an item has counted and seen; its other part is the NFA state.
struct Register {
  u32 count = 0;          // of a repetition or permutation
  u32 further = 0;        // of a repetition: the item stands for as many counts above this one, too (see Closure::unite_counts)
  u32 used = 0;           // members of a permutation, an id of Registers::sets
  u32 seen = NONE;        // values of a scope, an id kept by the states
  u32 last() const { return count + further; }  // the largest count, unless it is COUNT_DEEP or COUNT_FREE
  void set_count(u32 only) { count = only, further = 0; }
  void leave() { count = further = used = 0; }  // the repetition or permutation
  bool operator==(const Register&) const = default;
};
constexpr RegisterId ZERO_REGISTER{0};  // of nothing counted, outside of scopes
constexpr u32 COUNT_DEEP = 0xFFFFFFFE;  // so far below the minimum that no token reaches it
constexpr u32 COUNT_FREE = 0xFFFFFFFF;  // above the minimum and so far below the maximum that no token reaches it

class Registers {
 public:
  Registers() {
    sets_.intern(nullptr, 0);
    id({});
  }
  RegisterId id(const Register& reg) {
    const u32 words[4] = {reg.count, reg.further, reg.used, reg.seen};
    return RegisterId(registers_.intern(words, 4));
  }
  Register get(RegisterId id) const {
    const u32* words = registers_.at(id);
    return {words[0], words[1], words[2], words[3]};
  }
  // Takes the named registers of another table into this empty one, and returns their numbers here, NONE for the others. `seen_of` gives a
  // scope's values their number here. The first `base` registers are named, and keep their numbers.
  // PERF: a matcher with many parses holds a million. Those outside of scopes stay different from each other, so they are added without
  // a lookup.
  template <class SeenOf>
  std::vector<RegisterId> adopt(const Registers& from, const std::vector<u8>& named, u32 base, SeenOf seen_of) {
    constexpr std::size_t AHEAD = 8;
    std::vector<RegisterId> numbers(from.size(), NONE), kept;
    std::vector<u32> sets(from.sets_.size(), NONE), kept_sets;
    sets[0] = 0;  // the empty one
    std::size_t words = 0;
    for (const RegisterId number : EachId<RegisterId>{from.size()}) {
      if (!named[number]) continue;
      kept.push_back(number);
      u32& set = sets[from.get(number).used];
      if (set != NONE) continue;
      kept_sets.push_back(from.get(number).used);
      words += from.sets_.length(kept_sets.back());
      set = static_cast<u32>(kept_sets.size());
    }
    sets_.expect(kept_sets.size(), words);
    auto fetch_set = [&](u32 set) { sets_.prefetch(from.sets_.at(set), from.sets_.length(set)); };
    for (std::size_t i = 0; i < kept_sets.size(); i++) {
      if (i + AHEAD < kept_sets.size()) fetch_set(kept_sets[i + AHEAD]);
      sets_.add(from.sets_.at(kept_sets[i]), from.sets_.length(kept_sets[i]));
    }
    registers_.expect(kept.size(), kept.size() * 4);
    std::vector<std::array<u32, 4>> rows;
    rows.reserve(kept.size());
    for (const RegisterId number : kept) {
      const Register reg = from.get(number);
      rows.push_back({reg.count, reg.further, sets[reg.used], reg.seen == NONE ? NONE : seen_of(reg.seen)});
    }
    for (std::size_t i = 0; i < kept.size(); i++) {
      if (i + AHEAD < kept.size()) registers_.prefetch(rows[i + AHEAD].data(), 4);
      const bool stays_different = kept[i] >= base && rows[i][3] == NONE;
      numbers[kept[i]] = RegisterId(stays_different ? registers_.add(rows[i].data(), 4) : registers_.intern(rows[i].data(), 4));
    }
    return numbers;
  }
  u32 size() const { return static_cast<u32>(registers_.size()); }
  std::span<const u32> used(u32 set) const { return {sets_.at(set), sets_.length(set)}; }
  bool used(u32 set, u32 member) const { return sets_.length(set) > member / 32 && (sets_.at(set)[member / 32] >> (member % 32) & 1); }
  u32 use(u32 set, u32 member) {
    PooledVector<u32> words;
    words.assign(sets_.at(set), sets_.at(set) + sets_.length(set));
    if (words.size() <= member / 32) words.resize(member / 32 + 1, 0);
    words[member / 32] |= 1u << (member % 32);
    return sets_.intern(words.data(), words.size());
  }
  std::size_t bytes() const { return registers_.bytes() + sets_.bytes(); }

 private:
  Interner registers_, sets_;
};

struct Item {
  NfaStateId state;
  RegisterId reg;
  bool operator==(const Item&) const = default;
  auto operator<=>(const Item&) const = default;
};

// Most items come in order already, or in the reverse order.
void sort_many_items(std::vector<Item>& items);
inline void sort_items(std::vector<Item>& items) {
  constexpr std::size_t MANY = 512;  // where a sort by digits is faster
  if (items.size() > 1 && items.back() < items.front()) std::reverse(items.begin(), items.end());
  if (std::is_sorted(items.begin(), items.end())) return;
  if (items.size() < MANY) std::sort(items.begin(), items.end());
  else sort_many_items(items);
}

// A rule's name, and where it was inlined into.
struct Origin {
  u32 name, parent;  // parent NONE: the state's own rule
};

// The expressions behind an NFA that is not lowered to the end.
class Source {
 public:
  virtual ~Source() = default;
  // Lowers the pending expression of a state. It adds edges from this state and from new ones only, so earlier closures stay right; an
  // exception leaves the NFA as it was.
  virtual void expand(Nfa& nfa, NfaStateId state, Deadline* deadline) = 0;
  // The rules that a SCOPE's rule calls for values that must differ, except those that surely have infinitely many values.
  virtual std::vector<RuleId> distinct_rules(Nfa& nfa, RuleId rule) = 0;
  virtual bool is_endless(RuleId rule) const = 0;  // some string in it surely may have any length
  virtual bool permutes(RuleId rule) const = 0;    // parts of its texts may stand in any order
  virtual std::size_t bytes() const = 0;
};

// The least number of bytes from a state of a counted automaton to where the automaton is left, by the characters counted so far.
class CountedLengths {
 public:
  CountedLengths(const Nfa& nfa, u32 head, std::vector<u32>& place, Deadline& deadline);
  u64 of(NfaStateId state, u32 count) const;  // NONE if it cannot be left
  std::size_t bytes() const { return rows_.capacity() * sizeof(u32) + ways_.capacity() * sizeof(ways_[0]); }

 private:
  const std::vector<u32>* place_;        // by NFA state: its place among those of its automaton
  u32 minimum_ = 0, maximum_ = NONE;
  u32 width_ = 0;                        // places where characters begin and end
  u32 free_ = 0;                         // rows from the minimum on: the first is that of the maximum, the last stands for all before it
  u32 period_ = 0, more_ = 0;            // below the last row a row is the one `period_` above it and `more_` bytes more
  std::vector<std::vector<std::pair<u32, u32>>> ways_;  // by place: where the character may end, after how many bytes
  std::vector<u32> stand_of_;            // by place: its column, NONE inside of characters
  std::vector<u32> rows_;
  bool repeats(u32 period);
  u32 after(u32 place, const u32* row) const;
};

// States up to which small rules may be inlined in a grammar of this many.
inline u64 inlining_budget(u64 states) {
  constexpr u64 GROWTH = 4, FLOOR = 2048;
  return std::max(states * GROWTH, FLOOR);
}

struct Nfa {
  GrowingArray<NfaState> states;
  GrowingArray<Edge> edges;
  // The first is that of states that count nothing. States that are made in a row share theirs.
  std::vector<Counting> countings = std::vector<Counting>(1);
  std::vector<Head> heads;
  std::vector<Rule> rules;
  std::vector<TokenSet> token_sets;
  std::vector<Origin> origins;
  std::shared_ptr<const Expressions> expressions;
  std::vector<double> temperatures{0};  // in rising order, from the second on
  Registers registers;
  RuleId root{0};
  u32 rewritten_rules = 0;  // of left recursion
  bool root_called = false; // some rule calls the root
  bool limited = false;     // some rule has a limit
  bool any_escapes = false; // a JSON text may escape characters, other than the slash, that need no escape
  bool permutes = false;    // parts of some text may stand in any order
  bool any_distinct = false; // some value must differ from others
  bool captures = false;    // some part of a text can be asked for by a name
  std::unique_ptr<Source> unlowered;  // of pending expressions
  Work work;                          // of the call that runs
  // Once least lengths are measured.
  bool distinct = false;                                // some value must differ from others
  std::vector<std::vector<RuleId>> scopes;              // by rule: the rules that read the values that must differ in it, their kinds
  std::vector<u32> least_bytes;  // by state: to the end of the rule, or of the body of a repetition or permutation
  std::vector<std::vector<u32>> least_values;  // of each kind: how many values are still to be read, by state
  struct Values {
    RuleId rule;
    u32 count;
    u64 together;
  };
  std::vector<std::vector<Values>> scope_values;  // by rule: the bytes of all values of each kind in its shortest text
  std::vector<std::optional<CountedLengths>> counted;  // by head
  std::vector<u32> counted_places;

  EachId<RuleId> each_rule() const { return {static_cast<u32>(rules.size())}; }
  EachId<NfaStateId> each_state() const { return {static_cast<u32>(states.size())}; }
  NfaStateId add_state(RuleId rule) {
    NfaState state;
    state.rule = rule;
    state.origin = rules[rule].origin;
    states.push_back(state);
    return NfaStateId(static_cast<u32>(states.size() - 1));
  }
  const Counting& counting(NfaStateId state) const { return countings[states[state].counting]; }
  void set_counting(NfaStateId state, const Counting& counting) {
    if (counting == Counting{}) {
      states[state].counting = 0;
      return;
    }
    if (countings.back() != counting) countings.push_back(counting);
    states[state].counting = static_cast<u32>(countings.size() - 1);
  }
  template <class F>
  void change_counting(NfaStateId state, F change) {
    Counting counting = this->counting(state);
    change(counting);
    set_counting(state, counting);
  }
  void set_head(NfaStateId state, u32 head) {
    change_counting(state, [head](Counting& counting) { counting.head = head; });
  }
  void expand(NfaStateId state) {
    if (states[state].pending != NONE) unlowered->expand(*this, state, nullptr);
  }
  // Lowers everything.
  void complete(Deadline& deadline) {
    for (NfaStateId state{0}; state < states.size(); state = NfaStateId(state + 1))  // expanding adds states
      if (states[state].pending != NONE) unlowered->expand(*this, state, &deadline);
  }
  // Lowers all of one rule and returns its states. It stops when there are more than `most`.
  std::vector<NfaStateId> complete_rule(RuleId rule, std::size_t most = NONE);
  std::vector<RuleId> distinct_rules(RuleId rule);
  // The least number of bytes that an item still has to read until its rule ends.
  u64 distance(Item item) const { return distance(item, least_bytes); }
  u64 distance(Item item, const std::vector<u32>& least) const;
  u64 distance_of_head(const Head& head, const Register& reg, const std::vector<u32>& least) const;
  u64 counted_rest(NfaStateId state, u32 count, const std::vector<u32>& least) const;
  void add_edge(NfaStateId source, u8 kind, NfaStateId target, u32 data = 0, u8 lo = 0, u8 hi = 0, u8 flags = 0) {
    edges.push_back({kind, lo, hi, flags, target, data, states[source].first});
    states[source].first = static_cast<u32>(edges.size() - 1);
  }
};

// Epsilon closures with registers. Items that read nothing and do not end a rule are left out.
class Closure {
  static constexpr u32 MAX_REGISTERS = 1 << 20;

 public:
  explicit Closure(Nfa& nfa) : nfa_(nfa), registers_(nfa.registers) {}
  void begin() {
    result.clear();
    pending_.clear();
    if (marks_.size() < nfa_.states.size()) marks_.resize(nfa_.states.size(), {0, ZERO_REGISTER});
    if (++epoch_ == 0) {
      for (auto& mark : marks_) mark.epoch = 0;
      epoch_ = 1;
    }
    if (extra_count_) extra_.clear();
    extra_count_ = 0;
  }
  void add(NfaStateId state, RegisterId reg) { pending_.push_back({state, reg}); }
  void run();  // fills result, sorted
  // Replaces items of result, sorted, that differ by their counts by one item, if their counts allow the same as a range of counts does.
  void unite_counts();
  std::vector<Item> result;

 private:
  struct Mark {
    u32 epoch;
    RegisterId reg;
  };
  Nfa& nfa_;
  Registers& registers_;
  std::vector<Item> pending_;
  std::vector<Register> united_;  // of unite_counts(), kept for its memory
  std::vector<u32> available_;  // of expand_head(), likewise
  FlatMap extra_;  // items whose state has been seen with another register
  u32 extra_count_ = 0;
  GrowingArray<Mark> marks_;
  u32 epoch_ = 0;
  bool seen(const Item& item);
  bool alive(const Counting& counting, const Item& item) const;
  void expand_head(const Item& item, const Head& head);
};

// Sets `available` to the members of a permutation that may come next, a bit for each: those that leave room for the required ones.
// Returns whether no required one is missing.
bool find_available(const Registers& registers, const Head& head, const Register& reg, std::vector<u32>& available);

// An NFA that is lowered as far as closures come. If rules call themselves before they read anything, it is lowered completely and
// rewritten. Throws Unsatisfiable if the grammar generates nothing.
Nfa lower(std::shared_ptr<Expressions> expressions, const TokenTrie& trie, const Limits& limits, Deadline& deadline);
void rewrite(Nfa& nfa, const Thresholds& thresholds, const Limits& limits, Deadline& deadline);
void measure(Nfa& nfa, Deadline& deadline);  // lowers everything; fills the fields of Nfa that need least lengths, and Rule::shortest

}  // namespace stackmask
