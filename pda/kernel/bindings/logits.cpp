// Logits of Python: masks them in place, and finds the best token of a row.
#include "logits.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <algorithm>

#include "bindings/module.h"

namespace stackmask {

namespace {

using Logits = nb::ndarray<nb::ndim<2>, nb::device::cpu>;
using Bitmask = nb::ndarray<const std::int32_t, nb::ndim<2>, nb::device::cpu>;

template <class T>
void mask_rows(const Logits& logits, const Bitmask& bitmask, u64 forbidden, const std::vector<std::size_t>& rows) {
  const WithoutGil released;
  for (const std::size_t row : rows)
    mask_row(static_cast<T*>(logits.data()) + static_cast<i64>(row) * logits.stride(0), logits.shape(1),
             reinterpret_cast<const u32*>(bitmask.data() + static_cast<i64>(row) * bitmask.stride(0)), bitmask.shape(1),
             static_cast<T>(forbidden));
}

// The given rows, or all; their columns must be contiguous.
void check_rows(const Logits& logits, const Bitmask* bitmask, std::optional<std::vector<std::size_t>>& rows) {
  const std::size_t count = bitmask ? std::min(logits.shape(0), bitmask->shape(0)) : logits.shape(0);
  if (!rows) {
    if (bitmask && logits.shape(0) != bitmask->shape(0)) throw nb::value_error("the logits and the bitmask have different numbers of rows");
    rows.emplace(count);
    for (std::size_t i = 0; i < count; ++i) (*rows)[i] = i;
  }
  for (const std::size_t row : *rows)
    if (row >= count) throw nb::index_error("a row is outside the logits or the bitmask");
  if ((logits.shape(1) > 1 && logits.stride(1) != 1) || (bitmask && bitmask->shape(1) > 1 && bitmask->stride(1) != 1))
    throw nb::value_error("the columns of logits and bitmask must be contiguous");
}

std::vector<i64> best_tokens(const Logits& logits, const std::optional<Bitmask>& bitmask, std::optional<std::vector<std::size_t>> rows) {
  if (logits.dtype() != nb::dtype<float>()) throw nb::type_error("the logits are not float32");
  check_rows(logits, bitmask ? &*bitmask : nullptr, rows);
  std::vector<i64> best;
  best.reserve(rows->size());
  const WithoutGil released;
  for (const std::size_t row : *rows) {
    const u32* mask = bitmask ? reinterpret_cast<const u32*>(bitmask->data() + static_cast<i64>(row) * bitmask->stride(0)) : nullptr;
    best.push_back(best_of_row(static_cast<const float*>(logits.data()) + static_cast<i64>(row) * logits.stride(0), logits.shape(1), mask,
                               mask ? bitmask->shape(1) : 0));
  }
  return best;
}

void mask_logits(const Logits& logits, const Bitmask& bitmask, u64 forbidden, std::optional<std::vector<std::size_t>> rows) {
  check_rows(logits, &bitmask, rows);
  switch (logits.dtype().bits) {
    case 16: return mask_rows<u16>(logits, bitmask, forbidden, *rows);
    case 32: return mask_rows<u32>(logits, bitmask, forbidden, *rows);
    case 64: return mask_rows<u64>(logits, bitmask, forbidden, *rows);
    default: throw nb::type_error("a logit has 16, 32 or 64 bits");
  }
}

}  // namespace

void bind_logits(nb::module_& m) {
  m.def("mask_logits", &mask_logits, nb::arg("logits"), nb::arg("bitmask"), nb::arg("forbidden"), nb::arg("rows") = nb::none(),
        nb::sig(
            "def mask_logits(logits: object, bitmask: object, forbidden: int, rows: collections.abc.Sequence[int] | None = None) -> None"),
        "Replace the logits that a bitmask forbids by `forbidden`, given as the bits of a logit; rows of both by the same index.");

  m.def(
      "best_tokens", &best_tokens, nb::arg("logits"), nb::arg("bitmask").none(), nb::arg("rows") = nb::none(),
      nb::sig("def best_tokens(logits: object, bitmask: object | None, rows: collections.abc.Sequence[int] | None = None) -> list[int]"),
      "The token with the largest logit in each row, float32, of those that the bitmask allows if there is one; -1 where it allows none.");
}

}  // namespace stackmask
