// The trie of a vocabulary's tokens.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <algorithm>

#include "bindings/module.h"
#include "thresholds.h"

namespace stackmask {

namespace {

Thresholds thresholds_of(nb::handle given) {
  Thresholds thresholds;
  if (given.is_none()) return thresholds;
  for (const auto& [name, value] : nb::cast<nb::dict>(given)) {
    const std::string wanted = nb::cast<std::string>(name);
    const auto found = std::find_if(std::begin(THRESHOLDS), std::end(THRESHOLDS), [&](const auto& each) { return wanted == each.name; });
    if (found == std::end(THRESHOLDS)) throw nb::value_error(("there is no threshold " + wanted).c_str());
    thresholds.*found->value = nb::cast<u32>(value);
  }
  return thresholds;
}

std::shared_ptr<TokenTrie> make_trie(nb::object tokens, i64 size, i64 set_bytes, i64 class_bytes, nb::handle thresholds) {
  std::vector<std::pair<const char*, std::size_t>> texts;
  const nb::object fast = nb::steal(PySequence_Fast(tokens.ptr(), "tokens is not a sequence"));
  if (!fast.is_valid()) throw nb::python_error();
  const nb::object tuple = PyTuple_Check(fast.ptr()) ? fast : nb::steal(PyList_AsTuple(fast.ptr()));
  if (!tuple.is_valid()) throw nb::python_error();
  const Py_ssize_t count = NB_TUPLE_GET_SIZE(tuple.ptr());
  if (size < count)
    throw nb::value_error(("the vocabulary has " + std::to_string(count) + " tokens, more than its size " + std::to_string(size)).c_str());
  if (size > (1 << 24)) throw nb::value_error("a vocabulary has at most 16,777,216 tokens");
  texts.reserve(static_cast<std::size_t>(count));
  for (Py_ssize_t i = 0; i < count; i++) {
    if ((i & 0xFFFF) == 0xFFFF) check_signals();
    PyObject* token = NB_TUPLE_GET_ITEM(tuple.ptr(), i);
    if (token == Py_None) texts.push_back({nullptr, 0});
    else if (PyBytes_Check(token)) texts.push_back({PyBytes_AsString(token), static_cast<std::size_t>(PyBytes_Size(token))});
    else
      throw nb::type_error(
          ("token " + std::to_string(i) + " is " + nb::type_name(nb::handle(token).type()).c_str() + ", not bytes or None").c_str());
  }
  const auto bytes = [](i64 given) { return static_cast<std::size_t>(std::max<i64>(given, 0)); };
  return std::make_shared<TokenTrie>(texts, static_cast<u32>(size), bytes(set_bytes), bytes(class_bytes), thresholds_of(thresholds));
}

}  // namespace

void bind_vocabularies(nb::module_& m) {
  nb::class_<TokenTrie>(
      m, "TokenTrie",
      "The bytes of every token, as a trie. An id with None or with no bytes is a token without text.\n\n"
      "All grammars share its tables: sets of nodes, which are kept and take at most set_bytes, and tables of classes of characters,\n"
      "which are dropped if they are not used and take at most class_bytes.\n"
      "The thresholds are sizes from which the kernel changes its strategy. Masks do not depend on them; tests change them.")
      .def(nb::new_([](nb::object tokens, i64 size, i64 set_bytes, i64 class_bytes, nb::object thresholds) {
             return make_trie(tokens, size, set_bytes, class_bytes, thresholds);
           }),
           nb::arg("tokens"), nb::arg("size"), nb::kw_only(), nb::arg("set_bytes") = 64 << 20, nb::arg("class_bytes") = 64 << 20,
           nb::arg("thresholds") = nb::none())
      .def_prop_ro(
          "thresholds",
          [](const TokenTrie& self) {
            nb::typed<nb::dict, nb::str, nb::int_> d;
            for (const auto& [name, value] : THRESHOLDS) d[name] = self.thresholds().*value;
            return d;
          },
          "The sizes from which the kernel changes its strategy.")
      .def_prop_ro("size", &TokenTrie::size, "The number of tokens, padding included.")
      .def_prop_ro("nodes", &TokenTrie::node_count, "The number of trie nodes.")
      .def_prop_ro("memory", &TokenTrie::bytes, "The bytes that the trie takes.");
}

}  // namespace stackmask
