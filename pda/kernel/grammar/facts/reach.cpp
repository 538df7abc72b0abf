// Finds the vertices that the root reaches, their order, and the recursive ones.
#include "grammar/components.h"
#include "grammar/facts/passes.h"

namespace stackmask {

namespace {

class Reach : StateSearch {
 public:
  Reach(const Expressions& expressions, Survey& survey, Deadline& deadline) : StateSearch(expressions, survey), deadline_(deadline) {}

  void run() {
    const std::size_t vertices = facts_.flags.size();
    facts_.rank.assign(vertices, 0);
    order_.reserve(vertices);
    Components(vertices).reach(
        root(), [&](u32 v) { return child_count(v); },
        [&](u32 v, std::size_t i) {
          const u32 w = child(v, i);
          return w != NONE && facts_.is(w, PRODUCTIVE) ? w : u32{NONE};
        },
        [&](u32 v) {
          deadline_.check();
          facts_.flags[v] |= REACHED;
        },
        [&](const std::vector<u32>& members) {
          deadline_.check();
          if (members.size() > 1) component(members);
          else order_.push_back(members[0]);
        });
    for (std::size_t i = 0; i < order_.size(); i++) facts_.rank[order_[i]] = static_cast<u32>(order_.size() - i);
  }

 private:
  Deadline& deadline_;

  // Orders the members of a component by the calls that they may make before anything is read; a cycle of such calls is left recursion.
  void component(const std::vector<u32>& members) {
    std::vector<u8>& recursive = facts_.recursive;
    recursive.resize(facts_.flags.size());
    for (const u32 v : members) recursive[v] = 1;  // 2: begun, 3: done
    struct Visit {
      u32 vertex;
      std::size_t at, first;  // into `left`: the next vertex and the first one, which is where those of the visit before end
    };
    PooledVector<Visit> visits;
    PooledVector<u32> left;
    auto begin = [&](u32 vertex) {
      recursive[vertex] = 2;
      visits.push_back({vertex, left.size(), left.size()});
      add_left_children(vertex, left);
    };
    for (const u32 start : members) {
      if (recursive[start] == 1) begin(start);
      while (!visits.empty()) {
        deadline_.check();
        Visit& visit = visits.back();
        if (visit.at == left.size()) {
          recursive[visit.vertex] = 3;
          order_.push_back(visit.vertex);
          left.resize(visit.first);
          visits.pop_back();
          continue;
        }
        const u32 w = left[visit.at++];
        if (recursive[w] == 2) facts_.left_recursive = true;
        if (recursive[w] == 1) begin(w);
      }
    }
  }

  void add_left_children(u32 vertex, std::vector<u32>& left) {
    auto add = [&](u32 c) {
      if (c != NONE && facts_.is(c, PRODUCTIVE)) left.push_back(c);
    };
    if (vertex < nodes_ && op(vertex) == OP_SEQ) {
      for (std::size_t i = 0; i < ex_.count(vertex); i++) {
        add(operand(vertex, i));
        if (!facts_.is(operand(vertex, i), NULLABLE)) break;
      }
    } else if (vertex < nodes_ && op(vertex) == OP_GRAPH) {
      leads(vertex, NULLABLE);
      for (std::size_t i = 1; i < ex_.count(vertex); i += 3)
        if (reached_[operand(vertex, i)]) add(operand(vertex, i + 2));
    } else if (vertex < nodes_ && op(vertex) == OP_PERMUTE) {
      bool empty = false;  // a member that can read nothing is followed by a separator
      for (std::size_t i = 3; i < ex_.count(vertex); i += 2)
        add(operand(vertex, i)), empty = empty || facts_.is(operand(vertex, i), NULLABLE);
      if (empty) add(operand(vertex));
    } else {
      each_child(vertex, add);
    }
  }
};

}  // namespace

void reach(const Expressions& expressions, Survey& survey, Deadline& deadline) { Reach(expressions, survey, deadline).run(); }

}  // namespace stackmask
