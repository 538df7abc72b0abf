"""A shortest text that completes a column.

Without unique values the cheapest byte is right each time, because costs are exact.
With them costs are lower bounds, which ignore the seen values: the search is best first (A*, Hart, Nilsson and Raphael 1968).
"""

from __future__ import annotations

from heapq import heappop, heappush
from math import inf

from ..exceptions import GrammarError, LimitError
from .columns import Column, StackNode, above
from .earley import Chart
from .program import TOKEN_COST, Cost, Program


def shortest_text(chart: Chart, column: Column, longest: int) -> bytes:
    """A shortest text that completes `column`.

    Raises LimitError if it has more than `longest` bytes, and GrammarError if none completes without reading a token by its id.
    """
    heap: list[tuple[Cost, int, Column, int]] = [(_cost(chart.program, column), 0, column, -1)]
    number = 0
    while heap:
        cost, _, before, byte = heappop(heap)
        if cost >= TOKEN_COST:
            break
        if cost > longest:
            raise LimitError(f"the shortest completion has more than {longest} bytes", limit="grammar_bytes", value=longest)
        here = before if byte < 0 else chart.read_byte(before, byte)
        if here is None:
            continue
        if here.is_complete:
            return here.text_from(column.offset)
        costs = _costs_of_bytes(chart.program, here)
        if costs and not chart.program.has_distinct:
            best = min(costs, key=lambda b: (costs[b], b))
            costs = {best: costs[best]}
        for following, remaining in sorted(costs.items(), reverse=True):
            number += 1
            heappush(heap, (here.offset - column.offset + remaining, -number, here, following))
    raise GrammarError("no text completes the structure from here without reading a token by its id")


def _cost(program: Program, column: Column) -> Cost:
    """The least that remains to be read, seen values aside."""
    _price(program, column)
    return min((program.costs.of(state, register) + node.outer for state, register, _, node in column.items), default=inf)


def _costs_of_bytes(program: Program, column: Column) -> dict[int, Cost]:
    """For each byte that an item reads, the least that remains to be read with it, seen values aside."""
    _price(program, column)
    result: dict[int, Cost] = {}
    for state, _, _, node in column.reading:
        for lo, hi, target in program.states[state].bytes:
            cost = 1 + program.costs.states[target] + node.outer
            for byte in range(lo, hi + 1):
                if cost < result.get(byte, inf):
                    result[byte] = cost
    return result


def _price(program: Program, column: Column) -> None:
    """Compute `outer` of all nodes of a column, by Dijkstra's algorithm from the outermost inwards."""
    inside: dict[StackNode, list[tuple[StackNode, Cost]]] = {}
    heap: list[tuple[Cost, int, StackNode]] = []
    for node in above(column.items, stop_at_priced=True):
        if node.outer >= 0:
            heappush(heap, (node.outer, id(node), node))
            continue
        for waiting in node.waiting:
            inside.setdefault(waiting[3], []).append((node, program.costs.of(waiting[0], waiting[1])))
    settled: set[StackNode] = set()
    while heap:
        cost, _, node = heappop(heap)
        if node in settled:
            continue
        settled.add(node)
        node.outer = cost
        for inner, remaining in inside.get(node, ()):
            heappush(heap, (cost + remaining, id(inner), inner))
