"""Continuous batching of constrained and free requests over a Hugging Face model.

model, tokenizer = load_model()
with Engine(model, tokenizer) as engine:
    answer = engine.generate(Request(engine.encode("Anna, 31"), constraint=Constraint("json_schema", schema)))
    print(answer.text, answer.finish_reason)

engine      the loop: admit, draft, forward, choose, deliver
masks       the masks of a step, filled while the model runs
choosing    masks over the logits of a step, and a token for each row
request     what is asked for, and what comes back
sequence    one answer in the making
guide       its place in the grammar, where there is one
slots       keys and values, a row for each sequence
sampler     one token from one row of logits
drafts      guesses that one forward pass verifies
jump        text that the grammar forces
budget      the tokens that the shortest completion takes
compile     grammars, in processes of their own
"""

from .engine import Engine, EngineBusyError, EngineClosedError, EngineInfo
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
