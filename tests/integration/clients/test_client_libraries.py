"""Client libraries against the server: each gives the object that it was asked for, in every way that it has of asking.

Every request asks for the likeliest tokens (`GREEDY`): when the demo model samples, it rambles in one of a hundred answers until its
tokens end.
"""

from collections.abc import Iterable

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")
pytest.importorskip("prometheus_client")
openai = pytest.importorskip("openai")
pydantic = pytest.importorskip("pydantic")

from support.server import Server  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of the clients' own
ASK = "Write a person as JSON with name, age."
MESSAGES = [{"role": "user", "content": ASK}]
GREEDY = {"temperature": 0}


class Person(pydantic.BaseModel):
    """A closed type with bounds, which a model that is not constrained does not keep."""

    model_config = pydantic.ConfigDict(extra="forbid")

    name: str = pydantic.Field(max_length=20)
    age: int = pydantic.Field(ge=100, le=120)


FORMAT = {"type": "json_schema", "json_schema": {"name": "person", "schema": Person.model_json_schema()}}


def is_person(value):
    """Whether it is one within the bounds."""
    return isinstance(value, Person) and Person.model_validate(value.model_dump()).age == value.age


@pytest.fixture(scope="module")
def url():
    """Where `stackmask serve --demo` listens, in a separate process."""
    server = Server()
    yield f"{server.url}/v1"
    server.stop()


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """No client reports to anybody, or asks for prices."""
    for name, value in {
        "OPENAI_API_KEY": "none",
        "OPENAI_AGENTS_DISABLE_TRACING": "1",
        "LANGSMITH_TRACING": "false",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    }.items():
        monkeypatch.setenv(name, value)


class TestInstructor:
    """instructor, in the modes that it has for OpenAI's interface."""

    @pytest.fixture
    def create(self, url):
        """Makes an object in a mode."""
        instructor = pytest.importorskip("instructor")

        def create(mode, **options):
            client = instructor.from_openai(openai.OpenAI(base_url=url, api_key="none", max_retries=0), mode=instructor.Mode[mode])
            return client.chat.completions.create(model="demo", messages=MESSAGES, max_retries=0, **GREEDY, **options)

        return create

    @pytest.mark.parametrize(
        "mode",
        ["TOOLS", "TOOLS_STRICT", "FUNCTIONS", "JSON", "JSON_O1", "JSON_SCHEMA", "RESPONSES_TOOLS", "RESPONSES_TOOLS_WITH_INBUILT_TOOLS"],
    )
    def test_modes(self, create, mode):
        """The mode sends the schema, or only asks for JSON, which leaves the bounds to chance."""
        # JSON and JSON_O1 ask for any object, or for nothing: the schema comes beside what they send
        loose = {"extra_body": {"response_format": FORMAT}} if mode in ("JSON", "JSON_O1") else {}
        answer = create(mode, response_model=Person, **loose)
        assert is_person(answer)

    def test_markdown(self, create):
        """MD_JSON sends nothing that constrains; the schema comes beside it."""
        assert is_person(create("MD_JSON", response_model=Person, extra_body={"response_format": FORMAT}))

    def test_parallel_tools(self, create):
        """With `required` the model makes calls, and nothing else."""
        people = list(create("PARALLEL_TOOLS", response_model=Iterable[Person], extra_body={"tool_choice": "required"}, max_tokens=300))
        assert people and all(map(is_person, people))


@pytest.mark.parametrize("interface", ["OpenAIChatModel", "OpenAIResponsesModel"])
@pytest.mark.parametrize("output", ["ToolOutput", "NativeOutput"])
def test_pydantic_ai(url, interface, output):
    """pydantic-ai by a tool and by response_format, over both of OpenAI's interfaces."""
    pydantic_ai = pytest.importorskip("pydantic_ai")
    models = pytest.importorskip("pydantic_ai.models.openai")
    from pydantic_ai.providers.openai import OpenAIProvider

    model = getattr(models, interface)("demo", provider=OpenAIProvider(base_url=url, api_key="none"))
    agent = pydantic_ai.Agent(model, output_type=getattr(pydantic_ai, output)(Person), model_settings=GREEDY, retries=0)
    assert is_person(agent.run_sync(ASK).output)


@pytest.mark.parametrize("responses", [False, True])
@pytest.mark.parametrize("method", ["json_schema", "function_calling"])
def test_langchain(url, method, responses):
    """langchain-openai by response_format and by a tool, over both interfaces."""
    langchain = pytest.importorskip("langchain_openai")
    model = langchain.ChatOpenAI(model="demo", base_url=url, api_key="none", max_retries=0, use_responses_api=responses, **GREEDY)
    assert is_person(model.with_structured_output(Person, method=method).invoke(ASK))


@pytest.mark.parametrize("interface", ["OpenAIChatCompletionsModel", "OpenAIResponsesModel"])
def test_openai_agents(url, interface):
    """openai-agents with an output type, over both interfaces."""
    agents = pytest.importorskip("agents")
    agents.set_tracing_disabled(True)
    client = openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
    agent = agents.Agent(
        name="writer",
        instructions="Answer.",
        model=getattr(agents, interface)(model="demo", openai_client=client),
        model_settings=agents.ModelSettings(**GREEDY),
        output_type=Person,
    )
    assert is_person(agents.Runner.run_sync(agent, ASK).final_output)


@pytest.mark.parametrize("streams", [False, True])
def test_litellm(url, streams):
    """LiteLLM with a type as response_format, whole and in a stream."""
    litellm = pytest.importorskip("litellm")
    options = {
        "model": "openai/demo",
        "api_base": url,
        "api_key": "none",
        "messages": MESSAGES,
        "response_format": Person,
        "num_retries": 0,
        **GREEDY,
    }
    answer = litellm.completion(**options, stream=streams)
    whole = "".join(chunk.choices[0].delta.content or "" for chunk in answer) if streams else answer.choices[0].message.content
    assert is_person(Person.model_validate_json(whole))
