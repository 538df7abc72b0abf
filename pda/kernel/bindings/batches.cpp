// Calls for all matchers of a batch.
#include "batch.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "background_filler.h"
#include "bindings/bitmask_rows.h"
#include "bindings/module.h"

namespace stackmask {

namespace {

// The matchers of a batch; they stay alive while the GIL is released.
struct Batch {
  std::vector<Matcher*> matchers;
  std::vector<nb::object> alive;
  explicit Batch(nb::handle given) {
    for (nb::handle matcher : nb::iter(given)) {
      if (!nb::isinstance<Matcher>(matcher)) throw nb::type_error("a matcher was expected");
      matchers.push_back(nb::cast<Matcher*>(matcher));
      alive.push_back(nb::borrow(matcher));
    }
  }
};

// The indices of the batch's rows: as given, or 0, 1, 2 ...
std::vector<i64> rows_of(nb::handle rows, std::size_t count) {
  std::vector<i64> result;
  if (rows.is_none()) {
    for (std::size_t i = 0; i < count; i++) result.push_back(static_cast<i64>(i));
    return result;
  }
  for (nb::handle row : nb::iter(rows)) result.push_back(nb::cast<i64>(row));
  if (result.size() != count)
    throw nb::value_error((std::to_string(count) + " matchers, but " + std::to_string(result.size()) + " rows").c_str());
  std::vector<i64> sorted = result;
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) throw nb::value_error("two matchers have the same row");
  return result;
}

// The arguments of a call that fills bitmasks, checked.
struct Fill {
  Batch batch;
  std::optional<BitmaskRows> target;
  std::vector<u32*> rows;
  Fill(nb::handle matchers, nb::handle bitmask, nb::handle places) : batch(matchers) {
    const std::vector<Matcher*>& list = batch.matchers;
    const std::vector<i64> wanted = rows_of(places, list.size());
    for (const Matcher* matcher : list)
      if (matcher->trie().size() != list[0]->trie().size()) throw nb::value_error("the matchers have vocabularies of different sizes");
    if (list.empty()) return;
    target.emplace(bitmask, list[0]->trie());
    for (const i64 place : wanted) rows.push_back(target->row(place));
  }
};

struct BitmaskFiller {
  nb::object rows;
  BackgroundFiller filler;  // ends before the rows that it fills are freed
};

}  // namespace

void bind_batches(nb::module_& m) {
  m.def(
      "fill_bitmasks",
      [](nb::handle matchers, nb::handle bitmask, nb::handle rows) {
        const Fill fill(matchers, bitmask, rows);
        const WithoutGil released;
        for (std::size_t i = 0; i < fill.rows.size(); i++) fill.batch.matchers[i]->fill(fill.rows[i]);
      },
      nb::arg("matchers"), nb::arg("bitmask"), nb::arg("rows") = nb::none(),
      "Fill a row for each matcher: row `rows[i]` for matcher i, or row i.");

  nb::class_<Fill>(m, "MatcherRows",
                   "A batch of matchers and their rows of a bitmask, `rows[i]` or i, checked once for any number of steps.")
      .def(nb::init<nb::handle, nb::handle, nb::handle>(), nb::arg("matchers"), nb::arg("bitmask"), nb::arg("rows") = nb::none())
      .def(
          "take",
          [](const Fill& self, nb::handle token_ids) {
            const std::vector<Matcher*>& list = self.batch.matchers;
            std::vector<TokenId> tokens;
            tokens.reserve(list.size());
            for (nb::handle id : nb::iter(token_ids)) {
              if (tokens.size() < list.size()) tokens.push_back(checked_token(list[tokens.size()]->trie(), nb::cast<i64>(id)));
              else throw nb::value_error("there are more tokens than matchers");
            }
            if (tokens.size() < list.size()) throw nb::value_error("there are fewer tokens than matchers");
            const WithoutGil released;
            return accept_all(list, tokens);
          },
          nb::arg("token_ids"), nb::sig("def take(self, token_ids: object) -> list[int] | None"),
          "Accept one token for each matcher, all or nothing. Return the byte lengths of their shortest completions, -1 for none.\n\n"
          "Return None, with every matcher unchanged, if one refuses its token or exceeds a limit.");

  nb::class_<BitmaskFiller>(m, "BitmaskFiller", "Fills bitmasks in a separate thread while its caller does other work.")
      .def(nb::init<>())
      .def(
          "begin",
          [](BitmaskFiller& self, nb::object rows) {
            if (self.rows.is_valid()) throw nb::value_error("it has begun already; call end first");
            const Fill& fill = nb::cast<const Fill&>(rows);
            self.filler.begin(fill.batch.matchers, fill.rows);
            self.rows = std::move(rows);
          },
          nb::arg("rows"), nb::sig("def begin(self, rows: MatcherRows) -> None"),
          "Begin to fill these rows. Do not change the matchers or read the rows until `end` returns.")
      .def(
          "end",
          [](BitmaskFiller& self) {
            if (!self.rows.is_valid()) throw nb::value_error("nothing has begun");
            std::exception_ptr error;
            {
              const WithoutGil released;
              error = self.filler.end();
            }
            self.rows.reset();
            if (error) std::rethrow_exception(error);
          },
          "Wait until the rows are filled, and raise the error of the first row that has one.");

  m.def(
      "completion_lengths",
      [](nb::handle matchers) {
        const Batch batch(matchers);
        std::vector<i64> lengths;
        const WithoutGil released;
        for (const Matcher* matcher : batch.matchers) lengths.push_back(completion_length(*matcher));
        return lengths;
      },
      nb::arg("matchers"), nb::sig("def completion_lengths(matchers: object) -> list[int]"),
      "For each matcher the length in bytes of its `shortest_completion`, -1 if that raises an error.");
}

}  // namespace stackmask
