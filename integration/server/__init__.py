"""An HTTP server with OpenAI's interface over the engine, in which a constraint is never ignored.

    app = create_app(Engine(*load_model()), ServerOptions(model_name="demo"))
    uvicorn.run(app)

Read in this order:

    app             the routes, and what all of them share: keys, limits, errors
    options         what an operator can set
    protocol        requests, field by field
    constraints     the one constraint of a request, whichever of its spellings it uses
    tools           tool definitions and choices as constraints, and calls out of text
    prompts         messages as token ids
    turn            the model's next turn, out of messages, tools and a constraint
    serving         from a request to the engine and back
    chat, completions, responses, check
                    the answers' shapes
    metrics         counters and histograms for Prometheus
    errors          OpenAI's error body
"""

from .app import create_app
from .options import ServerOptions

__all__ = ["ServerOptions", "create_app"]
