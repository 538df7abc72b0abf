"""The official JSON Schema test suite: its cases, and a runner for everything that turns a schema into token masks.

A case goes through tokens: the instance is written compactly, tokenized, and each token has to be allowed by the mask and accepted; then
the text has to be complete.
Numbers are written as their value: 1.0 is written 1, as JSON Schema calls them the same.
Objects are written with their keys in every order, at most MOST_TEXTS of them, because engines take one order only: a valid instance
needs one order that is taken, an invalid one none.
"""

from __future__ import annotations

import itertools
import json
import os
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Protocol

DATA = Path(os.environ.get("STACKMASK_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data"))
ARCHIVE = DATA / "json-schema-test-suite.tar.gz"
DRAFTS = {"draft4": "draft4", "draft6": "draft6", "draft7": "draft7", "2019-09": "draft2019-09", "2020-12": "draft2020-12"}
"""Our names of the drafts, and the suite's."""
METASCHEMAS = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "2019-09": "https://json-schema.org/draft/2019-09/schema",
    "2020-12": "https://json-schema.org/draft/2020-12/schema",
}
MOST_TEXTS = 400


@dataclass(frozen=True, slots=True)
class Case:
    """One test: whether an instance is valid against a schema."""

    draft: str
    file: str
    group: str
    description: str
    schema: Any
    instance: Any
    valid: bool

    @property
    def name(self) -> str:
        """What identifies the case in messages and in the table of reasons."""
        return f"{self.draft}/{self.file}: {self.group}: {self.description}"


@cache
def members() -> dict[str, Any]:
    """Every JSON file of the archive by its path."""
    found = {}
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            if member.name.endswith(".json"):
                file = archive.extractfile(member)
                assert file is not None
                found[member.name.removeprefix("./")] = json.loads(file.read())
    return found


def cases(draft: str, part: str = "") -> Iterator[Case]:
    """The cases of a draft: the required ones, or those of `part` ("optional", "optional/format")."""
    folder = f"tests/{DRAFTS[draft]}/{part}".rstrip("/")
    for path, groups in sorted(members().items()):
        if path.rpartition("/")[0] == folder:
            file = path.removeprefix(f"tests/{DRAFTS[draft]}/").removesuffix(".json")
            for group in groups:
                for test in group["tests"]:
                    yield Case(draft, file, group["description"], test["description"], group["schema"], test["data"], test["valid"])


@cache
def remotes() -> dict[str, Any]:
    """The documents that the suite's schemas refer to, by URI."""
    return {
        f"http://localhost:1234/{path.removeprefix('remotes/')}": text for path, text in members().items() if path.startswith("remotes/")
    }


class Grammar(Protocol):
    """A schema that a candidate has compiled."""

    def accepts(self, text: str) -> bool:
        """Whether the text goes through the masks token by token and is complete then."""


class Candidate(Protocol):
    """An engine under test; `compile` raises where it refuses a schema."""

    name: str

    def compile(self, schema: Any, documents: Mapping[str, Any]) -> Grammar:
        """The grammar of a schema."""


RIGHT, OVER, UNDER, REFUSED = "right", "valid instance refused", "invalid instance accepted", "schema refused"
TORN = "mask and accept_token disagree"


class DisagreementError(Exception):
    """The mask allows a token that is not accepted, or the other way round."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came out of one case; `detail` is the error of a schema that was refused."""

    case: Case
    verdict: str
    detail: str = ""


def run(candidate: Candidate, chosen: Iterable[Case]) -> list[Outcome]:
    """Every case through a candidate; each schema is compiled once."""
    outcomes = []
    for _, group in itertools.groupby(chosen, key=lambda case: id(case.schema)):
        tests = list(group)
        schema = tests[0].schema
        if isinstance(schema, dict) and "$schema" not in schema:
            schema = {"$schema": METASCHEMAS[tests[0].draft], **schema}
        try:
            grammar = candidate.compile(schema, remotes())
        except Exception as error:
            outcomes += [Outcome(case, REFUSED, f"{type(error).__name__}: {error}"[:300]) for case in tests]
            continue
        for case in tests:
            try:
                taken = any(map(grammar.accepts, texts(case.instance, case.schema)))
            except DisagreementError as error:
                outcomes.append(Outcome(case, TORN, str(error)))
                continue
            outcomes.append(Outcome(case, RIGHT if taken == case.valid else UNDER if taken else OVER))
    return outcomes


def table(outcomes: Sequence[Outcome]) -> Counter[str]:
    """How many outcomes there are of each kind."""
    return Counter(outcome.verdict for outcome in outcomes)


def texts(instance: Any, schema: Any = True) -> Iterator[str]:
    """The instance as compact JSON, with the keys of its objects in every order up to a limit; the likely orders first."""
    declared = {name: place for place, name in enumerate(dict.fromkeys(_declared(schema)))}
    return itertools.islice(_texts(plain(instance), declared), MOST_TEXTS)


def _declared(schema: Any) -> Iterator[str]:
    """The names of properties in the order in which a schema mentions them."""
    stack = [schema]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            if isinstance(value.get("properties"), dict):
                yield from value["properties"]
            if isinstance(value.get("required"), list):
                yield from (name for name in value["required"] if isinstance(name, str))
            stack.extend(reversed(value.values()))
        elif isinstance(value, list):
            stack.extend(reversed(value))


def _texts(value: Any, declared: Mapping[str, int]) -> Iterator[str]:
    if isinstance(value, dict):
        names = sorted(value, key=lambda name: declared.get(name, len(declared)))
        orders = itertools.permutations(names) if len(names) < 6 else iter([tuple(names), tuple(value), tuple(reversed(names))])
        members = {name: list(itertools.islice(_texts(member, declared), 6)) for name, member in value.items()}
        for order in orders:
            for parts in itertools.product(*(members[name] for name in order)):
                pairs = (f"{json.dumps(name, ensure_ascii=False)}:{part}" for name, part in zip(order, parts, strict=True))
                yield "{" + ",".join(pairs) + "}"
    elif isinstance(value, list):
        items = [list(itertools.islice(_texts(item, declared), 24)) for item in value]
        for parts in itertools.product(*items):
            yield "[" + ",".join(parts) + "]"
    else:
        yield json.dumps(value, ensure_ascii=False)


def plain(value: Any) -> Any:
    """The instance with every number that is an integer as an int."""
    if isinstance(value, dict):
        return {name: plain(member) for name, member in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, float) and value == int(value):
        return int(Decimal(repr(value)))
    return value


class Stackmask:
    """stackmask over a vocabulary: every token is asked of the mask and then accepted."""

    name = "stackmask"

    def __init__(self, vocabulary: Any, encode: Callable[[str], list[int]], **options: Any) -> None:
        self.vocabulary = vocabulary
        self.encode = encode
        self.options = options

    def compile(self, schema: Any, documents: Mapping[str, Any]) -> Grammar:
        """The grammar of a schema; one that no instance satisfies takes nothing."""
        from stackmask.pda.engine import KernelGrammar, Matcher
        from stackmask.pda.exceptions import UnsatisfiableError
        from stackmask.pda.limits import Limits
        from stackmask.schema.json_schema import json_schema_grammar

        limits = Limits()
        try:
            grammar = json_schema_grammar(schema, documents=documents, **self.options)[0]
            kernel = KernelGrammar(
                self.vocabulary.trie,
                grammar,
                states=limits.states,
                stack_depth=limits.stack_depth,
                memory=limits.grammar_bytes,
                seconds=limits.compile_seconds,
            )
        except UnsatisfiableError:
            return Nothing()
        return _StackmaskGrammar(Matcher(kernel, list(self.vocabulary.stop_token_ids)), self.vocabulary.size, self.encode)


class _StackmaskGrammar:
    def __init__(self, matcher: Any, size: int, encode: Callable[[str], list[int]]) -> None:
        import numpy as np

        self.matcher = matcher
        self.encode = encode
        self.bitmask = np.zeros((1, (size + 31) // 32), dtype=np.int32)

    def accepts(self, text: str) -> bool:
        self.matcher.reset()
        for token in self.encode(text):
            self.matcher.fill_next_token_bitmask(self.bitmask)
            allowed = bool(self.bitmask[0, token // 32] >> (token % 32) & 1)
            accepted = self.matcher.accept_token(token)
            if allowed != accepted:
                raise DisagreementError(f"token {token} of {text!r}: the mask says {allowed}, accept_token {accepted}")
            if not accepted:
                return False
        return bool(self.matcher.is_completed())


class Nothing:
    """The grammar of a schema that no instance satisfies."""

    def accepts(self, text: str) -> bool:
        """No text is one."""
        return False


def byte_vocabulary() -> tuple[Any, Callable[[str], list[int]]]:
    """A vocabulary of all single bytes, and its tokenizer."""
    from stackmask.pda.vocabulary import Vocabulary

    vocabulary = Vocabulary.from_bytes([*(bytes((byte,)) for byte in range(256)), None], stop_token_ids=[256])
    return vocabulary, lambda text: list(text.encode("utf-8", "surrogatepass"))


def llama3_vocabulary() -> tuple[Any, Callable[[str], list[int]]]:
    """The vocabulary of Llama 3, and its tokenizer."""
    import tokenizers
    import transformers

    from stackmask.integration.tokenizers import Vocabulary

    path = str(DATA / "tokenizers" / "llama3" / "tokenizer.json")
    backend = tokenizers.Tokenizer.from_file(path)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=path, eos_token="<|end_of_text|>")
    return Vocabulary.from_transformers(tokenizer), lambda text: backend.encode(text, add_special_tokens=False).ids
