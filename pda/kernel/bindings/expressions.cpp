#include "bindings/expressions.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <mutex>

namespace stackmask {

namespace {

[[noreturn]] void malformed(const char* what) { throw BadGrammar(std::string("malformed grammar: ") + what); }

i32 small_int(PyObject* value) {
  if (!PyLong_CheckExact(value) && !PyBool_Check(value)) malformed("a node has an argument that is not an integer");
  int overflow = 0;
  const long result = PyLong_AsLongAndOverflow(value, &overflow);
  if (overflow || result < INT32_MIN || result > INT32_MAX) malformed("a number of a node does not fit 32 bits");
  return static_cast<i32>(result);
}

PyObject* checked_tuple(PyObject* value) {
  if (!PyTuple_Check(value)) malformed("a tuple was expected");
  return value;
}

std::string_view utf8(PyObject* text, const char* wrong) {
  Py_ssize_t length = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text, &length);
  if (bytes == nullptr) {
    PyErr_Clear();
    malformed(wrong);
  }
  return {bytes, static_cast<std::size_t>(length)};
}

// PERF: tuples are read by the C API. Their items live as long as the tuple, which the caller holds.
void read_node(Expressions& ex, PyObject* node) {
  const std::size_t n = static_cast<std::size_t>(NB_TUPLE_GET_SIZE(checked_tuple(node)));
  auto item = [&](std::size_t i) { return NB_TUPLE_GET_ITEM(node, static_cast<Py_ssize_t>(i)); };
  if (n == 0) malformed("a node is empty");
  const i32 op = small_int(item(0));
  const u32 begin = static_cast<u32>(ex.ints.size());
  auto add = [&](i32 value) { ex.ints.push_back(value); };
  auto spread = [&](PyObject* values) {
    const Py_ssize_t count = NB_TUPLE_GET_SIZE(checked_tuple(values));
    for (Py_ssize_t i = 0; i < count; i++) add(small_int(NB_TUPLE_GET_ITEM(values, i)));
  };
  auto need = [&](std::size_t count) {
    if (n != count) malformed("a node has the wrong number of arguments");
  };
  switch (op) {
    case OP_LITERAL: {
      need(2);
      if (!PyBytes_Check(item(1))) malformed("a literal is not bytes");
      add(static_cast<i32>(ex.literals.size()));
      ex.literals.push_back({PyBytes_AsString(item(1)), static_cast<std::size_t>(PyBytes_Size(item(1)))});
      break;
    }
    case OP_BYTES: need(2), spread(item(1)); break;
    case OP_CHARS: need(3), add(small_int(item(2))), spread(item(1)); break;
    case OP_GRAPH: need(3), add(small_int(item(1))), spread(item(2)); break;
    case OP_TOKENS: need(3), add(small_int(item(2))), spread(item(1)); break;
    case OP_PERMUTE:
      need(5);
      for (std::size_t i : {2, 3, 4}) add(small_int(item(i)));
      spread(item(1));
      break;
    case OP_AUTOMATON: {
      if (n != 6) need(4);
      PyObject *transitions = checked_tuple(item(1)), *accepting = checked_tuple(item(2));
      const Py_ssize_t states = NB_TUPLE_GET_SIZE(transitions);
      if (states != NB_TUPLE_GET_SIZE(accepting)) malformed("an automaton's transitions and accepting states differ in number");
      add(small_int(item(3)));
      add(static_cast<i32>(states));
      add(n == 6 ? small_int(item(4)) : 0);
      add(n == 6 ? small_int(item(5)) : -1);
      for (Py_ssize_t s = 0; s < states; s++) {
        PyObject* list = checked_tuple(NB_TUPLE_GET_ITEM(transitions, s));
        const Py_ssize_t count = NB_TUPLE_GET_SIZE(list);
        const int accepts = PyObject_IsTrue(NB_TUPLE_GET_ITEM(accepting, s));
        if (accepts < 0) throw nb::python_error();
        add(accepts);
        add(static_cast<i32>(count));
        for (Py_ssize_t t = 0; t < count; t++) {
          PyObject* transition = NB_TUPLE_GET_ITEM(list, t);
          if (NB_TUPLE_GET_SIZE(checked_tuple(transition)) != 3) malformed("a transition is not (lo, hi, target)");
          spread(transition);
        }
      }
      break;
    }
    case OP_EXCEPT: {
      need(3);
      add(small_int(item(2)));
      PyObject* words = checked_tuple(item(1));
      for (Py_ssize_t i = 0; i < NB_TUPLE_GET_SIZE(words); i++) {
        PyObject* word = NB_TUPLE_GET_ITEM(words, i);
        if (!PyUnicode_Check(word)) malformed("a word is not a string");
        add(static_cast<i32>(ex.literals.size()));
        ex.literals.push_back(utf8(word, "a word has a lone surrogate"));
      }
      break;
    }
    case OP_CAPTURE: need(3), add(small_int(item(1))); break;
    case OP_TEMPERATURE: {
      need(3);
      const double value = PyFloat_AsDouble(item(2));
      if (PyErr_Occurred()) throw nb::python_error();
      if (!(value >= 0 && value < 1e300)) malformed("a temperature is not a number from 0");
      add(small_int(item(1)));
      add(static_cast<i32>(ex.numbers.size()));
      ex.numbers.push_back(value);
      break;
    }
    default:
      for (std::size_t i = 1; i < n; i++) add(small_int(item(i)));
  }
  ex.nodes.push_back({op, begin, static_cast<u32>(ex.ints.size())});
}

nb::tuple tuple_of(nb::handle value) { return nb::borrow<nb::tuple>(checked_tuple(value.ptr())); }

// The last large grammar. A grammar that begins with the same nodes, as those of one builder do, is read from the first difference
// on. INVARIANT: equal nodes are recognised by their identity, which is valid while their tuple is held here.
struct PreviousGrammar {
  nb::object nodes, names;
  std::shared_ptr<const Expressions> expressions;
  std::weak_ptr<const TokenTrie> trie;
};
constexpr std::size_t FEWEST_NODES = 500, MOST_NODES = 100'000;  // bounds on a grammar that is kept

std::mutex& previous_mutex() {
  static std::mutex mutex;
  return mutex;
}
PreviousGrammar& previous_grammar() {
  static PreviousGrammar* const found = new PreviousGrammar;  // never freed: it outlives the interpreter
  return *found;
}

// The number of items that two tuples share at their beginnings.
std::size_t shared(const nb::tuple& tuple, nb::handle before) {
  const std::size_t count = std::min(tuple.size(), static_cast<std::size_t>(NB_TUPLE_GET_SIZE(before.ptr())));
  std::size_t i = 0;
  while (i < count &&
         NB_TUPLE_GET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i)) == NB_TUPLE_GET_ITEM(before.ptr(), static_cast<Py_ssize_t>(i)))
    i++;
  return i;
}

}  // namespace

std::shared_ptr<Expressions> read_expressions(nb::handle grammar, const std::shared_ptr<const TokenTrie>& trie) {
  const auto made = std::make_shared<Expressions>();
  Expressions& ex = *made;
  const nb::tuple nodes = tuple_of(grammar.attr("nodes")), names = tuple_of(grammar.attr("names"));
  for (nb::handle rule : tuple_of(grammar.attr("rules"))) ex.rules.push_back(small_int(rule.ptr()));
  ex.root = small_int(nb::object(grammar.attr("root")).ptr());
  std::size_t named = 0;
  if (nodes.size() >= FEWEST_NODES) {
    PreviousGrammar before;
    {
      const std::lock_guard lock(previous_mutex());
      before = previous_grammar();
    }
    const std::size_t count = before.expressions ? shared(nodes, before.nodes) : 0;
    if (count >= FEWEST_NODES) {
      const Expressions& other = *before.expressions;
      ex.begin_as(other, count);
      named = shared(names, before.names);
      ex.names.assign(other.names, named);
      const bool same_rules = ex.rules.size() >= other.rules.size() && std::equal(other.rules.begin(), other.rules.end(), ex.rules.begin());
      if (same_rules && before.trie.lock() == trie) {
        ex.checked = static_cast<u32>(count);
        if (count == other.nodes.size()) ex.generates = other.generates;
      }
    }
  }
  const std::size_t known = ex.nodes.size();
  ex.nodes.reserve(nodes.size());
  ex.ints.reserve(ex.ints.size() + (nodes.size() - known) * 4);
  if (known == 0) ex.literals.reserve(nodes.size() / 4, nodes.size() * 2);
  if (named == 0) ex.names.reserve(names.size(), names.size() * 8);
  for (std::size_t i = known; i < nodes.size(); i++) read_node(ex, NB_TUPLE_GET_ITEM(nodes.ptr(), static_cast<Py_ssize_t>(i)));
  for (std::size_t i = named; i < names.size(); i++) {
    PyObject* name = NB_TUPLE_GET_ITEM(names.ptr(), static_cast<Py_ssize_t>(i));
    if (!PyUnicode_Check(name)) malformed("a name is not a string");
    ex.names.push_back(utf8(name, "a name has a lone surrogate"));
  }
  return made;
}

void remember(nb::handle grammar, std::shared_ptr<const Expressions> expressions, const std::shared_ptr<const TokenTrie>& trie) {
  if (expressions->nodes.size() < FEWEST_NODES || expressions->nodes.size() > MOST_NODES) return;
  PreviousGrammar now{grammar.attr("nodes"), grammar.attr("names"), std::move(expressions), trie};
  const std::lock_guard lock(previous_mutex());
  std::swap(previous_grammar(), now);
}

}  // namespace stackmask
