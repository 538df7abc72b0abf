// Each file of bindings adds its part to the module.
#pragma once

#include <memory>

#include "automaton.h"
#include "bindings/python.h"

namespace stackmask {

void bind_vocabularies(nb::module_& m);
void bind_grammars(nb::module_& m);
void bind_matchers(nb::module_& m);
void bind_batches(nb::module_& m);
void bind_logits(nb::module_& m);

struct KernelGrammar {
  std::shared_ptr<Automaton> automaton;
};

}  // namespace stackmask
