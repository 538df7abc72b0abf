// Expressions as they come from Python, from bytes or from C: malformed ones are an error here, so that no later code has to check them.
#include "rules/nfa.h"

namespace stackmask {

void Expressions::validate(u32 vocabulary_size) const {
  auto fail = [](const std::string& what) { throw BadGrammar("malformed grammar: " + what); };
  if (rules.empty()) fail("no rules");
  if (root < 0 || static_cast<std::size_t>(root) >= rules.size()) fail("the root is not a rule");
  for (std::size_t r = 0; r < rules.size(); r++)
    if (rules[r] < 0 || static_cast<std::size_t>(rules[r]) >= nodes.size())
      fail("rule " + (r < names.size() ? std::string(names[r]) : std::to_string(r)) + " is not defined");
  if (names.size() != rules.size()) fail("there are not as many names as rules");
  for (u32 node = checked; node < nodes.size(); node++) {
    const std::size_t n = count(node);
    auto child = [&](std::size_t i) {
      if (i >= n || arg(node, i) < 0 || static_cast<u32>(arg(node, i)) >= node)
        fail("node " + std::to_string(node) + " refers to a node that does not come before it");
    };
    auto ranges = [&](std::size_t from, std::size_t to, std::size_t step, i32 maximum) {
      for (std::size_t i = from; i + 1 < to; i += step) {
        if (arg(node, i) < 0 || arg(node, i) > arg(node, i + 1) || arg(node, i + 1) > maximum)
          fail("node " + std::to_string(node) + " has a range out of order");
        if (i > from && arg(node, i) <= arg(node, i - step + 1)) fail("node " + std::to_string(node) + " has ranges out of order");
      }
    };
    auto need = [&](bool ok) {
      if (!ok) fail("node " + std::to_string(node) + " has wrong arguments");
    };
    auto bounds = [&](std::size_t i) { need(arg(node, i) >= 0 && (arg(node, i + 1) == -1 || arg(node, i + 1) >= arg(node, i))); };
    switch (nodes[node].op) {
      case OP_EMPTY:
      case OP_NEVER: break;
      case OP_LITERAL: need(n == 1 && !literal(node, 0).empty()); break;
      case OP_BYTES: need(n >= 2 && n % 2 == 0), ranges(0, n, 2, 255); break;
      case OP_CHARS: need(n >= 3 && n % 2 == 1 && arg(node, 0) >= UTF8 && arg(node, 0) <= JSON_ANY), ranges(1, n, 2, 0x10FFFF); break;
      case OP_SEQ:
      case OP_ALT:
        need(n >= 1);
        for (std::size_t i = 0; i < n; i++) child(i);
        break;
      case OP_REPEAT:
        need(n == 3), bounds(1);
        child(0);
        break;
      case OP_CALL: need(n == 1 && arg(node, 0) >= 0 && static_cast<std::size_t>(arg(node, 0)) < rules.size()); break;
      case OP_GRAPH:
        need(n >= 1 && n % 3 == 1 && arg(node, 0) >= 2);
        for (std::size_t i = 1; i < n; i += 3) {
          need(arg(node, i) >= 0 && arg(node, i) < arg(node, 0) && arg(node, i + 1) >= 0 && arg(node, i + 1) < arg(node, 0));
          if (arg(node, i + 2) != -1) child(i + 2);
        }
        break;
      case OP_AUTOMATON: {
        need(n >= 4 && arg(node, 0) >= RAW && arg(node, 0) <= JSON_ANY && arg(node, 1) >= 1), bounds(2);
        std::size_t at = 4;
        for (i32 s = 0; s < arg(node, 1); s++) {
          need(at + 1 < n && arg(node, at + 1) >= 0);
          const std::size_t transitions = static_cast<std::size_t>(arg(node, at + 1));
          at += 2;
          need(transitions <= (n - at) / 3);
          ranges(at, at + 3 * transitions, 3, arg(node, 0) == RAW ? 255 : 0x10FFFF);
          for (std::size_t t = 0; t < transitions; t++, at += 3) need(arg(node, at + 2) >= 0 && arg(node, at + 2) < arg(node, 1));
        }
        need(at == n);
        break;
      }
      case OP_EXCEPT:
        need(n >= 1 && arg(node, 0) >= UTF8 && arg(node, 0) <= JSON_ANY);
        for (std::size_t i = 2; i < n; i++)
          if (literal(node, i - 1) >= literal(node, i)) fail("node " + std::to_string(node) + " has words out of order");
        break;
      case OP_TOKENS:
        need(n >= 1);
        for (std::size_t i = 1; i < n; i++)
          if (arg(node, i) < 0 || static_cast<u32>(arg(node, i)) >= vocabulary_size)
            fail("token " + std::to_string(arg(node, i)) + " is not in the vocabulary");
        break;
      case OP_PERMUTE:
        need(n >= 3 && n % 2 == 1), bounds(1);
        child(0);
        for (std::size_t i = 3; i < n; i += 2) child(i), need(arg(node, i + 1) >= 0 && arg(node, i + 1) <= (REQUIRED | REPEATABLE));
        break;
      case OP_SCOPE:
      case OP_DISTINCT:
      case OP_CAPTURE: need(n == 1), child(0); break;
      case OP_LIMIT: need(n == 2 && arg(node, 1) >= 0), child(0); break;
      case OP_TEMPERATURE: need(n == 2), child(0); break;
      default: fail("node " + std::to_string(node) + " has an unknown operator");
    }
  }
}

std::size_t Expressions::bytes() const {
  return nodes.capacity() * sizeof(Node) + (ints.capacity() + rules.capacity()) * sizeof(i32) + numbers.capacity() * sizeof(double) +
         literals.bytes() + names.bytes() + generates.capacity();
}

void Expressions::begin_as(const Expressions& other, std::size_t count) {
  // Texts and numbers are named in the order of the nodes.
  std::size_t literal_count = other.literals.size(), number_count = other.numbers.size();
  for (u32 node = static_cast<u32>(other.nodes.size()); node-- > count;) {
    const i32 op = other.nodes[node].op;
    if (op == OP_LITERAL) literal_count = static_cast<std::size_t>(other.arg(node, 0));
    if (op == OP_EXCEPT && other.count(node) > 1) literal_count = static_cast<std::size_t>(other.arg(node, 1));
    if (op == OP_TEMPERATURE) number_count = static_cast<std::size_t>(other.arg(node, 1));
  }
  nodes.assign(other.nodes.begin(), other.nodes.begin() + static_cast<std::ptrdiff_t>(count));
  ints.assign(other.ints.begin(), other.ints.begin() + (count ? nodes.back().end : 0));
  literals.assign(other.literals, literal_count);
  numbers.assign(other.numbers.begin(), other.numbers.begin() + static_cast<std::ptrdiff_t>(number_count));
}

}  // namespace stackmask
