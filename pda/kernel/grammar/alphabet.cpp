#include "grammar/alphabet.h"

#include <algorithm>

namespace stackmask {

namespace {

constexpr u64 ABOVE_ASCII = SIG_SPACE | SIG_NON_ASCII | SIG_INCOMPLETE | SIG_MALFORMED;

class Alphabet {
 public:
  u64 found = 0;

  void add(i32 lo, i32 hi) {
    if (hi > 127) found |= ABOVE_ASCII;
    for (i32 c = std::max(lo, 0); c <= std::min(hi, 127); c++) found |= signature_of_ascii(static_cast<u8>(c));
  }
  void add(std::string_view text) {
    for (const char byte : text) add(static_cast<u8>(byte), static_cast<u8>(byte));
  }
  // Characters in JSON may be spelled by escapes.
  void add_spelling(i32 encoding) {
    if (encoding >= JSON) add("\\\"/bfnrtu0123456789abcdefABCDEF");
  }
};

}  // namespace

u64 alphabet(const Expressions& ex) {
  Alphabet letters;
  for (u32 node = 0; node < ex.nodes.size(); node++) {
    const std::size_t count = ex.count(node);
    switch (ex.nodes[node].op) {
      case OP_LITERAL: letters.add(ex.literal(node, 0)); break;
      case OP_BYTES:
        for (std::size_t i = 0; i < count; i += 2) letters.add(ex.arg(node, i), ex.arg(node, i + 1));
        break;
      case OP_CHARS:
        letters.add_spelling(ex.arg(node, 0));
        for (std::size_t i = 1; i < count; i += 2) letters.add(ex.arg(node, i), ex.arg(node, i + 1));
        break;
      case OP_AUTOMATON:
        letters.add_spelling(ex.arg(node, 0));
        for (std::size_t i = 4; i < count;) {  // accepting, count, then (lo, hi, target)
          const std::size_t end = i + 2 + 3 * static_cast<std::size_t>(ex.arg(node, i + 1));
          for (i += 2; i < end; i += 3) letters.add(ex.arg(node, i), ex.arg(node, i + 1));
        }
        break;
      case OP_EXCEPT: letters.add(0, 0x10FFFF); break;
      default: break;
    }
  }
  return letters.found;
}

}  // namespace stackmask
