// The matcher of one request.
#include "matcher.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/bitmask_rows.h"
#include "bindings/module.h"

namespace stackmask {

void bind_matchers(nb::module_& m) {
  nb::class_<Matcher>(m, "Matcher",
                      "The text of one request so far, and the tokens that may follow it. Two threads must not use it at once.")
      .def(
          "__init__",
          [](Matcher* self, const KernelGrammar& grammar, nb::object stop_token_ids) {
            std::vector<TokenId> stops = checked_tokens(grammar.automaton->trie(), stop_token_ids);
            new (self) Matcher(grammar.automaton, std::move(stops));
          },
          nb::arg("grammar"), nb::arg("stop_token_ids"))
      .def("__repr__",
           [](const Matcher& self) {
             return "<Matcher after " + std::to_string(self.num_accepted()) + " tokens" + (self.is_terminated() ? ", terminated" : "") +
                    ">";
           })
      .def_prop_ro("num_accepted", &Matcher::num_accepted, "The number of steps that rollback can undo.")
      .def_prop_ro(
          "temperature",
          [](const Matcher& self) -> std::optional<double> {
            const double value = self.temperature();
            return value < 0 ? std::nullopt : std::optional<double>(value);
          },
          "The temperature at which to sample the next token, the highest if there are several; None if the grammar sets none.")
      .def_prop_ro(
          "taken",
          [](const Matcher& self) {
            nb::list steps;
            for (const auto& [token, text] : self.taken()) {
              if (token != NONE) steps.append(nb::int_(static_cast<u32>(token)));
              else steps.append(to_bytes(text));
            }
            return steps;
          },
          nb::for_getter(nb::sig("def taken(self) -> list[int | bytes]")),
          "The accepted ids and texts, without stop tokens that the grammar does not require; empty for a grammar without CAPTURE.")
      .def("is_terminated", &Matcher::is_terminated, "Whether a stop token was accepted.")
      .def("is_completed", &Matcher::is_completed, "Whether the text may end here, so that every stop token is allowed.")
      .def(
          "accept_token", [](Matcher& self, i64 token_id) { return self.accept_token(checked_token(self.trie(), token_id)); },
          nb::arg("token_id"), "Accept a token and return True; return False and change nothing if it is not allowed.")
      .def(
          "accept_bytes", [](Matcher& self, nb::bytes data) { return self.accept_bytes(data.c_str(), data.size()); }, nb::arg("data"),
          "Accept a text as one step and return True; return False and change nothing if it is not allowed.")
      .def(
          "validate_tokens",
          [](const Matcher& self, nb::object token_ids) { return self.validate_tokens(checked_tokens(self.trie(), token_ids)); },
          nb::arg("token_ids"), "The number of these tokens that can be accepted one after the other. Accepts none of them.")
      .def(
          "rollback",
          [](Matcher& self, i64 n) {
            if (n < 0) throw nb::value_error(("cannot roll back " + std::to_string(n) + " tokens").c_str());
            self.rollback(n);
          },
          nb::arg("n"), "Undo the last n steps.")
      .def(
          "fork",
          [](nb::handle self) {
            nb::cast<const Matcher&>(self);  // a TypeError for a matcher whose __init__ never ran
            nb::object copy = nb::inst_alloc(self.type());
            new (nb::inst_ptr<Matcher>(copy)) Matcher(*nb::inst_ptr<Matcher>(self));
            nb::inst_mark_ready(copy);
            return copy;
          },
          nb::sig("def fork(self) -> typing.Self"), "An independent matcher in the same state, with the same history.")
      .def("reset", &Matcher::reset, "Return to the beginning of the text and forget the history.")
      .def(
          "fill_next_token_bitmask",
          [](const Matcher& self, nb::handle bitmask, i64 index) {
            const BitmaskRows rows(bitmask, self.trie());
            u32* row = rows.row(index);
            const WithoutGil released;
            return self.fill(row);
          },
          nb::arg("bitmask"), nb::arg("index") = 0,
          "Write one row of a bitmask: bit i of word w is 1 if token 32 w + i is allowed. Return False if every token is allowed.")
      .def(
          "fill_by_trial",
          [](const Matcher& self, nb::handle bitmask, i64 index) {
            const BitmaskRows rows(bitmask, self.trie());
            u32* row = rows.row(index);
            const WithoutGil released;
            self.fill_by_trial(row);
          },
          nb::arg("bitmask"), nb::arg("index") = 0,
          "Write the same row as fill_next_token_bitmask, by trying to accept every token. Slow; the oracle of the tests.")
      .def(
          "allowed_tokens",
          [](const Matcher& self) {
            std::vector<u32> row(self.trie().words());
            {
              const WithoutGil released;
              self.fill(row.data());
            }
            std::vector<u32> tokens;
            for (const TokenId token : EachId<TokenId>{self.trie().size()})
              if (has_bit(row.data(), token)) tokens.push_back(token);
            return tokens;
          },
          "The ids of the tokens that are allowed now, ascending.")
      .def(
          "find_jump_forward_bytes", [](const Matcher& self) { return to_bytes(self.jump_forward()); },
          "The bytes that must follow, up to a choice or the end of the text; at most 65,536 at once.")
      .def(
          "find_jump_forward_string",
          [](const Matcher& self) {
            // The forced bytes are UTF-8, unless they are cut inside a character or the grammar has raw bytes.
            const std::string bytes = self.jump_forward();
            const nb::object text = nb::steal(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "strict"));
            if (text.is_valid()) return nb::str(text);
            nb::python_error error;
            const Py_ssize_t start = nb::cast<Py_ssize_t>(nb::object(error.value().attr("start")));
            return nb::str(bytes.data(), static_cast<std::size_t>(start));
          },
          "The bytes that must follow, as text, up to the first that are not UTF-8.")
      .def(
          "shortest_completion",
          [](const Matcher& self) {
            std::string text;
            {
              const WithoutGil released;
              text = self.shortest_completion();
            }
            return to_bytes(text);
          },
          "A shortest text that completes the text so far.\n\n"
          "A completion has no token that the grammar requires by its id. Raises GrammarError if every completion needs such a token,\n"
          "and LimitError if the completion is too long or values that must differ leave too many candidates.")
      .def(
          "matching_prefix", [](const Matcher& self, nb::bytes data) { return self.matching_prefix(data.c_str(), data.size()); },
          nb::arg("data"), "The number of these bytes, from the first on, that can be accepted. Accepts none of them.")
      .def(
          "next_bytes", [](const Matcher& self, nb::bytes data) { return to_bytes(self.next_bytes(data.c_str(), data.size())); },
          nb::arg("data") = nb::bytes("", 0), "The bytes that may follow `data`, sorted; empty if `data` is not allowed.")
      .def(
          "rule_names", [](const Matcher& self, nb::bytes data) { return self.rule_names(data.c_str(), data.size()); },
          nb::arg("data") = nb::bytes("", 0),
          "The names of the rules that are open after `data`, innermost first; empty if `data` is not allowed.");

  m.def(
      "fill_draft_bitmasks",
      [](const Matcher& matcher, nb::object draft_token_ids, nb::handle bitmask, i64 row, nb::object parents) {
        const std::vector<TokenId> tokens = checked_tokens(matcher.trie(), draft_token_ids);
        std::vector<i32> before;
        if (parents.is_none()) {
          for (std::size_t i = 0; i < tokens.size(); i++) before.push_back(static_cast<i32>(i) - 1);
        } else {
          for (nb::handle parent : nb::iter(parents)) before.push_back(nb::cast<i32>(parent));
          if (before.size() != tokens.size())
            throw nb::value_error(
                (std::to_string(tokens.size()) + " draft tokens, but " + std::to_string(before.size()) + " parents").c_str());
          for (std::size_t i = 0; i < before.size(); i++)
            if (before[i] < -1 || before[i] >= static_cast<i32>(i))
              throw nb::value_error(("the parent of draft token " + std::to_string(i) + " is " + std::to_string(before[i]) +
                                     ", not -1 or a draft token before it")
                                        .c_str());
        }
        const BitmaskRows rows(bitmask, matcher.trie());
        u32* first = rows.row(row);
        rows.row(row + static_cast<i64>(tokens.size()));
        const WithoutGil released;
        matcher.fill_drafts(tokens, before, first);
      },
      nb::arg("matcher"), nb::arg("draft_token_ids"), nb::arg("bitmask"), nb::arg("row"), nb::arg("parents") = nb::none(),
      "Fill `row` with the mask now, and row + i + 1 with the mask after draft token i and those before it.\n\n"
      "`parents[i]` is the draft token before token i, -1 for none; by default the drafts are a chain.\n"
      "Rows at and below a refused draft token are all zeros. The matcher does not change.");
}

}  // namespace stackmask
