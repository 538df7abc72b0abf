// A grammar prepared for a vocabulary, from a grammar of Python or from packed bytes.
#include <nanobind/stl/shared_ptr.h>

#include "bindings/expressions.h"
#include "bindings/module.h"
#include "grammar/packed.h"
#include "low_priority.h"
#include "matcher.h"

namespace stackmask {

namespace {

// Freeing an automaton can take milliseconds, so it releases the GIL.
void delete_without_gil(Automaton* automaton) {
  if (holds_gil()) {
    const WithoutGil released;
    delete automaton;
  } else {
    delete automaton;
  }
}

}  // namespace

void bind_grammars(nb::module_& m) {
  nb::class_<KernelGrammar>(m, "KernelGrammar",
                            "A grammar, packed or not, prepared for one vocabulary. Any number of matchers and threads share it.")
      .def(
          "__init__",
          [](KernelGrammar* self, std::shared_ptr<TokenTrie> trie, nb::object grammar, i64 states, i64 stack_depth, i64 memory,
             double seconds, i64 step_work) {
            const bool is_packed = PyBytes_Check(grammar.ptr());
            std::shared_ptr<Expressions> expressions = is_packed ? nullptr : read_expressions(grammar, trie);
            Limits limits;
            limits.states = static_cast<u64>(std::max<i64>(states, 0));
            limits.stack_depth = static_cast<u64>(std::max<i64>(stack_depth, 0));
            limits.memory = static_cast<u64>(std::max<i64>(memory, 0));
            limits.seconds = seconds;
            limits.step_work = static_cast<u64>(std::max<i64>(step_work, 0));
            {
              const WithoutGil released;
              if (is_packed) expressions = unpack(PyBytes_AsString(grammar.ptr()), static_cast<std::size_t>(PyBytes_Size(grammar.ptr())));
              new (self) KernelGrammar{std::shared_ptr<Automaton>(new Automaton(trie, expressions, limits), delete_without_gil)};
            }
            if (!is_packed) remember(grammar, expressions, trie);
          },
          nb::arg("trie"), nb::arg("grammar"), nb::kw_only(), nb::arg("states"), nb::arg("stack_depth"), nb::arg("memory"),
          nb::arg("seconds"), nb::arg("step_work") = static_cast<i64>(Limits().step_work))
      .def(
          "warm_up",
          [](const KernelGrammar& self) {
            const WithoutGil released;
            run_low_priority([&automaton = *self.automaton] {
              try {
                std::vector<u32> row(automaton.trie().words());
                automaton.run(1, 0, [&] { automaton.fill(automaton.initial(), row.data()); });
                automaton.run(Matcher::COMPLETION_STEPS, 0, [&] { automaton.shortest_length(automaton.initial()); });
              } catch (const std::exception&) {  // the first request raises it, too
              }
            });
          },
          "Build in advance what the first request needs: the first mask and the length of a completion.\n\n"
          "On Linux the thread that does this drops its priority after 20 ms.")
      .def_prop_ro(
          "memory",
          [](const KernelGrammar& self) {
            const auto locked = self.automaton->lock();
            return self.automaton->bytes();
          },
          "The bytes that the lazily built tables take.")
      .def_prop_ro(
          "has_temperature", [](const KernelGrammar& self) { return self.automaton->has_temperature(); },
          "Whether some part of the text has a temperature.")
      .def_prop_ro(
          "statistics",
          [](const KernelGrammar& self) {
            const auto locked = self.automaton->lock();
            const Statistics& s = self.automaton->statistics();
            nb::typed<nb::dict, nb::str, nb::int_> d;
            d["rules"] = self.automaton->rule_count();
            d["nfa_states"] = self.automaton->nfa_state_count();
            d["dfa_states"] = self.automaton->state_count();
            d["configurations"] = self.automaton->node_count();
            d["rewritten_rules"] = self.automaton->rewritten_rules();
            for (const auto& [name, value] : STATISTICS) d[name] = s.*value;
            d["work"] = std::as_const(*self.automaton).work().total();
            d["largest_work"] = std::as_const(*self.automaton).work().largest();
            d["tables"] = self.automaton->table_count();
            d["delta_states"] = self.automaton->delta_count();
            return d;
          },
          "Counts of built objects and of the strategies used, for tests and benchmarks.");

  m.def(
      "pack_grammar", [](nb::handle grammar) { return to_bytes(pack(*read_expressions(grammar, nullptr))); }, nb::arg("grammar"),
      "The grammar as bytes, which a KernelGrammar takes instead of it in a process of the same version on the same machine.");
}

}  // namespace stackmask
