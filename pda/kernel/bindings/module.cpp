// The Python bindings of the kernel. They bind, check arguments and release the GIL; nothing else.
#include "bindings/module.h"

NB_MODULE(_kernel, m) {
  m.doc() = "The compiled engine: grammars run as pushdown automata over a trie of tokens.";
  nanobind::set_leak_warnings(false);
  stackmask::begin_host();
  stackmask::bind_vocabularies(m);
  stackmask::bind_grammars(m);
  stackmask::bind_matchers(m);
  stackmask::bind_batches(m);
  stackmask::bind_logits(m);
}
