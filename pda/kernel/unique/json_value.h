// JSON values in a canonical spelling, by which equal values are found (RFC 8259, RFC 8785 in spirit): numbers by value without rounding,
// strings after unescaping, objects without the order of their keys. A text that is not JSON is its own canonical spelling.
//
//   1.50e1     ->  15e0            digits without zeros at either end, and an exponent of any size
//   "\u0061"   ->  "a"             only the quote and the backslash stay escaped
//   {"b":1, "a":2}  ->  {"a":2e0,"b":1e0}
//
// One pass with an explicit stack of open objects and arrays, and a sort of the members of each object.
// Tested by tests/pda/test_engine_distinct.py.
#pragma once

#include <string>

namespace stackmask {

std::string canonical_json(const std::string& text);

}  // namespace stackmask
