"""Continuous batching of constrained and unconstrained requests over a Hugging Face model.

    model, tokenizer = load_model()
    with Engine(model, tokenizer) as engine:
        answer = engine.generate(Request(engine.encode("Anna, 31"), constraint=Constraint("json_schema", schema)))
        print(answer.text, answer.finish_reason)

Read in this order:

    engine          the loop: admit, read, draft, forward, choose, deliver
    admission       requests on their way into the batch
    prefill         their prompts on the way through the model, in pieces
    batch_layout    the rows of each request in a step
    masks           the masks of a step, filled while the model runs
    select          masks over the logits of a step, and a token for each row
    request         requests and answers
    sequence        one answer in the making
    text            its text, piece by piece
    guide           its place in the grammar, if there is one
    kv_cache        keys and values, a row for each sequence; for models that cannot share a pass, a cache for each
    sampler         one token from one row of logits
    drafts          guesses that one forward pass verifies
    jump            text that the grammar forces
    budget          the tokens that the shortest completion takes
    aio             the engine for asyncio
"""

from .admission import EngineBusyError, EngineClosedError
from .engine import Engine, EngineInfo
from .request import Answer, Constraint, Event, Request, RequestError, RequestStats, Sampling

__all__ = [
    "Answer",
    "Constraint",
    "Engine",
    "EngineBusyError",
    "EngineClosedError",
    "EngineInfo",
    "Event",
    "Request",
    "RequestError",
    "RequestStats",
    "Sampling",
]
