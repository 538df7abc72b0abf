"""Grammars as drawings: the graph of rules, and the automaton of the rule that a text stands in, with its live states.

A drawing is a `Drawing`: boxes and arrows with places. The page, `to_svg` and `to_dot` show the same one.
The rules are laid out in layers by their distance from the root, and ordered in each by the mean place of their neighbours
(Sugiyama, Tagawa and Toda 1981, with two of its four steps).
"""

from __future__ import annotations

import html
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from ...pda import operators as ops
from ...pda.exceptions import StackmaskError
from ...pda.grammar import Grammar
from ...pda.grammar_text import character_class, quoted
from ...pda.reference.columns import Column, Item, StackNode
from ...pda.reference.program import PLAIN, Lowering, Program
from ...pda.reference.unique import UniqueChart
from ..compiler import CompiledGrammar

MOST_BOXES: Final = 80
MOST_ARROWS: Final = 400
MOST_TEXT: Final = 4_000
"""Characters of a text that is followed for the live states; the reference engine reads them."""
LONGEST_LABEL: Final = 28
_CHARACTER: Final = 7.3  # width of a character, in pixels
_GAP_X, _GAP_Y, _HEIGHT, _MARGIN = 56.0, 22.0, 30.0, 24.0


@dataclass(slots=True)
class Box:
    """A rule or a state; `kind` is "rule", "state" or "final". The place is that of its centre, in pixels."""

    label: str
    kind: str
    live: bool = False
    start: bool = False
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = _HEIGHT


@dataclass(slots=True)
class Arrow:
    """From one box to another, by number; `path` is what SVG draws, `label_x` and `label_y` where its label stands."""

    source: int
    target: int
    label: str = ""
    live: bool = False
    path: str = ""
    label_x: float = 0.0
    label_y: float = 0.0


@dataclass(slots=True)
class Drawing:
    """Boxes and arrows; `cut` says that there are more than are drawn, `followed` that live states are known."""

    title: str
    boxes: list[Box] = field(default_factory=list)
    arrows: list[Arrow] = field(default_factory=list)
    cut: bool = False
    followed: bool = True
    width: float = 0.0
    height: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """As plain JSON."""
        return asdict(self)


def rules_drawing(grammar: Grammar, live: Iterable[str]) -> dict[str, Any]:
    """Which rule calls which, from the root; those begun at the cursor are live."""
    return draw_rules(grammar, live).as_json()


def draw_rules(grammar: Grammar, live: Iterable[str] = ()) -> Drawing:
    """Which rule calls which, from the root on, breadth first."""
    names = set(live)
    numbers: dict[int, int] = {}
    drawing = Drawing("rules")
    queue = [int(grammar.root)]
    numbers[queue[0]] = 0
    for rule in queue:  # which grows
        drawing.boxes.append(Box(_cut(grammar.names[rule]), "rule", live=grammar.names[rule] in names, start=rule == grammar.root))
        for callee in _callees(grammar, int(grammar.rules[rule])):
            if callee not in numbers:
                if len(numbers) >= MOST_BOXES:
                    drawing.cut = True
                    continue
                numbers[callee] = len(numbers)
                queue.append(callee)
            if len(drawing.arrows) < MOST_ARROWS:
                both = drawing.boxes[numbers[rule]].live and grammar.names[callee] in names
                drawing.arrows.append(Arrow(numbers[rule], numbers[callee], live=both))
            else:
                drawing.cut = True
    lay_out(drawing)
    return drawing


def _callees(grammar: Grammar, node: int) -> list[int]:
    """The rules that an expression calls, in their order."""
    found: dict[int, None] = {}
    seen = {node}
    todo = [node]
    while todo:
        each = grammar.nodes[todo.pop()]
        if each[0] == ops.CALL:
            found[int(each[1])] = None
        for part in reversed(list(ops.operands(each))):
            if part not in seen:
                seen.add(part)
                todo.append(part)
    return list(found)


def automaton_drawing(grammar: CompiledGrammar, text: str, deadline: float) -> dict[str, Any] | None:
    """The automaton of the rule that the text stands in at its end; None if that takes too long."""
    drawing = draw_automaton(grammar, text, deadline)
    return None if drawing is None else drawing.as_json()


def draw_automaton(grammar: CompiledGrammar, text: str, deadline: float | None = None) -> Drawing | None:
    """The automaton of the rule at the end of a text, with the states that it can be in there."""
    deadline = time.monotonic() + 10.0 if deadline is None else deadline
    source = grammar.grammar
    root = source.nodes[source.rules[source.root]]
    if root[0] == ops.AUTOMATON and root[3] == ops.UTF8:
        return _draw_dfa(root, text)
    try:
        return _draw_rule(grammar, source, text[:MOST_TEXT], deadline)
    except StackmaskError:
        return None


def _draw_dfa(node: ops.Node, text: str) -> Drawing:
    """A deterministic automaton over characters, and the state after the text."""
    transitions, accepting = node[1], node[2]
    live: int | None = 0
    for character in text:
        point = ord(character)
        live = next((target for low, high, target in transitions[live] if low <= point <= high), None) if live is not None else None
    bounds = f", {node[4]} to {'any number of' if node[5] < 0 else node[5]} characters" if len(node) > 4 else ""
    drawing = Drawing(f"automaton of {len(transitions)} states{bounds}")
    order = [0]
    numbers = {0: 0}
    for state in order:  # which grows
        drawing.boxes.append(Box(str(state), "final" if accepting[state] else "state", live=state == live, start=state == 0))
        labels: dict[int, list[int]] = {}
        for low, high, target in transitions[state]:
            labels.setdefault(target, []).extend((low, high))
        for target, ranges in labels.items():
            if target not in numbers:
                if len(numbers) >= MOST_BOXES:
                    drawing.cut = True
                    continue
                numbers[target] = len(numbers)
                order.append(target)
            drawing.arrows.append(Arrow(numbers[state], numbers[target], _cut(character_class(tuple(_merged(ranges))).text)))
    drawing.cut = drawing.cut or len(drawing.arrows) > MOST_ARROWS
    del drawing.arrows[MOST_ARROWS:]
    lay_out(drawing)
    return drawing


def _merged(ranges: Sequence[int]) -> list[int]:
    pairs = sorted(zip(ranges[::2], ranges[1::2], strict=True))
    merged: list[int] = []
    for low, high in pairs:
        if merged and low <= merged[-1] + 1:
            merged[-1] = max(high, merged[-1])
        else:
            merged += [low, high]
    return merged


@dataclass(frozen=True, slots=True)
class _Part:
    """A leaf of a rule's expression: between which states it stands, and which states lie inside of it."""

    node: int
    source: int
    target: int
    inside: range


@dataclass(slots=True)
class _Recorder(Lowering):
    """A lowering that keeps which states each leaf became; it numbers states and rules as the Program's own does."""

    parts: dict[int, list[_Part]] = field(default_factory=dict)

    def _lower(self, node: int, source: int, target: int, rule: int) -> int | None:
        before = len(self.states)
        called = Lowering._lower(self, node, source, target, rule)
        operator, *arguments = self.grammar.nodes[node]
        is_loop = operator == ops.REPEAT and tuple(arguments[1:]) in ((0, -1), (1, -1), (0, 1), (0, 0))
        if operator not in (ops.EMPTY, ops.NEVER, ops.SEQ, ops.ALT, ops.GRAPH) and not is_loop:
            self.parts.setdefault(rule, []).append(_Part(node, source, target, range(before, len(self.states))))
        return called


def _draw_rule(grammar: CompiledGrammar, source: Grammar, text: str, deadline: float) -> Drawing | None:
    """The automaton of the innermost rule at the end of the text, by the reference engine's chart."""
    vocabulary = _Ids(grammar.vocabulary.size, frozenset(i for i, piece in enumerate(grammar.vocabulary.tokens) if piece))
    seconds = max(0.01, deadline - time.monotonic())
    most = 200_000
    program = Program(source, vocabulary, states=most, memory=1 << 24, seconds=seconds)
    recorder = _Recorder(source, vocabulary, most, time.monotonic() + seconds, seconds)
    recorder.run()
    chart = UniqueChart(program, states=most, stack_depth=100_000)
    column: Column | None = chart.first()
    followed = True
    for count, byte in enumerate(text.encode("utf-8", "surrogatepass")):
        if count % 32 == 0 and time.monotonic() > deadline:
            followed = False
            column = chart.first()
            break
        column = chart.read_byte(column, byte) if column is not None else None
    if column is None or not column.reading:
        return None
    deepest = max(column.reading, key=lambda item: (not program.rules[item[3].rule].name.lstrip("%_").startswith("ignore"), item[3].depth))
    rule = deepest[3].rule
    live = {item[0] for item in column.items if item[3].rule == rule} | {
        item[0] for item in _waiting(column.reading) if item[3].rule == rule
    }
    drawing = _drawn(source, program, recorder, rule, live)
    drawing.title = f"rule {_named(program, deepest[3])}"
    drawing.followed = followed
    lay_out(drawing)
    return drawing


@dataclass(slots=True)
class _Ids:
    """The data about a vocabulary that a Program needs."""

    size: int
    with_text: frozenset[int]


def _waiting(items: Iterable[Item]) -> list[Item]:
    """The items that wait for the rules of these to end, and for those."""
    seen: set[StackNode] = set()
    todo = [item[3] for item in items]
    found: list[Item] = []
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        for item in node.waiting:
            found.append(item)
            todo.append(item[3])
    return found


def _named(program: Program, node: StackNode) -> str:
    """The name of the nearest rule that has one, and whether the node is that rule itself."""
    first, seen = node, set()
    while not program.rules[node.rule].name and node.waiting and node not in seen:
        seen.add(node)
        node = next(iter(node.waiting))[3]
    name = _cut(program.rules[node.rule].name or "?")
    return name if node is first else f"{name}, a part of it"


def _drawn(source: Grammar, program: Program, recorder: _Recorder, rule: int, live: set[int]) -> Drawing:
    """States where a part ends, without empty moves, and those that behave alike as one."""
    parts = recorder.parts.get(rule, [])
    drawing = Drawing("", cut=len(parts) > MOST_BOXES)
    parts = parts[:MOST_BOXES]
    start = recorder.rules[rule].start
    points = list(dict.fromkeys([start, *(part.target for part in parts)]))
    reach = {point: _empty_closure(recorder, point) for point in points}
    leaving = {point: [part for part in parts if part.source in reach[point]] for point in points}
    final = {point: any(recorder.states[state].final for state in reach[point]) for point in points}
    group = {point: int(final[point]) for point in points}
    while True:  # states that behave alike, by refinement
        keys = {point: (group[point], frozenset((part.node, group[part.target]) for part in leaving[point])) for point in points}
        numbers = {key: number for number, key in enumerate(dict.fromkeys(keys.values()))}
        refined = {point: numbers[keys[point]] for point in points}
        if len(set(refined.values())) == len(set(group.values())):
            break
        group = refined
    standing = _standing(recorder, reach, live)
    order = list(dict.fromkeys(group[point] for point in points))
    place = {number: index for index, number in enumerate(order)}
    for number in order:
        members = [point for point in points if group[point] == number]
        drawing.boxes.append(
            Box(
                str(place[number]),
                "final" if final[members[0]] else "state",
                live=any(point in standing for point in members),
                start=start in members,
            )
        )
    arrows: dict[tuple[int, int, int], Arrow] = {}
    for point in points:
        for part in leaving[point]:
            key = (place[group[point]], place[group[part.target]], part.node)
            arrow = arrows.setdefault(key, Arrow(key[0], key[1], _cut(_label(source, part.node))))
            arrow.live = arrow.live or any(state in part.inside for state in live)
    drawing.arrows = list(arrows.values())[:MOST_ARROWS]
    return drawing


def _standing(recorder: _Recorder, reach: Mapping[int, set[int]], live: set[int]) -> set[int]:
    """The points that the live states came from, fewest first: the chart keeps of a point only the states after it that do something."""
    ahead = {}
    for point, states in reach.items():
        doing = {n for n in states if (s := recorder.states[n]).final or s.bytes or s.called or s.tokens or s.kind != PLAIN}
        if doing and doing <= live:
            ahead[point] = doing
    found: set[int] = set()
    covered: set[int] = set()
    for point in sorted(ahead, key=lambda point: -len(ahead[point])):
        if not ahead[point] <= covered:
            found.add(point)
            covered |= ahead[point]
    return found


def _empty_closure(recorder: _Recorder, state: int) -> set[int]:
    found = {state}
    todo = [state]
    while todo:
        for target in recorder.states[todo.pop()].empty:
            if target not in found:
                found.add(target)
                todo.append(target)
    return found


def _label(grammar: Grammar, number: int) -> str:
    """A short description of the texts of a leaf."""
    operator, *arguments = grammar.nodes[number]
    match operator:
        case ops.LITERAL:
            return quoted(arguments[0].decode("utf-8", "backslashreplace"))
        case ops.BYTES | ops.CHARS:
            return character_class(arguments[0]).text
        case ops.CALL:
            return grammar.names[arguments[0]]
        case ops.AUTOMATON:
            bounds = arguments[3:]
            return "pattern" + (f"{{{bounds[0]},{'' if bounds[1] < 0 else bounds[1]}}}" if bounds else "")
        case ops.EXCEPT:
            return f"not {', '.join(quoted(word) for word in arguments[0][:3])}" + (", …" if len(arguments[0]) > 3 else "")
        case ops.TOKENS:
            return f"{'no token of' if arguments[1] else 'token'} {', '.join(map(str, arguments[0][:4]))}"
        case ops.REPEAT:
            inner = _label(grammar, arguments[0])
            return f"{inner}{{{arguments[1]},{'' if arguments[2] < 0 else arguments[2]}}}"
        case ops.PERMUTE:
            return f"{len(arguments[0]) // 2} members in any order"
        case ops.SCOPE:
            return "unique values"
        case ops.DISTINCT:
            return "a new value"
        case ops.LIMIT:
            return f"at most {arguments[1]} tokens"
        case ops.CAPTURE:
            return f"capture {arguments[1]}"
        case ops.TEMPERATURE:
            return f"temperature {arguments[1]:g}"
    return "(…)"


def _cut(label: str) -> str:
    return label if len(label) <= LONGEST_LABEL else f"{label[: LONGEST_LABEL - 1]}…"


def lay_out(drawing: Drawing) -> None:
    """Give every box and arrow its place."""
    boxes = drawing.boxes
    if not boxes:
        return
    layers = _layers(drawing)
    columns: list[list[int]] = [[] for _ in range(max(layers) + 1)]
    for number, layer in enumerate(layers):
        columns[layer].append(number)
    _order(columns, drawing.arrows)
    longest = [0.0] * (len(columns) + 1)
    for arrow in drawing.arrows:
        if layers[arrow.target] == layers[arrow.source] + 1:
            longest[layers[arrow.source]] = max(longest[layers[arrow.source]], len(arrow.label) * _CHARACTER * 0.9)
    for box in boxes:
        is_state = box.kind != "rule"
        box.width = 34.0 if is_state else max(46.0, len(box.label) * _CHARACTER + 24)
        box.height = 34.0 if is_state else _HEIGHT
    tallest = max(len(column) for column in columns)
    step = max(box.height for box in boxes) + _GAP_Y + (14 if any(arrow.label for arrow in drawing.arrows) else 0)
    x = _MARGIN
    for layer, column in enumerate(columns):
        width = max(boxes[number].width for number in column)
        for index, number in enumerate(column):
            boxes[number].x = x + width / 2
            boxes[number].y = _MARGIN + 24 + (index + (tallest - len(column)) / 2) * step + step / 2
        x += width + _GAP_X + longest[layer]
    drawing.width = x + _MARGIN
    lowest = _draw_arrows(drawing, layers)
    drawing.width = max([drawing.width, *(arrow.label_x + len(arrow.label) * 3.7 + _MARGIN for arrow in drawing.arrows)])
    drawing.height = max(2 * _MARGIN + 48 + tallest * step, lowest + _MARGIN)


def _layers(drawing: Drawing) -> list[int]:
    """The distance of each box from the first."""
    following: dict[int, list[int]] = {}
    for arrow in drawing.arrows:
        following.setdefault(arrow.source, []).append(arrow.target)
    layers = [-1] * len(drawing.boxes)
    layers[0] = 0
    queue = [0]
    for number in queue:  # which grows
        for target in following.get(number, ()):
            if layers[target] < 0:
                layers[target] = layers[number] + 1
                queue.append(target)
    return [max(layer, 0) for layer in layers]


def _order(columns: list[list[int]], arrows: list[Arrow]) -> None:
    """Order the boxes of each column by the mean place of their neighbours, a few times forth and back."""
    neighbours: dict[int, list[int]] = {}
    for arrow in arrows:
        neighbours.setdefault(arrow.source, []).append(arrow.target)
        neighbours.setdefault(arrow.target, []).append(arrow.source)
    place = {number: index / max(1, len(column)) for column in columns for index, number in enumerate(column)}
    for _ in range(4):
        for column in columns:
            means = {n: sum(place[o] for o in neighbours.get(n, (n,))) / len(neighbours.get(n, (n,))) for n in column}
            column.sort(key=means.__getitem__)
            for index, number in enumerate(column):
                place[number] = (index + 0.5) / len(column)


def _draw_arrows(drawing: Drawing, layers: list[int]) -> float:
    """The curves of the arrows; the lowest place that one reaches."""
    lowest = 0.0
    parallel: dict[tuple[int, int], int] = {}
    for arrow in drawing.arrows:
        source, target = drawing.boxes[arrow.source], drawing.boxes[arrow.target]
        index = parallel.setdefault((arrow.source, arrow.target), 0)
        parallel[arrow.source, arrow.target] += 1
        if arrow.source == arrow.target:
            top = source.y - source.height / 2
            rise = 30 + 16 * index
            arrow.path = _curve(source.x - 9, top, source.x - 22, top - rise, source.x + 22, top - rise, source.x + 9, top)
            arrow.label_x, arrow.label_y = source.x, top - rise * 0.78 - 4
        elif layers[arrow.target] > layers[arrow.source]:
            x1, x2 = source.x + source.width / 2, target.x - target.width / 2 - 5
            bend = 26.0 * ((index + 1) // 2) * (1 if index % 2 else -1)
            jump = 34.0 * (layers[arrow.target] - layers[arrow.source] - 1)
            middle = (x1 + x2) / 2
            arrow.path = _curve(x1, source.y, middle, source.y + bend - jump, middle, target.y + bend - jump, x2, target.y)
            arrow.label_x, arrow.label_y = middle, (source.y + target.y) / 2 + 0.75 * (bend - jump) - 6
        else:
            y1, y2 = source.y + source.height / 2, target.y + target.height / 2 + 5
            depth = max(y1, y2) + 24 + 14 * min(5, layers[arrow.source] - layers[arrow.target] + index)
            arrow.path = _curve(source.x, y1, source.x, depth, target.x, depth, target.x, y2)
            arrow.label_x, arrow.label_y = (source.x + target.x) / 2, (y1 + y2) / 8 + depth * 0.75 + 12
            lowest = max(lowest, depth)
    return lowest


def _curve(*points: float) -> str:
    x1, y1, *rest = (f"{point:.1f}" for point in points)
    return f"M{x1} {y1}C{' '.join(rest)}"


_STYLE: Final = """
svg{color-scheme:light dark;--ink:#1f2430;--soft:#8a93a6;--paper:#fff;--box:#f3f5f9;--live:#0b7a5c;--glow:#d8f5ea}
@media(prefers-color-scheme:dark){svg{--ink:#e7eaf1;--soft:#7f899e;--paper:#14171e;--box:#1f2430;--live:#4fd6ab;--glow:#12382d}}
.paper{fill:var(--paper)}text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:var(--ink);text-anchor:middle}
.box{fill:var(--box);stroke:var(--soft);stroke-width:1.2}.live .box{fill:var(--glow);stroke:var(--live);stroke-width:2.2}
.arrow{fill:none;stroke:var(--soft);stroke-width:1.3}.live.arrow{stroke:var(--live);stroke-width:2.2}
.label{font-size:11.5px;paint-order:stroke;stroke:var(--paper);stroke-width:4px;stroke-linejoin:round}.head{fill:var(--soft)}
"""


def to_svg(drawing: Drawing) -> str:
    """The drawing as a standalone picture, for light and dark."""
    width, height = max(drawing.width, 60), max(drawing.height, 40)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" role="img">',
        f"<title>{html.escape(drawing.title)}</title><style>{_STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="9" markerHeight="9" '
        'markerUnits="userSpaceOnUse" orient="auto-start-reverse">'
        '<path class="head" d="M0 0L8 4L0 8z"/></marker></defs><rect class="paper" width="100%" height="100%"/>',
    ]
    for arrow in drawing.arrows:
        lines.append(f'<path class="{"live " if arrow.live else ""}arrow" d="{arrow.path}" marker-end="url(#head)"/>')
    for arrow in drawing.arrows:
        if arrow.label:
            lines.append(f'<text class="label" x="{arrow.label_x:.1f}" y="{arrow.label_y:.1f}">{_escape(arrow.label)}</text>')
    for box in drawing.boxes:
        lines.append(f"<g{' class=' + chr(34) + 'live' + chr(34) if box.live else ''}>")
        for inset in (0, 4)[: 2 if box.kind == "final" else 1]:
            width, height = box.width - 2 * inset, box.height - 2 * inset
            x, y = box.x - width / 2, box.y - height / 2
            radius = 8 if box.kind == "rule" else height / 2
            lines.append(f'<rect class="box" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius:g}"/>')
        lines.append(f'<text x="{box.x:.1f}" y="{box.y + 4.5:.1f}">{_escape(box.label)}</text></g>')
    return "\n".join([*lines, "</svg>\n"])


def _escape(text: str) -> str:
    """Text for XML, which has no control characters."""
    return html.escape("".join(char if char.isprintable() else "\ufffd" for char in text))


def to_dot(drawing: Drawing) -> str:
    """The drawing in the language of Graphviz."""
    lines = [f"digraph {_dot(drawing.title)} {{", "  rankdir=LR;", '  node [fontname="monospace"]; edge [fontname="monospace"];']
    for number, box in enumerate(drawing.boxes):
        shape = "box" if box.kind == "rule" else "doublecircle" if box.kind == "final" else "circle"
        live = ", style=filled, fillcolor=palegreen" if box.live else ""
        lines.append(f"  n{number} [label={_dot(box.label)}, shape={shape}{live}];")
    for arrow in drawing.arrows:
        live = ", color=seagreen, penwidth=2" if arrow.live else ""
        lines.append(f"  n{arrow.source} -> n{arrow.target} [label={_dot(arrow.label)}{live}];")
    return "\n".join([*lines, "}\n"])


def _dot(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
