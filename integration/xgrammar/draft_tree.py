"""A tree of draft tokens, as engines describe it to XGrammar: for each node its first child and its next sibling, -1 for none.

Node 0 is where the matcher is, and every other node is a draft token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import torch


class DraftTree:
    """A tree whose links lead to nodes, and to each node at most once."""

    def __init__(self, children: list[int], siblings: list[int], tokens: list[int]) -> None:
        self.children = children
        self.siblings = siblings
        self.tokens = tokens

    @classmethod
    def of(cls, retrieve_next_token: Any, retrieve_next_sibling: Any, draft_tokens: Any) -> Self:
        """The tree of three tensors, int64 and of one element for each node. Raise RuntimeError where they describe none."""
        children = checked(retrieve_next_token, "retrieve_next_token", 1, torch.int64)
        siblings = checked(retrieve_next_sibling, "retrieve_next_sibling", 1, torch.int64, len(children))
        tree = cls(children.tolist(), siblings.tolist(), checked(draft_tokens, "draft_tokens", 1, torch.int64, len(children)).tolist())
        tree._check_links()
        return tree

    def _check_links(self) -> None:
        size = len(self.tokens)
        if not size:
            raise RuntimeError("the draft tree has no nodes")
        seen = {0}
        for name, links in (("retrieve_next_token", self.children), ("retrieve_next_sibling", self.siblings)):
            for node, link in enumerate(links):
                if not -1 <= link < size:
                    raise RuntimeError(f"{name}[{node}] is {link}, which is neither -1 nor one of the {size} nodes")
                if link in seen:
                    raise RuntimeError(f"{name}[{node}] is {link}, but node {link} " + ("has another place" if link else "is the first"))
                seen |= {link} - {-1}
        if self.siblings[0] >= 0:
            raise RuntimeError("node 0 is where the matcher is, so it has no sibling")

    def walk(self, goes_on: Callable[[int], bool]) -> tuple[list[int], list[int], list[tuple[int, int]]]:
        """The nodes from node 0 on, each after its parent; the place of each one's parent in that list, -1 for node 0; and the ends.

        A node whose token does not satisfy `goes_on` is an end, given with its parent's place; the nodes below it are in no list.
        """
        order, parents, ends = [0], [-1], list[tuple[int, int]]()
        todo = [(self.children[0], 0)]
        while todo:
            node, parent = todo.pop()
            if node < 0:
                continue
            todo.append((self.siblings[node], parent))
            if goes_on(self.tokens[node]):
                todo.append((self.children[node], len(order)))
                order.append(node)
                parents.append(parent)
            else:
                ends.append((node, parent))
        return order, parents, ends


def checked(value: Any, name: str, dimensions: int, dtype: torch.dtype, length: int | None = None) -> torch.Tensor:
    """A tensor, or an array as a tensor of the same memory. Raise RuntimeError for another shape or dtype, TypeError for other objects."""
    if not hasattr(value, "__dlpack__"):
        raise TypeError(f"{name} must be a tensor, not {type(value).__name__}")
    tensor = torch.as_tensor(value)
    if tensor.dim() != dimensions or tensor.dtype != dtype or tensor.device.type != "cpu":
        raise RuntimeError(
            f"{name} must be a tensor of {dimensions} dimensions and {dtype} on the CPU, not {tuple(tensor.shape)}, {tensor.dtype}"
        )
    if length is not None and len(tensor) != length:
        raise RuntimeError(f"{name} has {len(tensor)} elements for a draft tree of {length} nodes")
    return tensor
