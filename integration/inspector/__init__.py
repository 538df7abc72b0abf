"""The inspector: it explains why a text is refused, what may come next, and what a specification means, as data, a page, and coloured text.

Read in this order:

    request          requests, field by field, with a limit on each
    specification    compiled specifications, or their errors with places
    json_text        the path of a position in JSON, and the ranges of its values
    schema_places    the responsible keyword of a schema, and the remaining counts of bounds
    tag_places       the format of a structural tag, and the place inside its content
    rule_places      the rule of a grammar, or the part of a pattern, that a position stands in
    trace            a text, character by character
    tokens           its tokens, and those that may follow
    samples          random texts, and texts that only one of two specifications takes
    drawing          rules and automata as drawings
    snippets         a specification as code for its clients
    terminal         an answer as text in colours
    inspector        Inspector: a request answered
    service, worker  the same in a separate process, with limits on time and memory
    page, local      the page's files, and a small HTTP server for it alone

>>> from stackmask.integration.demo import demo_vocabulary
>>> inspector = Inspector([Tokenizer("demo", demo_vocabulary())])
>>> schema = '{"type": "integer", "maximum": 120}'
>>> answer = inspector.inspect({"specification": {"kind": "json_schema", "text": schema}, "text": "121"})
>>> answer["trace"]["refusal"]["place"]["pointer"]
'/maximum'
"""

from .inspector import Inspector
from .request import InspectRequest, RequestError, Specification
from .tokens import Tokenizer

__all__ = ["InspectRequest", "Inspector", "RequestError", "Specification", "Tokenizer"]
