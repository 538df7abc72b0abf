// Sums of lengths that may be infinite.
#pragma once

#include <algorithm>

#include "base.h"

namespace stackmask {

constexpr u64 LONG = 0xF0000000u;  // stands for every length that no text will have

inline u64 plus(u64 a, u64 b) { return a >= NONE || b >= NONE ? u64{NONE} : std::min(a + b, LONG); }

}  // namespace stackmask
