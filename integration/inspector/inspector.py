"""A request to the inspector answered: `Inspector.inspect`, the one function behind the route, the page and the command.

An answer is plain JSON. Offsets into texts count code points, offsets into tokens bytes; long values are cut to a limit that is named here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ...pda.exceptions import StackmaskError
from ...pda.limits import Limits
from ...pda.matcher import Matcher, show_bytes
from ...schema.structural_tag.places import placed_grammar
from ..compiler import CompiledGrammar, Compiler
from ..compiler.jobs import spelled_names
from ..compiler.rule_range import rule_range
from .drawing import automaton_drawing, rules_drawing
from .json_text import JsonPosition, find_ranges, inner_range, read_position
from .request import InspectRequest, RequestError, Specification
from .rule_places import live_parts
from .samples import difference, random_instance
from .schema_places import applying, bounds_at, responsible
from .snippets import snippets
from .specification import SpecificationError, TrialCompiler, compile_specification, value_of
from .tag_places import TagReader
from .tokens import Strip, Tokenizer, allowed_page, completion, decoded, nearest, try_next
from .trace import Trace, trace

SECONDS: Final = 2.0
"""Time of one answer besides the compilation; views that are late are left out and named in `late`."""
MOST_ENTRIES: Final = 2_000
"""Entries of a report."""
MOST_FORCED: Final = 2_000
MOST_RULES: Final = 64
MOST_BYTES_OF_SCHEMA: Final = 256 << 10
"""Characters of a schema whose keywords are tried one by one for a refusal."""

Probabilities = Callable[[CompiledGrammar, Tokenizer, Sequence[int]], Any]


class Inspector:
    r"""Answers requests about specifications and texts with the tokenizers at hand; for use by one thread at a time.

    >>> from stackmask.integration.demo import demo_vocabulary
    >>> inspector = Inspector([Tokenizer("demo", demo_vocabulary())])
    >>> answer = inspector.inspect({"specification": {"kind": "regex", "text": "[0-9]{4}"}, "text": "20x6"})
    >>> answer["trace"]["refusal"]["position"], answer["trace"]["refusal"]["sentence"]
    (2, 'the text "20x" does not fit: byte 2 is \'x\' after "20"; expected is \'0\'-\'9\' (in root)')
    """

    def __init__(self, tokenizers: Sequence[Tokenizer], *, limits: Limits | None = None, cache_bytes: int = 128 << 20) -> None:
        if not tokenizers:
            raise ValueError("an inspector needs a tokenizer")
        self._tokenizers = {tokenizer.name: tokenizer for tokenizer in tokenizers}
        self._limits = limits or Limits(compile_seconds=10.0)
        self._cache_bytes = cache_bytes
        self._compilers: dict[str, Compiler] = {}
        self._trials = TrialCompiler()
        self._strip: tuple[CompiledGrammar, Tokenizer, Strip] | None = None
        self._refusals: dict[Any, dict[str, Any] | None] = {}
        self._placed: dict[Any, CompiledGrammar] = {}

    @property
    def tokenizers(self) -> list[dict[str, Any]]:
        """The names and sizes of the tokenizers at hand."""
        return [
            {"name": tokenizer.name, "size": tokenizer.vocabulary.size, "exact": tokenizer.encode is not None}
            for tokenizer in self._tokenizers.values()
        ]

    def inspect(self, body: InspectRequest | Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a request; RequestError where it cannot be read. What is wrong with a specification is part of the answer."""
        from .request import read_request

        request = body if isinstance(body, InspectRequest) else read_request(body)
        start = time.monotonic()
        tokenizer = self._tokenizer(request.tokenizer)
        answer: dict[str, Any] = {"object": "grammar.inspection", "tokenizer": tokenizer.name, "late": []}
        compiled = compile_specification(self._compiler(tokenizer), request.specification)
        answer["specification"] = _specification(request.specification, compiled)
        if "snippets" in request.views and answer["specification"]["error"] is None:
            answer["snippets"] = snippets(request.specification)
        if isinstance(compiled, CompiledGrammar):
            deadline = time.monotonic() + SECONDS
            try:
                _Inspection(self, request, tokenizer, compiled, deadline, answer).run()
            except StackmaskError as error:  # a limit of the engine
                answer["error"] = str(error)[:1_000]
        answer["milliseconds"] = (time.monotonic() - start) * 1e3
        return answer

    def compile(self, tokenizer: Tokenizer, given: Specification) -> CompiledGrammar | SpecificationError:
        """The grammar of a specification for a tokenizer."""
        return compile_specification(self._compiler(tokenizer), given)

    def _tokenizer(self, name: str | None) -> Tokenizer:
        if name is None:
            return next(iter(self._tokenizers.values()))
        if name not in self._tokenizers:
            raise RequestError(f"there is no tokenizer {name[:80]!r}; available: {', '.join(self._tokenizers)}", "tokenizer")
        return self._tokenizers[name]

    def _compiler(self, tokenizer: Tokenizer) -> Compiler:
        if tokenizer.name not in self._compilers:
            self._compilers[tokenizer.name] = Compiler(tokenizer.vocabulary, limits=self._limits, cache_bytes=self._cache_bytes, threads=1)
        return self._compilers[tokenizer.name]

    def strip(self, grammar: CompiledGrammar, tokenizer: Tokenizer) -> Strip:
        """The tokens of the last text, if it was one of this grammar: typing changes its end."""
        if self._strip is None or self._strip[0] is not grammar or self._strip[1] is not tokenizer:
            self._strip = grammar, tokenizer, Strip(grammar.matcher(), tokenizer)
        return self._strip[2]

    def refusal_place(
        self, given: Specification, tokenizer: Tokenizer, text: str, fits: int, rules: Sequence[str], deadline: float
    ) -> dict[str, Any] | None:
        """The part of the specification that refuses the character after `fits`; cached, since typing asks again."""
        key = (given.key, tokenizer.name, text[: fits + 1])
        if key not in self._refusals:
            while len(self._refusals) >= 256:
                del self._refusals[next(iter(self._refusals))]
            self._refusals[key] = self._find_place(given, tokenizer, text, fits, rules, deadline)
        return self._refusals[key]

    def _find_place(
        self, given: Specification, tokenizer: Tokenizer, text: str, fits: int, rules: Sequence[str], deadline: float
    ) -> dict[str, Any] | None:
        if given.kind == "structural_tag":
            return self.tag_place(given, tokenizer, text[:fits], text[fits : fits + 1], deadline)
        if given.kind != "json_schema":
            return rule_place(given, text[:fits], rules, deadline)
        if len(given.text) > MOST_BYTES_OF_SCHEMA:
            return None
        schema = value_of(given)
        data = text[: fits + 1].encode("utf-8", "surrogatepass")
        found = responsible(
            schema,
            read_position(text[:fits]),
            lambda other, options: self._trials.fits(given, other, options, data),
            given.options,
            min(deadline, time.monotonic() + 0.5),
        )
        if found is None:
            return None
        ranges = find_ranges(given.text)
        where = ranges.get(f"{found.pointer}#") if found.keyword is not None else None
        value = ranges.get(found.pointer)
        if where is not None and value is not None:
            where = (where[0], value[1])
        return _place(given.text, where or value, pointer=found.pointer, keyword=found.keyword, reason=found.reason)

    def tag_place(self, given: Specification, tokenizer: Tokenizer, before: str, refused: str, deadline: float) -> dict[str, Any] | None:
        """Which part of a structural tag reads behind a text, or is responsible for the refusal of a character there."""
        if len(given.text) > MOST_BYTES_OF_SCHEMA:
            return None
        tag = value_of(given)
        try:
            matcher = self._placed_grammar(given, tag, tokenizer).matcher()
        except StackmaskError:
            return None
        reader = TagReader(tag, matcher, lambda other, data: self._trials.fits(given, other, {}, data))
        found = reader.place(before, refused, min(deadline, time.monotonic() + 0.5))
        if found is None:
            return None
        ranges = find_ranges(given.text)
        where, key = ranges.get(found.pointer), ranges.get(f"{found.pointer}#")
        if where is not None and key is not None and found.reason is not None:
            where = (key[0], where[1])
        more: dict[str, Any] = {"pointer": found.pointer, "reason": found.reason}
        if found.rule is not None:
            more["rule"] = found.rule
        if found.parts and where is not None:
            parts = [inner_range(given.text, where, part) for part in found.parts]
            more["parts"], where = [list(part) for part in parts], parts[0]
        return _place(given.text, where, **more)

    def _placed_grammar(self, given: Specification, tag: Mapping[str, Any], tokenizer: Tokenizer) -> CompiledGrammar:
        """The grammar of a structural tag whose rules are named by places; kept for the tags that were asked for last."""
        key = (given.key, tokenizer.name)
        if key not in self._placed:
            while len(self._placed) >= 4:
                del self._placed[next(iter(self._placed))]
            vocabulary, start = tokenizer.vocabulary, time.monotonic()
            grammar = placed_grammar(tag, special=vocabulary.special, spelled=spelled_names(vocabulary), limits=self._limits)
            self._placed[key] = CompiledGrammar.build(vocabulary, given.kind, grammar, None, start, self._limits)
        return self._placed[key]


class _Inspection:
    """One answer being made, view by view."""

    def __init__(
        self,
        inspector: Inspector,
        request: InspectRequest,
        tokenizer: Tokenizer,
        grammar: CompiledGrammar,
        deadline: float,
        answer: dict[str, Any],
    ) -> None:
        self.inspector = inspector
        self.request = request
        self.given = request.specification
        self.tokenizer = tokenizer
        self.grammar = grammar
        self.deadline = deadline
        self.answer = answer

    def run(self) -> None:
        """Every view that is asked for, in a fixed order."""
        found = trace(self.grammar.matcher(), self.request.text, self.deadline)
        cursor = len(self.request.text) if self.request.cursor is None else min(self.request.cursor, len(self.request.text))
        here = min(cursor, found.fits)
        makers: dict[str, Callable[[], Any]] = {
            "trace": lambda: self.trace(found),
            "cursor": lambda: self.cursor(here, is_beyond=cursor > found.fits),
            "tokens": lambda: self.inspector.strip(self.grammar, self.tokenizer).read(self.request.text, self.deadline),
            "report": self.report,
            "rules": lambda: rules_drawing(self.grammar.grammar, self.at(here).rule_names()),
            "automaton": lambda: automaton_drawing(self.grammar, self.request.text[:here], self.deadline),
            "sample": lambda: random_instance(self.grammar.matcher(), self.request.seed, self.deadline),
            "difference": self.difference,
        }
        for view, make in makers.items():
            if view not in self.request.views:
                continue
            if time.monotonic() > self.deadline:
                self.answer["late"].append(view)
                continue
            self.answer[view] = make()

    def at(self, here: int) -> Matcher:
        """A matcher after a number of characters of the text."""
        matcher = self.grammar.matcher()
        if here:
            matcher.accept_bytes(self.request.text[:here].encode("utf-8", "surrogatepass"))
        return matcher

    def trace(self, found: Trace) -> dict[str, Any]:
        """The colours of the text and the first refusal."""
        text = self.request.text
        refusal = None
        if found.explanation is not None:
            explanation, fits = found.explanation, found.fits
            data = text.encode("utf-8", "surrogatepass")
            before = text[:fits]
            refusal = {
                "position": fits,
                "line": before.count("\n") + 1,
                "column": fits - (before.rfind("\n") + 1) + 1,
                "reasons": [reason[:1_000] for reason in explanation.reasons],
                "sentence": str(replace(explanation, reasons=(), places=(), nearest=None)),
                "character": text[fits],
                "expected_bytes": show_bytes(explanation.expected),
                "expected": [decoded(bytes([byte])) if byte < 0x80 else f"0x{byte:02X}" for byte in explanation.expected],
                "may_end": explanation.complete,
                "place": self.inspector.refusal_place(self.given, self.tokenizer, text, fits, explanation.rules, self.deadline),
                "nearest": nearest(self.grammar.matcher(), data[: explanation.position + 1], explanation.position),
            }
        return {"spans": found.spans, "fits": found.fits, "accepted": found.accepted, "complete": found.complete, "refusal": refusal}

    def cursor(self, here: int, *, is_beyond: bool) -> dict[str, Any]:
        """The state at the cursor: the stack, the allowed tokens, forced and missing text, and the remaining counts of bounds."""
        matcher = self.at(here)
        before = self.request.text[:here]
        forced = matcher.find_jump_forward_bytes()
        rules = matcher.rule_names()
        result: dict[str, Any] = {
            "position": here,
            "beyond": is_beyond,
            "rules": rules[:MOST_RULES][::-1],
            "depth": len(rules),
            "complete": matcher.is_completed(),
            "forced": decoded(forced[:MOST_FORCED]),
            **completion(matcher),
            "allowed": allowed_page(matcher, self.tokenizer, self.request.query, self.request.offset, self.request.limit),
        }
        if self.given.kind in ("json_schema", "json"):
            position = read_position(before)
            result["path"] = list(position.path)[:MOST_RULES]
            result["reading"] = _reading(position)
            if self.given.kind == "json_schema" and len(self.given.text) <= MOST_BYTES_OF_SCHEMA:
                schema = value_of(self.given)
                result["bounds"] = [
                    {"pointer": bound.pointer, "unit": bound.unit, "used": bound.used, "minimum": bound.minimum, "maximum": bound.maximum}
                    for bound in bounds_at(schema, position)
                ]
                ranges = find_ranges(self.given.text)
                result["places"] = [
                    _place(self.given.text, ranges.get(place.pointer), pointer=place.pointer)
                    for place in applying(schema, position.path)[:16]
                ]
        else:
            is_tag = self.given.kind == "structural_tag"
            place = (
                self.inspector.tag_place(self.given, self.tokenizer, before, "", self.deadline)
                if is_tag
                else rule_place(self.given, before, rules, self.deadline)
            )
            result["places"] = [place] if place is not None else []
        tried = self.request.try_token if self.request.try_token is not None else self.request.try_text
        if tried is not None:
            result["try"] = try_next(matcher, tried)
        return result

    def report(self) -> dict[str, Any] | None:
        """The fate of each keyword, with the range of each in the specification's text."""
        report = self.grammar.report
        if report is None:
            return None
        ranges = find_ranges(self.given.text)
        entries = [
            {
                "pointer": entry.pointer,
                "keyword": entry.keyword,
                "status": entry.status,
                "note": entry.note,
                "range": ranges.get(f"{entry.pointer}#") or ranges.get(entry.pointer),
            }
            for entry in report.entries[:MOST_ENTRIES]
        ]
        return {"entries": entries, "cut": len(report.entries) > MOST_ENTRIES}

    def difference(self) -> dict[str, Any] | None:
        """A text that one specification takes and the other refuses, both ways."""
        given, other = self.given, self.request.other
        if other is None:
            return None
        compiled = self.inspector.compile(self.tokenizer, other)
        result: dict[str, Any] = {"specification": _specification(other, compiled)}
        if isinstance(compiled, SpecificationError):
            return result
        compiler = self.inspector._compiler(self.tokenizer)
        left = max(0.0, self.deadline - time.monotonic())
        for name, arguments, share in (
            ("only_first", (given, self.grammar, other, compiled), 0.5),
            ("only_second", (other, compiled, given, self.grammar), 1.0),
        ):
            found = difference(compiler, *arguments, self.deadline - left * (1 - share))
            result[name] = {"text": found.text, "exact": found.exact, "note": found.note}
        return result


def rule_place(given: Specification, before: str, rules: Sequence[str], deadline: float) -> dict[str, Any] | None:
    """The part of a grammar or a pattern that describes the end of this text."""
    if given.kind in ("ebnf", "lark"):
        found = rule_range(given.kind, given.text, rules)
        return _place(given.text, found[1], rule=found[0]) if found is not None else None
    if given.kind == "regex":
        parts = live_parts(given.text, before, min(deadline, time.monotonic() + 0.1))
        return _place(given.text, parts[0], parts=[list(part) for part in parts[:32]]) if parts else None
    return None


def _specification(given: Specification, compiled: CompiledGrammar | SpecificationError) -> dict[str, Any]:
    """A specification that compiled, or its problems, as JSON."""
    if isinstance(compiled, SpecificationError):
        problems = [{"message": message, **_place(given.text, where, pointer=pointer)} for message, pointer, where in compiled.problems]
        return {"kind": given.kind, "error": {"type": compiled.kind, "message": compiled.message, "problems": problems}}
    stats = compiled.stats
    return {
        "kind": given.kind,
        "error": None,
        "rules": stats.rules,
        "nodes": stats.nodes,
        "bytes": compiled.size,
        "compile_milliseconds": stats.seconds * 1e3,
        "warnings": list(compiled.warnings[:100]),
    }


def _place(text: str, where: tuple[int, int] | None, **more: Any) -> dict[str, Any]:
    """A range of a specification's text, with its first line and column from one."""
    if where is None:
        return {**more, "range": None}
    line = text.count("\n", 0, where[0]) + 1
    return {**more, "range": list(where), "line": line, "column": where[0] - (text.rfind("\n", 0, where[0]) + 1) + 1}


def _reading(position: JsonPosition) -> str:
    """One word for the part that is being read."""
    if position.in_key:
        return "key"
    if position.in_string:
        return "string"
    if position.partial is not None:
        return "number or word"
    if not position.containers:
        return "value"
    top = position.containers[-1]
    return ("value" if top.awaits_value and not top.in_value else "object") if top.is_object else "array"
