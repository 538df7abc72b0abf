// Which vertices the root reaches, in which order, and which of them call themselves (Tarjan 1972, with an explicit stack).
#include <algorithm>

#include "grammar/facts/passes.h"

namespace stackmask {

namespace {

class Reach : StateSearch {
 public:
  Reach(const Expressions& expressions, Survey& survey, Deadline& deadline) : StateSearch(expressions, survey), deadline_(deadline) {}

  void run() {
    const u32 vertices = static_cast<u32>(facts_.flags.size());
    std::vector<u32> index(vertices, 0), low(vertices, 0), stack;
    recursive_.assign(vertices, 0);
    facts_.rank.assign(vertices, 0);
    order_.reserve(vertices);
    std::vector<u8> emitted(vertices, 0);
    u32 next = 1;
    struct Visit {
      u32 vertex;
      u32 at, count;
    };
    std::vector<Visit> visits;
    auto enter = [&](u32 v) {
      index[v] = low[v] = next++;
      facts_.flags[v] |= REACHED;
      stack.push_back(v);
      visits.push_back({v, 0, static_cast<u32>(child_count(v))});
    };
    enter(root());
    while (!visits.empty()) {
      deadline_.check();
      Visit& visit = visits.back();
      const u32 v = visit.vertex;
      bool descended = false;
      while (visit.at < visit.count) {
        const u32 w = child(v, visit.at++);
        if (w == NONE || !facts_.is(w, PRODUCTIVE)) continue;
        if (!index[w]) {
          enter(w);
          descended = true;
          break;
        }
        if (!emitted[w]) low[v] = std::min(low[v], index[w]);
      }
      if (descended) continue;
      visits.pop_back();
      if (!visits.empty()) low[visits.back().vertex] = std::min(low[visits.back().vertex], low[v]);
      if (low[v] != index[v]) continue;
      const std::size_t first = order_.size();
      u32 w;
      do {
        w = stack.back();
        stack.pop_back();
        emitted[w] = 1;
        order_.push_back(w);
      } while (w != v);
      if (order_.size() - first > 1) component(first);
    }
    for (std::size_t i = 0; i < order_.size(); i++) facts_.rank[order_[i]] = static_cast<u32>(order_.size() - i);
  }

 private:
  Deadline& deadline_;

  // Vertices that reach each other, by which may call which before anything is read; a cycle there is left recursion.
  void component(std::size_t first) {
    std::vector<u32> members(order_.begin() + static_cast<std::ptrdiff_t>(first), order_.end());
    for (const u32 v : members) recursive_[v] = 1;  // 2: begun, 3: done
    order_.resize(first);
    struct Visit {
      u32 vertex;
      std::size_t at;
      std::vector<u32> left;
    };
    std::vector<Visit> visits;
    for (const u32 start : members) {
      if (recursive_[start] != 1) continue;
      recursive_[start] = 2;
      visits.push_back({start, 0, left_children(start)});
      while (!visits.empty()) {
        deadline_.check();
        Visit& visit = visits.back();
        if (visit.at == visit.left.size()) {
          recursive_[visit.vertex] = 3;
          order_.push_back(visit.vertex);
          visits.pop_back();
          continue;
        }
        const u32 w = visit.left[visit.at++];
        if (recursive_[w] == 2) facts_.left_recursive = true;
        if (recursive_[w] != 1) continue;
        recursive_[w] = 2;
        visits.push_back({w, 0, left_children(w)});
      }
    }
  }

  std::vector<u32> left_children(u32 vertex) {
    std::vector<u32> left;
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
      bool empty = false;  // a member that reads nothing is followed by a separator
      for (std::size_t i = 3; i < ex_.count(vertex); i += 2)
        add(operand(vertex, i)), empty = empty || facts_.is(operand(vertex, i), NULLABLE);
      if (empty) add(operand(vertex));
    } else {
      each_child(vertex, add);
    }
    return left;
  }
};

}  // namespace

void reach(const Expressions& expressions, Survey& survey, Deadline& deadline) { Reach(expressions, survey, deadline).run(); }

}  // namespace stackmask
