"""The formats of a structural tag as nodes of a grammar: one function for each type, in a table.

A function that has formats inside it is a generator: it yields each of them and is sent the node that stands for it.
`Writer.write` runs the generators on a stack of its own, so that formats nested ever deeper do not recurse in Python.

Free text is watched for all triggers and excluded texts at once, by the automaton of Aho and Corasick (`stackmask.pda.free_text`).
Inside a tag it also excludes the tag's ends: those of the innermost tag around it.

Text never matches a special token.
But where a tag spells the name of one (`<|tool_call|>` at its beginning, say), either the token or its name in letters is read there.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from ...pda.budget import Budget
from ...pda.exceptions import LimitError, outside_vocabulary
from ...pda.free_text import DispatchError, text_dispatch, text_without, token_dispatch
from ...pda.grammar import NodeId
from ..emit.json_parts import ANY_CHARACTER
from . import contents
from .fields import MOST, Fields, checked_count, checked_text, kind, refusal
from .special import SpecialTokens
from .tag_cache import Arena, Part, Tag


class Around(NamedTuple):
    """The end of the innermost tag around a format: texts and tokens, which free text and free tokens in it exclude."""

    texts: tuple[str, ...] = ()
    tokens: tuple[int, ...] = ()


class Inner(NamedTuple):
    """A format inside another, to be written."""

    path: str
    value: object
    around: Around


Steps: TypeAlias = Generator[Inner, NodeId, NodeId]
Handler: TypeAlias = "Callable[[Writer, Fields, Around], NodeId | Steps]"


TagSteps: TypeAlias = Generator[Inner, NodeId, Tag]
Result = TypeVar("Result")


class Writer:
    """A structural tag on its way into a builder."""

    def __init__(self, arena: Arena, special: SpecialTokens, budget: Budget) -> None:
        self.arena = arena
        self.builder = arena.builder
        self.special = special
        self.budget = budget
        self.dispatches: dict[tuple[object, ...], NodeId] = {}
        """Free texts with the same tags are one node."""
        self.rules: dict[tuple[str, NodeId], NodeId] = {}
        self.reused = self.reused_rules = 0  # the nodes and rules of tags that were in the arena already
        self.literals: dict[str, NodeId] = {}
        self.nested = 0  # the number of formats around the current one

    def write(self, path: str, value: object) -> NodeId:
        """The node of a format and of all formats inside it."""
        found = self.begin(Inner(path, value, Around()))
        return found if isinstance(found, int) else self.run(found)

    def run(self, steps: Generator[Inner, NodeId, Result]) -> Result:
        """The result of a generator, after all formats that it yields are written."""
        stack: list[Generator[Inner, NodeId, Any]] = [steps]
        around, nesting = self.nested, self.budget.limits.nesting
        node: NodeId | None = None
        try:
            while True:
                self.nested = around + len(stack)
                if self.nested > nesting:
                    raise LimitError(f"the structural tag is nested more than {nesting} deep", limit="nesting", value=nesting)
                try:
                    inner = next(stack[-1]) if node is None else stack[-1].send(node)
                except StopIteration as finished:
                    stack.pop()
                    if not stack:
                        return finished.value  # type: ignore[no-any-return]
                    node = finished.value
                else:
                    found = self.begin(inner)
                    if isinstance(found, int):
                        node = found
                    else:
                        node = None
                        stack.append(found)
        finally:
            self.nested = around

    def begin(self, inner: Inner) -> NodeId | Steps:
        """The node of a format, or the generator that makes it."""
        if inner.value.__class__ is Part:
            return self.after(self.part(inner.path, inner.value))
        fields = Fields.of(inner.path, inner.value)
        name = fields.text("type")
        found = FORMATS.get(name)
        if found is None:
            raise refusal(fields.path_of("type"), f"{name!r:.60} is not a format type; the types are {', '.join(sorted(FORMATS))}")
        handler, allowed = found
        fields.only(allowed, name)
        try:
            self.budget.spend(4)
            return handler(self, fields, inner.around)
        except LimitError as error:
            raise error.at(fields.path_of("type").rpartition(".")[0] or "the structural tag") from None

    def rule(self, name: str, node: NodeId) -> NodeId:
        """A call of a new rule for the node, which is used more than once."""
        found = self.rules.get((name, node))
        if found is None:
            rule = self.builder.rule(name)
            self.builder.define(rule, node)
            found = self.rules[name, node] = self.builder.call(rule)
        return found

    def literal(self, text: str) -> NodeId:
        """A text; the name of a special token in it matches the token or its letters."""
        found = self.literals.get(text)
        if found is None:
            b = self.builder
            parts = self.special.split(text)
            nodes = [b.literal(part.encode()) if isinstance(part, str) else self.named(part) for part in parts]
            found = self.literals[text] = b.seq(*nodes)
        return found

    def named(self, token: int) -> NodeId:
        """A special token or its name in letters."""
        b = self.builder
        return b.alt(b.tokens((token,)), b.literal(self.special.name(token).encode()))

    def dispatch(self, path: str, tags: list[tuple[str, NodeId]], excluded: tuple[str, ...], *, loop: bool) -> NodeId:
        """Free text with tags; special tokens whose names stand in the text of a tag may replace them."""
        b = self.builder
        marks: list[tuple[str, NodeId]] = []
        for text, node in tags:
            before = ""
            parts = self.special.split(text)
            for index, part in enumerate(parts):
                if isinstance(part, str):
                    before += part
                else:
                    rest = "".join(p if isinstance(p, str) else self.special.name(p) for p in parts[index + 1 :])
                    marks.append((before, b.seq(b.tokens((part,)), self.literal(rest), node)))
                    before += self.special.name(part)
        key = (tuple(tags), excluded, loop, tuple(marks))
        found = self.dispatches.get(key)
        if found is not None:
            return found
        try:
            found = self.dispatches[key] = text_dispatch(b, tags, excluded, loop=loop, budget=self.budget, marks=marks)
            return found
        except DispatchError as error:
            raise refusal(path, str(error)) from None

    def token(self, path: str, value: object) -> int:
        """A token by its id, or by the name of a special token."""
        if isinstance(value, str):
            found = self.special.id(value)
            if found is None:
                raise refusal(path, f"{value!r:.80} is not the name of a special token; give other tokens by their ids")
            return found
        token = checked_count(path, value, 0)
        if complaint := outside_vocabulary(token, self.special.vocabulary_size):
            raise refusal(path, complaint)
        return token

    def tokens(self, fields: Fields, name: str, *, optional: bool = False) -> tuple[int, ...]:
        """A list of tokens."""
        items = fields.items(name, optional=optional)
        return tuple(dict.fromkeys(self.token(fields.path_of(name, i), item) for i, item in enumerate(items)))

    def one_token(self, fields: Fields) -> int:
        """The token of a `token` format, which stands at either end of a tag."""
        fields.only(("type", "token"), "token")
        if fields.values.get("type", "token") != "token":
            raise refusal(fields.path_of("type"), "must be `token`: a tag begins and ends with texts or tokens")
        return self.token(fields.path_of("token"), fields.required("token"))

    def part(self, path: str, part: Part) -> Tag:
        """A tag that may be in the arena already; its content has no parts."""
        found = self.arena.tags.get(part.key)
        if found is not None:
            self.reused += found.nodes
            self.reused_rules += found.rules
            return found
        nodes, rules = len(self.builder.nodes), len(self.builder.rules)
        found = self.run(self.tag_parts(Fields.of(path, part.open())))
        found.nodes, found.rules = len(self.builder.nodes) - nodes, len(self.builder.rules) - rules
        self.arena.keep(part.key, found)
        return found

    def tag_parts(self, fields: Fields) -> TagSteps:
        """A tag, with its content as a separate format."""
        fields.only(_TAG_FIELDS, "tag")
        if fields.values.get("type", "tag") != "tag":
            raise refusal(fields.path_of("type"), "must be `tag`: no other format is allowed here")
        begin = fields.required("begin")
        first = fields.text("begin") if isinstance(begin, str) else self.begin_token(fields.path_of("begin"), begin)
        around, end = self.ends(fields)
        content = yield Inner(fields.path_of("content"), fields.required("content"), around)
        return Tag(first, self.rule("tag", self.builder.seq(content, end)))

    def begin_token(self, path: str, value: object) -> int:
        """The token that a tag begins with."""
        if not isinstance(value, Mapping) and not hasattr(value, "model_dump"):
            raise refusal(path, f"must be a text or a token, not {kind(value)}")
        return self.one_token(Fields.of(path, value))

    def ends(self, fields: Fields) -> tuple[Around, NodeId]:
        """The end of a tag: a text, a token, or any of a list."""
        path, value = fields.path_of("end"), fields.required("end")
        if value.__class__ is str and value:  # PERF: nearly always
            return Around((checked_text(path, value),)), self.literal(value)
        many = isinstance(value, list | tuple)
        if many and not value:
            raise refusal(path, "needs at least one item")
        texts: list[str] = []
        tokens: list[int] = []
        nodes: list[NodeId] = []
        for index, item in enumerate(value if many else (value,)):
            item_path = f"{path}[{index}]" if many else path
            if isinstance(item, str):
                text = checked_text(item_path, item)
                nodes.append(self.literal(text))
                if text:
                    texts.append(text)
            else:
                token = self.begin_token(item_path, item)
                nodes.append(self.builder.tokens((token,)))
                tokens.append(token)
        return Around(tuple(texts), tuple(tokens)), self.builder.alt(*dict.fromkeys(nodes))

    def after(self, tag: Tag, length: int = 0) -> NodeId:
        """A tag without the first `length` characters of its beginning."""
        found = tag.after.get(length)
        if found is None:
            begin = self.literal(tag.begin[length:]) if isinstance(tag.begin, str) else self.builder.tokens((tag.begin,))
            found = tag.after[length] = self.builder.seq(begin, tag.rest)
        return found


# Formats without formats inside.


def _const_string(w: Writer, fields: Fields, _around: Around) -> NodeId:
    return w.literal(fields.text("value"))


def _any_text(w: Writer, fields: Fields, around: Around) -> NodeId:
    """Free text; the matcher counts tokens, the automaton counts characters."""
    excluded = (*fields.texts("excludes", optional=True), *around.texts)
    tokens, characters = fields.count("max_tokens"), fields.count("max_chars")
    b = w.builder
    if tokens == 0 or characters == 0:
        return b.empty()
    limit = -1 if characters is None else characters
    node = text_without(b, excluded, maximum=limit, budget=w.budget) if excluded else b.repeat(b.chars(ANY_CHARACTER), 0, limit)
    return b.limit(node, tokens=-1 if tokens is None else tokens)


def _json_schema(w: Writer, fields: Fields, around: Around) -> NodeId:
    return contents.schema(w, fields, around.texts)


def _qwen_xml_parameter(w: Writer, fields: Fields, around: Around) -> NodeId:
    """The deprecated name of the style qwen_xml."""
    return contents.schema(w, Fields(fields.path, {**fields.values, "style": "qwen_xml"}), around.texts)


def _grammar(w: Writer, fields: Fields, _around: Around) -> NodeId:
    return contents.grammar(w, fields)


def _regex(w: Writer, fields: Fields, _around: Around) -> NodeId:
    return contents.regex(w, fields)


def _token(w: Writer, fields: Fields, _around: Around) -> NodeId:
    return w.builder.tokens((w.one_token(fields),))


def _exclude_token(w: Writer, fields: Fields, around: Around) -> NodeId:
    return w.builder.tokens(_sorted(w.tokens(fields, "exclude_tokens", optional=True), around.tokens), negated=True)


def _any_tokens(w: Writer, fields: Fields, around: Around) -> NodeId:
    most = fields.count("max_tokens")
    return w.builder.repeat(_exclude_token(w, fields, around), 0, -1 if most is None else most)


# Formats made of other formats.


def _sequence(w: Writer, fields: Fields, around: Around) -> Steps:
    nodes = []
    for index, element in enumerate(fields.items("elements")):
        nodes.append((yield Inner(fields.path_of("elements", index), element, around)))
    return w.builder.seq(*nodes)


def _or(w: Writer, fields: Fields, around: Around) -> Steps:
    nodes = []
    for index, element in enumerate(fields.items("elements")):
        nodes.append((yield Inner(fields.path_of("elements", index), element, around)))
    return w.builder.alt(*dict.fromkeys(nodes))


def _repeated(minimum: int, maximum: int) -> Handler:
    def handler(w: Writer, fields: Fields, around: Around) -> Steps:
        content = yield Inner(fields.path_of("content"), fields.required("content"), around)
        return w.builder.repeat(content, minimum, maximum)

    return handler


def _repeat(w: Writer, fields: Fields, around: Around) -> Steps:
    """`repeat`, with its own bounds."""
    low = checked_count(fields.path_of("min"), fields.required("min"), 0)
    high = fields.required("max")
    if high != -1 or isinstance(high, bool):
        if isinstance(high, bool) or not isinstance(high, int) or not 0 <= high <= MOST:
            raise refusal(fields.path_of("max"), f"must be an integer from 0 to {MOST}, or -1 for no bound")
        if high < low:
            raise refusal(fields.path_of("max"), f"is {high}, less than min, which is {low}")
    content = yield Inner(fields.path_of("content"), fields.required("content"), around)
    return w.builder.repeat(content, low, high)


# Tags.


def _tag(w: Writer, fields: Fields, _around: Around) -> Steps:
    return w.after((yield from w.tag_parts(fields)))


def _tags(w: Writer, fields: Fields) -> Generator[Inner, NodeId, list[Tag]]:
    """The tags of a format that has a list of them."""
    found = []
    for index, item in enumerate(fields.items("tags")):
        path = fields.path_of("tags", index)
        found.append(w.part(path, item) if item.__class__ is Part else (yield from w.tag_parts(Fields.of(path, item))))
    return found


def _triggered_tags(w: Writer, fields: Fields, around: Around) -> Steps:
    """Free text with tags in it, each announced by a trigger that it begins with."""
    b = w.builder
    triggers = fields.texts("triggers")
    excluded = (*fields.texts("excludes", optional=True), *around.texts)
    once, first = fields.flag("stop_after_first"), fields.flag("at_least_one")
    tags = yield from _tags(w, fields)
    by_trigger: dict[str, list[NodeId]] = {trigger: [] for trigger in triggers}
    lengths = sorted({len(trigger) for trigger in triggers})
    for index, tag in enumerate(tags):
        begin = tag.begin
        if not isinstance(begin, str):
            path = f"{fields.path_of('tags', index)}.begin"
            raise refusal(path, "must be a text: triggers are texts; use token_triggered_tags for tags that begin with tokens")
        found = [trigger for length in lengths if len(trigger := begin[:length]) == length and trigger in by_trigger]
        if len(found) != 1:
            path, listed = f"{fields.path_of('tags', index)}.begin", ", ".join(map(repr, found or triggers))
            raise refusal(path, f"{begin!r:.80} begins with {'more than one trigger' if found else 'none of the triggers'}: {listed:.300}")
        by_trigger[found[0]].append(w.after(tag, len(found[0])))
    for index, trigger in enumerate(triggers):
        if not by_trigger[trigger]:
            raise refusal(fields.path_of("triggers", index), f"no tag begins with {trigger!r:.80}")
    if first and once:
        return b.alt(*map(w.after, tags))
    groups = [(trigger, w.rule("triggered", b.alt(*dict.fromkeys(nodes)))) for trigger, nodes in by_trigger.items()]
    node = w.dispatch(fields.path_of("triggers"), groups, excluded, loop=not once)
    return b.seq(b.alt(*map(w.after, tags)), node) if first else node


def _token_triggered_tags(w: Writer, fields: Fields, around: Around) -> Steps:
    """The same for tokens."""
    b = w.builder
    triggers = w.tokens(fields, "trigger_tokens")
    excluded = _sorted(w.tokens(fields, "exclude_tokens", optional=True), around.tokens)
    once, first = fields.flag("stop_after_first"), fields.flag("at_least_one")
    tags = yield from _tags(w, fields)
    by_trigger: dict[int, list[NodeId]] = {trigger: [] for trigger in triggers}
    for index, tag in enumerate(tags):
        if isinstance(tag.begin, str):
            path = f"{fields.path_of('tags', index)}.begin"
            raise refusal(path, "must be a token: triggers are tokens; use triggered_tags for tags that begin with texts")
        if tag.begin not in by_trigger:
            raise refusal(f"{fields.path_of('tags', index)}.begin", f"token {tag.begin} is not one of the trigger_tokens")
        by_trigger[tag.begin].append(tag.rest)
    for index, token in enumerate(triggers):
        if not by_trigger[token]:
            raise refusal(fields.path_of("trigger_tokens", index), f"no tag begins with token {token}")
        if token in excluded:
            raise refusal(fields.path_of("trigger_tokens", index), f"token {token} is both a trigger and excluded")
    if first and once:
        return b.alt(*map(w.after, tags))
    groups = [(token, w.rule("triggered", b.alt(*dict.fromkeys(nodes)))) for token, nodes in by_trigger.items()]
    node = token_dispatch(b, groups, excluded, loop=not once)
    return b.seq(b.alt(*map(w.after, tags)), node) if first else node


def _tags_with_separator(w: Writer, fields: Fields, _around: Around) -> Steps:
    """Only tags, with a separator between two of them."""
    b = w.builder
    separator = w.literal(fields.text("separator"))
    once, first = fields.flag("stop_after_first"), fields.flag("at_least_one")
    tags = yield from _tags(w, fields)
    node = b.alt(*map(w.after, tags))
    if not once:
        node = b.graph(3, (0, 2, node, 2, 0, separator, 2, 1, -1))
    return node if first else b.optional(node)


def _rules(w: Writer, fields: Fields, around: Around) -> Generator[Inner, NodeId, list[tuple[Any, NodeId]]]:
    """The pairs of a pattern and a format."""
    found = []
    for index, rule in enumerate(fields.items("rules")):
        path = fields.path_of("rules", index)
        if not isinstance(rule, list | tuple) or len(rule) != 2:
            raise refusal(path, "must be a pair of a pattern and a format")
        content = yield Inner(f"{path}[1]", rule[1], around)
        found.append((rule[0], w.rule("dispatched", content)))
    return found


def _dispatch(w: Writer, fields: Fields, around: Around) -> Steps:
    excluded, loop = fields.texts("excludes", optional=True), fields.flag("loop", True)
    rules = yield from _rules(w, fields, around)
    tags = [(checked_text(f"{fields.path_of('rules', i)}[0]", text, empty=False), node) for i, (text, node) in enumerate(rules)]
    return w.dispatch(fields.path_of("rules"), tags, excluded, loop=loop)


def _token_dispatch(w: Writer, fields: Fields, around: Around) -> Steps:
    excluded, loop = w.tokens(fields, "exclude_tokens", optional=True), fields.flag("loop", True)
    rules = yield from _rules(w, fields, around)
    tags = [(w.token(f"{fields.path_of('rules', i)}[0]", token), node) for i, (token, node) in enumerate(rules)]
    for index, (token, _) in enumerate(tags):
        if token in excluded:
            raise refusal(f"{fields.path_of('rules', index)}[0]", f"token {token} is both a pattern and excluded")
    return token_dispatch(w.builder, tags, excluded, loop=loop)


def _sorted(*tokens: tuple[int, ...]) -> tuple[int, ...]:
    """All the tokens, each once."""
    return tuple(sorted({token for some in tokens for token in some}))


def _entry(handler: Handler, *fields: str) -> tuple[Handler, frozenset[str]]:
    return handler, frozenset(("type", *fields))


_TAG_FIELDS: Final = frozenset(("type", "begin", "content", "end"))
FORMATS: Final[Mapping[str, tuple[Handler, frozenset[str]]]] = {
    "any_text": _entry(_any_text, "excludes", "max_tokens", "max_chars"),
    "const_string": _entry(_const_string, "value"),
    "json_schema": _entry(
        _json_schema,
        "json_schema",
        "style",
        "any_order",
        "max_whitespace_cnt",
        "whitespace",
        "excludes",
        "extra_properties",
        "distinct_keys",
    ),
    "grammar": _entry(_grammar, "grammar", "syntax", "escape"),
    "regex": _entry(_regex, "pattern", "escape"),
    "qwen_xml_parameter": _entry(_qwen_xml_parameter, "json_schema"),
    "or": _entry(_or, "elements"),
    "sequence": _entry(_sequence, "elements"),
    "tag": _entry(_tag, "begin", "content", "end"),
    "triggered_tags": _entry(_triggered_tags, "triggers", "tags", "at_least_one", "stop_after_first", "excludes"),
    "token_triggered_tags": _entry(
        _token_triggered_tags, "trigger_tokens", "tags", "exclude_tokens", "at_least_one", "stop_after_first"
    ),
    "tags_with_separator": _entry(_tags_with_separator, "tags", "separator", "at_least_one", "stop_after_first"),
    "optional": _entry(_repeated(0, 1), "content"),
    "plus": _entry(_repeated(1, -1), "content"),
    "star": _entry(_repeated(0, -1), "content"),
    "repeat": _entry(_repeat, "min", "max", "content"),
    "token": _entry(_token, "token"),
    "exclude_token": _entry(_exclude_token, "exclude_tokens"),
    "any_tokens": _entry(_any_tokens, "exclude_tokens", "max_tokens"),
    "dispatch": _entry(_dispatch, "rules", "loop", "excludes"),
    "token_dispatch": _entry(_token_dispatch, "rules", "loop", "exclude_tokens"),
}  # fmt: skip
