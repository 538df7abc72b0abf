// Strongly connected components, those that others lead to first (Tarjan 1972, with an explicit stack): linear in vertices and edges.
//
// Tested by tests/pda/kernel/test_lowering.py.
#pragma once

#include <algorithm>

#include "base.h"

namespace stackmask {

class Components {
 public:
  explicit Components(std::size_t vertices) { index_.assign(vertices, 0), low_.assign(vertices, 0), emitted_.assign(vertices, 0); }
  bool reached(u32 vertex) const { return index_[vertex] != 0; }

  // The components of what `root` reaches and was not reached before. `count(v)` is the number of edges of a vertex, `child(v, i)` where
  // one leads, NONE for nowhere; `enter(v)` is called when a vertex is reached, `emit(vertices)` for each component.
  template <class Count, class Child, class Enter, class Emit>
  void reach(u32 root, Count count, Child child, Enter enter, Emit emit) {
    auto begin = [&](u32 v) {
      index_[v] = low_[v] = ++last_;
      stack_.push_back(v);
      enter(v);
      visits_.push_back({v, 0, count(v)});
    };
    begin(root);
    while (!visits_.empty()) {
      Visit& visit = visits_.back();
      const u32 v = visit.vertex;
      bool descended = false;
      while (visit.at < visit.count) {
        const u32 w = child(v, visit.at++);
        if (w == NONE) continue;
        if (!reached(w)) {
          begin(w);
          descended = true;
          break;
        }
        if (!emitted_[w]) low_[v] = std::min(low_[v], index_[w]);
      }
      if (descended) continue;
      visits_.pop_back();
      if (!visits_.empty()) low_[visits_.back().vertex] = std::min(low_[visits_.back().vertex], low_[v]);
      if (low_[v] != index_[v]) continue;
      component_.clear();
      do {
        component_.push_back(stack_.back());
        stack_.pop_back();
        emitted_[component_.back()] = 1;
      } while (component_.back() != v);
      emit(component_);
    }
  }

 private:
  struct Visit {
    u32 vertex;
    std::size_t at, count;
  };
  PooledVector<u32> index_, low_;  // by vertex: when it was reached, from 1 on, and the earliest that it leads back to
  PooledVector<u8> emitted_;
  PooledVector<u32> stack_, component_;
  PooledVector<Visit> visits_;
  u32 last_ = 0;
};

}  // namespace stackmask
