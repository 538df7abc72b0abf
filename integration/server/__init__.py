"""An HTTP server over the engine with OpenAI's, Anthropic's and Ollama's interfaces, which never ignores a constraint.

    app = create_app(Engine(*load_model()), ServerOptions(model_name="demo"))
    uvicorn.run(app)

Read in this order:

    gate            before every route: the API key, the limit on bodies, a request id
    routes          the routes, and errors in OpenAI's form
    options         the operator's settings
    protocol        requests, field by field
    constraints     the one constraint of a request, in any of its spellings
    tools           tool definitions and choices as constraints, and calls read from text
    prompts         messages as token ids
    plan            from a request's body to the engine's requests
    serving         from there to events and answers
    chat, completions, responses, check
                    the answers' shapes
    partials        the parts of a JSON answer as they end, in streams
    described       the answers in OpenAPI
    protocols       the interfaces beside OpenAI's, and the form of errors by path
        turn        one turn of a chat, which these protocols read and write
        anthropic   the Messages API
        decisions   typed questions: OpenAI's Decisions API, and System One of Ollama's client
        ollama      Ollama's interface
    inspection      the inspector's page, and the route behind it
    summary         the server's lines for the operator on start-up
    pages           the landing page, and the routes for people
    logs            lines for people or JSON for programs, and the access log
    metrics         counters and histograms for Prometheus
    errors          OpenAI's error body
"""

from .options import ServerOptions
from .routes import create_app

__all__ = ["ServerOptions", "create_app"]
