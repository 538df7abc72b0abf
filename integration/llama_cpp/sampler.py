"""A grammar as a `llama_sampler`, for programs that drive llama.cpp by its C interface.

    samplers = GrammarSamplers(library)
    library.native.llama_sampler_chain_add(chain, samplers.make(grammar))
    token = library.native.llama_sampler_sample(chain, context, -1)

The callbacks are a matcher's methods: `apply` masks the candidates, `accept` takes a token, `clone` forks, `reset` begins again.
A callback cannot fail. So a token that the grammar refuses ends the text: only stop tokens are allowed from there, and `refused` says so.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from ctypes import CFUNCTYPE, POINTER, Structure, c_int32, c_void_p
from dataclasses import dataclass
from time import perf_counter
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from ...pda.exceptions import StackmaskError
from ...pda.matcher import Matcher, allocate_token_bitmask
from ..compiler import CompiledGrammar
from .library import Library, TokenDataArray

CANDIDATE: Final = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])
"""`llama_token_data`."""


class _Sampler(Structure):
    """`llama_sampler`."""

    _fields_: ClassVar = [("iface", c_void_p), ("ctx", c_void_p)]


_NAME = CFUNCTYPE(c_void_p, POINTER(_Sampler))
_ACCEPT = CFUNCTYPE(None, POINTER(_Sampler), c_int32)
_APPLY = CFUNCTYPE(None, POINTER(_Sampler), POINTER(TokenDataArray))
_RESET = CFUNCTYPE(None, POINTER(_Sampler))
_CLONE = CFUNCTYPE(c_void_p, POINTER(_Sampler))
_COPY = CFUNCTYPE(None, POINTER(_Sampler), POINTER(_Sampler))


class _Interface(Structure):
    """`llama_sampler_i`: the methods of a sampler, and those for sampling on a device, which a grammar has none of."""

    _fields_: ClassVar = [
        ("name", _NAME),
        ("accept", _ACCEPT),
        ("apply", _APPLY),
        ("reset", _RESET),
        ("clone", _CLONE),
        ("free", _RESET),
        *((f"backend_{name}", c_void_p) for name in ("init", "accept", "apply", "set_input", "reset")),
        ("copy_state", _COPY),
    ]


@dataclass(slots=True)
class _State:
    """One sampler: its matcher, and the token that the matcher refused."""

    matcher: Matcher
    bitmask: npt.NDArray[np.int32]
    refused: int | None = None

    def fork(self) -> _State:
        return _State(self.matcher.fork(), np.empty_like(self.bitmask), self.refused)


class GrammarSamplers:
    """Makes samplers for one library, and holds their state; it must live as long as they do.

    A sampler is freed by `llama_sampler_free`, or with the chain that it was added to. `seconds` is the time that masks and tokens took.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._states: dict[int, _State] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self.seconds = 0.0
        name = ctypes.create_string_buffer(b"stackmask")
        self._interface = _Interface(
            name=_NAME(lambda sampler: ctypes.addressof(name)),
            accept=_ACCEPT(self._accept),
            apply=_APPLY(self._apply),
            reset=_RESET(self._reset),
            clone=_CLONE(self._clone),
            free=_RESET(self._free),
            copy_state=_COPY(self._copy),
        )

    def make(self, grammar: CompiledGrammar) -> int:
        """The address of a new `llama_sampler` at the beginning of a text of the grammar."""
        return self._add(_State(grammar.matcher(), allocate_token_bitmask(1, grammar.vocabulary.size)))

    def matcher(self, sampler: int) -> Matcher:
        """The matcher of a sampler, given its address."""
        return self._state(_Sampler.from_address(sampler)).matcher

    def refused(self, sampler: int) -> int | None:
        """The token that the grammar refused, after which the text has to end; None where there was none."""
        return self._state(_Sampler.from_address(sampler)).refused

    @property
    def count(self) -> int:
        """The number of live samplers."""
        return len(self._states)

    def _add(self, state: _State) -> int:
        with self._lock:
            number = next(self._numbers)
        self._states[number] = state
        address: int = self._library.llama_sampler_init(ctypes.addressof(self._interface), number)
        return address

    def _state(self, sampler: _Sampler) -> _State:
        return self._states[sampler.ctx]

    # what llama.cpp calls

    def _accept(self, sampler: Any, token: int) -> None:
        start = perf_counter()
        state = self._state(sampler.contents)
        if (
            state.refused is None
            and not state.matcher.is_terminated()
            and not (0 <= token < state.matcher.vocabulary.size and state.matcher.accept_token(token))
        ):
            state.refused = token
        self.seconds += perf_counter() - start

    def _apply(self, sampler: Any, candidates: Any) -> None:
        start = perf_counter()
        state, array = self._state(sampler.contents), candidates.contents
        stops = list(state.matcher.vocabulary.stop_token_ids)
        memory = (ctypes.c_char * (array.size * CANDIDATE.itemsize)).from_address(array.data)
        table = np.frombuffer(memory, CANDIDATE)
        allowed = np.zeros(32 * state.bitmask.shape[1], np.bool_)
        try:
            if state.refused is None and not state.matcher.is_terminated():
                state.matcher.fill_next_token_bitmask(state.bitmask)
                allowed = np.unpackbits(state.bitmask.view(np.uint8)[0], bitorder="little").view(np.bool_)
            else:
                allowed[stops] = True
        except StackmaskError:  # a limit of time or memory
            state.refused = -1
            allowed[stops] = True
        table["logit"][~allowed[table["id"]]] = -np.inf
        array.sorted = False
        self.seconds += perf_counter() - start

    def _reset(self, sampler: Any) -> None:
        state = self._state(sampler.contents)
        state.matcher.reset()
        state.refused = None

    def _clone(self, sampler: Any) -> int:
        return self._add(self._state(sampler.contents).fork())

    def _copy(self, source: Any, target: Any) -> None:
        self._states[target.contents.ctx] = self._state(source.contents).fork()

    def _free(self, sampler: Any) -> None:
        del self._states[sampler.contents.ctx]
