"""/v1/grammar/check: how a constraint was compiled, and where a text violates it."""

from __future__ import annotations

from typing import Any

from .constraints import find_constraint
from .errors import ApiError
from .plan import Planner
from .protocol import CheckRequest


async def check(planner: Planner, body: CheckRequest) -> dict[str, Any]:
    """The report on a constraint; a wrong constraint is an error of status 400, as in any request.

    A separate process makes it, and is ended when it takes longer than a grammar may.
    """
    constraint, field = find_constraint(body, planner.options.json_whitespace)
    if constraint is None:
        raise ApiError("there is no constraint to check", code="missing_constraint")
    return {"object": "grammar.check", "field": field, **await planner.check(constraint, field, body.text)}
