"""The vLLM backend, by the calls that vLLM makes; `scripts/vllm_check.py` runs it inside vLLM."""

import dataclasses
import json
import logging
import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import fake_vllm

torch = pytest.importorskip("torch")
pytest.importorskip("pydantic")
transformers = pytest.importorskip("transformers")

from support import word_tokens  # noqa: E402

from stackmask.integration.demo import load_tokenizer  # noqa: E402
from stackmask.integration.tokenizers import Vocabulary  # noqa: E402
from stackmask.integration.vllm import IncompatibleVersionError, plugin, register  # noqa: E402
from stackmask.integration.vllm.backend import Backend, Fronts, Grammar, Settings, is_ebnf  # noqa: E402
from stackmask.integration.vllm.beam import BeamBackend  # noqa: E402
from stackmask.pda.exceptions import LimitError  # noqa: E402
from stackmask.pda.limits import Limits  # noqa: E402

SIZE = 1344  # the demo model's 1,280 tokens, padded
SCHEMA = {"type": "object", "properties": {"age": {"type": "integer"}, "name": {"type": "string"}}, "required": ["age", "name"]}
TAG = {
    "type": "structural_tag",
    "structures": [{"begin": "<f>", "schema": {"type": "integer"}, "end": "</f>"}],
    "triggers": ["<f>"],
}
REQUESTS = {
    "JSON": ({"json": SCHEMA}, '{"age": 3, "name": "x"}', '{"age": "3"}'),
    "JSON_OBJECT": ({"json_object": True}, '{"a": [1, null]}', "[1]"),
    "REGEX": ({"regex": "[a-c]{2,3}x"}, "abcx", "ax"),
    "GRAMMAR": ({"grammar": 'root ::= "a" root | "b"'}, "aab", "ba"),
    "CHOICE": ({"choice": ["yes", "no"]}, "no", "maybe"),
    "STRUCTURAL_TAG": ({"structural_tag": json.dumps(TAG)}, "text <f>12</f> more", "text <f>x</f>"),
}


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer()


@pytest.fixture
def vllm(monkeypatch):
    """The stand-ins for vLLM, with the plug-in registered."""
    made = fake_vllm.install(monkeypatch)
    register()
    return made


@pytest.fixture
def config(vllm):
    """An engine's configuration."""
    return SimpleNamespace(
        model_config=SimpleNamespace(get_vocab_size=lambda: SIZE, is_diffusion=False),
        structured_outputs_config=vllm["vllm.config.structured_outputs"].StructuredOutputsConfig(backend="stackmask"),
        scheduler_config=SimpleNamespace(max_num_seqs=200),
    )


@pytest.fixture
def manager(vllm, config, tokenizer):
    made = vllm["vllm.v1.structured_output"].StructuredOutputManager(config, tokenizer)
    yield made
    made.clear_backend()


def sampling(vllm, *, stop_token_ids=(2,), **constraint):
    module = vllm["vllm.sampling_params"]
    return module.SamplingParams(module.StructuredOutputsParams(**constraint), stop_token_ids)


def start(vllm, manager, params, *, validated=True):
    """A request as the engine gets it, validated in the process before."""
    if validated:
        params._validate_structured_outputs(
            manager.vllm_config.model_config, manager.vllm_config.structured_outputs_config, manager.tokenizer
        )
    request = fake_vllm.Request(params, vllm["vllm.v1.structured_output.request"].get_structured_output_key(params.structured_outputs))
    manager.grammar_init(request)
    return request


def bits(row):
    return {32 * index + bit for index, word in enumerate(row.tolist()) for bit in range(32) if word >> bit & 1}


def encode(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False)


@pytest.mark.parametrize("kind", REQUESTS)
def test_every_type_of_request(vllm, manager, tokenizer, kind):
    """Validated, compiled in the pool, masked, accepted token by token, and ended by the stop token."""
    constraint, good, bad = REQUESTS[kind]
    grammar = start(vllm, manager, sampling(vllm, **constraint)).grammar()
    assert isinstance(grammar, vllm["vllm.v1.structured_output.backend_types"].StructuredOutputGrammar)
    for token in [*encode(tokenizer, good), 2]:
        assert token in bits(manager.grammar_bitmask({"r": grammar}, {})[0])
        assert grammar.accept_tokens("r", [token])
    assert grammar.is_terminated()
    assert grammar.accept_tokens("r", [5, 6]), "what comes after the end is ignored"
    assert grammar.validate_tokens([2]) == []
    assert bits(manager.grammar_bitmask({"r": grammar}, {})[0]) == set(range(SIZE)), "vLLM unmasks the row of a request that has ended"
    grammar.reset()
    tokens = [*encode(tokenizer, bad), 2]
    assert not grammar.accept_tokens("r", tokens)
    assert grammar.matcher.num_accepted == 0, "a rejected list leaves nothing behind"


def test_both_kinds_of_grammar(vllm, manager, tokenizer):
    """A text with `::=` outside comments is EBNF, any other is Lark; both can name special tokens."""
    lark = start(vllm, manager, sampling(vllm, grammar='start: "a"+ <|user|>')).grammar()
    user = tokenizer.convert_tokens_to_ids("<|user|>")
    assert lark.accept_tokens("r", [*encode(tokenizer, "aa"), user, 2])
    assert [is_ebnf(text) for text in ('root ::= "a"', '# ::=\nstart: "a"', 'x: "a" // ::=', 'a ::= "#"')] == [True, False, False, True]


def test_stop_tokens_of_the_request(vllm, manager, tokenizer):
    """All stop tokens of a request are masked until the text is complete, any of them ends it, and one can be a text token."""
    newline = encode(tokenizer, "\n")
    assert len(newline) == 1
    stops = (2, 3, *newline)
    grammar = start(vllm, manager, sampling(vllm, regex="ab?", stop_token_ids=stops)).grammar()
    assert not bits(manager.grammar_bitmask({"r": grammar}, {})[0]) & set(stops)
    assert grammar.accept_tokens("r", encode(tokenizer, "a"))
    assert bits(manager.grammar_bitmask({"r": grammar}, {})[0]) == {*stops, *encode(tokenizer, "b")}
    for stop in stops:
        assert grammar.validate_tokens([stop, 2, 5]) == [stop]
        assert grammar.accept_tokens("r", [stop])
        assert grammar.is_terminated()
        grammar.rollback(1)
        assert not grammar.is_terminated()
    assert (
        start(vllm, manager, sampling(vllm, regex="a", stop_token_ids=())).grammar().validate_tokens([*encode(tokenizer, "a"), 2])[-1] == 2
    )


def test_padding(vllm, manager, tokenizer):
    """The mask is as wide as the model's logits, and padding is never allowed; every row is overwritten as a whole."""
    grammar = start(vllm, manager, sampling(vllm, regex="(.|\n)*")).grammar()
    manager.grammar_bitmask({"r": grammar}, {})
    assert manager._grammar_bitmask.shape == (200, SIZE // 32)
    for before in (0, -1):
        manager._grammar_bitmask.fill_(before)
        allowed = bits(manager.grammar_bitmask({"r": grammar}, {})[0])
        assert len(allowed) > 1000
        assert max(allowed) < 1280
        assert set(manager._grammar_bitmask[1].tolist()) == {before}


@pytest.mark.parametrize("seed", range(20))
def test_drafts(vllm, manager, tokenizer, seed):
    """Fill, accept, fill, ..., roll back: each row is the mask after the drafts before it, and the state is as it was."""
    rng = random.Random(seed)
    grammar = start(vllm, manager, sampling(vllm, json=SCHEMA)).grammar()
    text = [*encode(tokenizer, '{"age": 12, "name": "ab"}'), 2]
    place = rng.randrange(len(text))
    assert grammar.accept_tokens("r", text[:place])
    drafts = text[place : place + 3]
    drafts += [-1] * (3 - len(drafts))
    if seed % 3 == 1:
        drafts[rng.randrange(3)] = 3  # a token that never fits
    wanted = [token for token in drafts if token != -1]
    fits = grammar.validate_tokens(wanted)
    assert fits == wanted[: wanted.index(3) if 3 in wanted else len(wanted)]
    rows = manager.grammar_bitmask({"r": grammar}, {"r": drafts}, num_speculative_tokens=3).copy()
    assert grammar.matcher.num_accepted == place
    fork = grammar.matcher.fork()
    for index, token in enumerate([*fits, None]):
        row = set(fork.allowed_tokens()) if not fork.is_terminated() else set(range(SIZE))
        assert bits(rows[index]) == row
        if token is not None:
            assert fork.accept_token(token)
    assert grammar.accept_tokens("r", fits)


def test_many_requests(vllm, manager, tokenizer):
    """More than 128 requests are compiled and filled by several threads at once, and every row is its own."""
    patterns = [f"{'x' * (index % 7)}[a-{'bcdefgh'[index % 5]}]+{index % 11}" for index in range(200)]
    requests = [start(vllm, manager, sampling(vllm, regex=pattern)) for pattern in patterns]
    grammars = {str(index): request.grammar() for index, request in enumerate(requests)}
    for _ in range(3):
        rows = manager.grammar_bitmask(grammars, {}).copy()
        for row, grammar in zip(rows, grammars.values(), strict=True):
            allowed = grammar.matcher.allowed_tokens()
            assert bits(row) == set(allowed)
            assert grammar.accept_tokens("r", [min(allowed)])


def test_compile_and_fill_at_once(vllm, manager, tokenizer):
    """One backend serves threads that compile and threads that fill."""
    first = start(vllm, manager, sampling(vllm, json=SCHEMA))
    first.grammar()
    backend = manager.backend
    kinds = vllm["vllm.v1.structured_output.backend_types"].StructuredOutputOptions

    def work(seed):
        grammar = backend.compile_grammar(kinds.REGEX, f"(ab){{1,{seed % 5 + 1}}}c", {2})
        mask = backend.allocate_token_bitmask(1)
        grammar.fill_bitmask(mask, 0)
        return bits(mask[0]) == set(grammar.matcher.allowed_tokens())

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(work, range(200)))


@pytest.mark.parametrize(
    ("constraint", "message"),
    [
        ({"json": '{"type": "strin"}'}, "json"),
        ({"json": "{"}, "not JSON"),
        ({"json": " "}, "where JSON is expected"),
        ({"json": {"type": "string", "minLength": 3, "maxLength": 2}}, "json"),
        ({"json": {"type": "object", "made-up": 1}, "disable_any_whitespace": True}, "STACKMASK_VLLM_WHITESPACE"),
        ({"json": True, "disable_additional_properties": True}, "additionalProperties"),
        ({"json": True, "whitespace_pattern": " ?"}, "STACKMASK_VLLM_WHITESPACE"),
        ({"json_object": False}, "json_object"),
        ({"json": "[" * 70}, "nested"),
        ({"regex": "(a"}, "line 1, column"),
        ({"grammar": 'root ::= "a" other'}, "other"),
        ({"grammar": "start: missing"}, "grammar"),
        ({"grammar": "  "}, "grammar"),
        ({"choice": []}, "choice"),
        ({"choice": '["a", 1]'}, "choice"),
        ({"choice": "[[["}, "not JSON"),
        ({"structural_tag": "{}"}, "structural_tag"),
        ({"structural_tag": '{"type": "structural_tag", "format": {"type": "regexp"}}'}, "structural_tag"),
    ],
)
def test_wrong_requests(vllm, manager, config, tokenizer, constraint, message):
    """A wrong grammar, and an option that is not enforced, is refused before the engine sees the request; so it is by the engine."""
    params = sampling(vllm, **constraint)
    with pytest.raises(fake_vllm.ValidationError, match=message):
        params._validate_structured_outputs(config.model_config, config.structured_outputs_config, tokenizer)
    if message != "nested":
        with pytest.raises(ValueError):
            start(vllm, manager, params, validated=False).grammar()


def test_requests_for_another_backend(vllm, config, tokenizer):
    """What is not ours is validated as before."""
    other = vllm["vllm.config.structured_outputs"].StructuredOutputsConfig(backend="xgrammar")
    params = sampling(vllm, regex="a")
    params._validate_structured_outputs(config.model_config, other, tokenizer)
    assert params.validated_by_vllm
    plain = vllm["vllm.sampling_params"].SamplingParams()
    plain._validate_structured_outputs(config.model_config, config.structured_outputs_config, tokenizer)
    assert plain.validated_by_vllm
    params = sampling(vllm, regex="a")
    params.structured_outputs._backend = "xgrammar"
    with pytest.raises(fake_vllm.ValidationError, match="xgrammar"):
        params._validate_structured_outputs(config.model_config, config.structured_outputs_config, tokenizer)
    for model, tokens in ((SimpleNamespace(is_diffusion=True), tokenizer), (config.model_config, None)):
        with pytest.raises(fake_vllm.ValidationError):
            sampling(vllm, regex="a")._validate_structured_outputs(model, config.structured_outputs_config, tokens)
    manager = vllm["vllm.v1.structured_output"].StructuredOutputManager(config, tokenizer)
    manager.grammar_init(SimpleNamespace(structured_output_request=None))
    with pytest.raises(ValueError, match="xgrammar"):
        manager.grammar_init(fake_vllm.Request(params, None))


def test_validation_and_engine_share_a_compiler(vllm, manager, tokenizer):
    """In one process, what validation compiled is not compiled again."""
    start(vllm, manager, sampling(vllm, json=SCHEMA)).grammar()
    info = manager.backend.front.compiler.cache_info
    assert (info.misses, info.hits) == (1, 1)


def test_a_grammar_at_its_limits(vllm, tokenizer, caplog):
    """A limit met at run time ends the request and not the engine: a row without a mask, and a token that does not fit is rejected."""

    class Limited:
        num_accepted = 0

        def __getattr__(self, name):
            def limited(*_):
                raise LimitError("the stack is deeper than 3", limit="stack_depth", value=3)

            return limited

        def is_terminated(self):
            return False

        def rollback(self, count):
            assert count == 0

    front = Fronts(Settings()).of(tokenizer, SIZE)
    grammar = Grammar(front.compile("REGEX", "a"), None)
    grammar._matcher = Limited()
    mask = torch.zeros((1, SIZE // 32), dtype=torch.int32)
    with caplog.at_level(logging.ERROR):
        grammar.fill_bitmask(mask, 0)
        assert set(mask[0].tolist()) == {-1}
        assert grammar.accept_tokens("r", [5]) is False
        assert grammar.validate_tokens([5]) == []
    assert [record.message for record in caplog.records] == ["a grammar cannot continue: the stack is deeper than 3"]


def test_ids_outside_the_vocabulary(vllm, manager, tokenizer):
    """An id that does not exist is rejected like any other that does not fit."""
    for token in (-1, SIZE, 1 << 40):
        grammar = start(vllm, manager, sampling(vllm, regex="a*")).grammar()
        assert grammar.accept_tokens("r", [*encode(tokenizer, "a"), token]) is False
        assert grammar.validate_tokens([token]) == []
        assert grammar.accept_tokens("r", encode(tokenizer, "aa"))


def test_beam_search(vllm, config, tokenizer):
    """Beams are forks: what they allow is what a replay allows, and nothing is compiled or replayed twice."""
    search = vllm["vllm.entrypoints.generate.beam_search.offline"].BeamSearchOfflineMixin(config)
    params = sampling(vllm, json=SCHEMA).structured_outputs
    backend, key, bitmask = search._init_beam_search_structured_output(params, tokenizer)
    rng = random.Random(1)
    beams, steps = [[]], 0
    plain = Backend(config, tokenizer, SIZE)
    while beams and steps < 12:
        allowed = search.allowed(backend, key, bitmask, beams)
        assert allowed == search.allowed(plain, key, plain.allocate_token_bitmask(1), beams)
        chosen = [[*beam, token] for beam, tokens in zip(beams, allowed, strict=True) if tokens for token in sorted(tokens)[:40]]
        beams = rng.sample(chosen, min(4, len(chosen)))
        steps += 1
    assert backend.forks > 20
    assert backend.front.compiler.cache_info.misses == 1
    assert len(backend._beams) <= 2
    with pytest.raises(RuntimeError, match="forbids"):
        backend.compile_grammar(*key).accept_tokens("beam", [3])
    backend.destroy()
    assert not backend._beams
    for options in ({"regex": "a", "whitespace_pattern": "x"}, {"regex": "a"}):
        other = sampling(vllm, **options).structured_outputs
        other._backend = "xgrammar" if len(options) == 1 else None
        with pytest.raises(ValueError, match=r"xgrammar|WHITESPACE"):
            search._init_beam_search_structured_output(other, tokenizer)


def test_beams_of_another_search(config, tokenizer):
    """A beam that nobody remembers is replayed."""
    backend = BeamBackend(config, tokenizer, SIZE)
    kind = SimpleNamespace(name="REGEX")
    a = encode(tokenizer, "a")[0]
    for count in (3, 1, 2, 5):
        assert backend.compile_grammar(kind, "a*").accept_tokens("beam", [a] * count)
    assert backend.forks == 1


def test_registering_twice(vllm):
    """A second call changes nothing."""
    manager = vllm["vllm.v1.structured_output"].StructuredOutputManager
    before = manager.grammar_init
    register()
    plugin()
    assert manager.grammar_init is before


def broken(made, change):
    """The modules with one thing changed that the patches rely on."""
    types, params = made["vllm.v1.structured_output.backend_types"], made["vllm.sampling_params"]
    if change == "version":
        made["vllm"].__version__ = "0.34.0rc1"
    elif change == "old":
        made["vllm"].__version__ = "0.32.1"
    elif change == "name":
        del made["vllm.v1.structured_output"].StructuredOutputManager._create_grammar
    elif change == "parameter":
        params.SamplingParams._validate_structured_outputs = lambda self, config: None
    elif change == "option":
        params.StructuredOutputsParams = dataclasses.make_dataclass(
            "Params", [("new_option", int, 0)], bases=(params.StructuredOutputsParams,)
        )
    elif change == "method":
        types.StructuredOutputGrammar.__abstractmethods__ |= {"jump"}
    elif change == "type":
        types.StructuredOutputOptions = [*types.StructuredOutputOptions, SimpleNamespace(name="TABLE")]
    elif change == "class":
        del types.StructuredOutputGrammar
    elif change == "attribute":
        made["vllm.v1.request"].Request = type("Request", (), {"sampling_params": None, "use_structured_output": True})
    elif change == "module":
        del made["vllm.sampling_params"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("version", "tested with vLLM >= 0.33, < 0.34, and this is vLLM 0.34.0rc1"),
        ("old", "this is vLLM 0.32.1"),
        ("name", "_create_grammar is not there"),
        ("parameter", r"takes \(self config\) and not \(self model_config"),
        ("option", "new_option"),
        ("method", "wants jump"),
        ("type", "TABLE"),
        ("class", "StructuredOutputGrammar is not there"),
        ("attribute", "Request has no output_token_ids, structured_output_request"),
        ("module", "vllm.sampling_params"),
    ],
)
def test_another_vllm(monkeypatch, caplog, change, message):
    """A vLLM that is not as it was when this was tested is refused with the tested range, and left as it is."""
    made = fake_vllm.modules()
    broken(made, change)
    for name, module in made.items():
        monkeypatch.setitem(sys.modules, name, module)
    if change == "module":
        monkeypatch.setitem(sys.modules, "vllm.sampling_params", None)
    with pytest.raises(IncompatibleVersionError, match=message):
        register()
    plugin()
    assert message.split("\\")[0] in caplog.text
    assert not hasattr(made["vllm.v1.structured_output"].StructuredOutputManager.grammar_init, "__stackmask__")
    with pytest.raises(ValueError, match="backend"):
        made["vllm.config.structured_outputs"].StructuredOutputsConfig(backend="stackmask")


def test_without_vllm(monkeypatch):
    """Where there is no vLLM, that is the error."""
    monkeypatch.setitem(sys.modules, "vllm", None)
    with pytest.raises(IncompatibleVersionError, match="vLLM has no vllm"):
        register()


def test_the_name_is_an_option(vllm):
    """The configuration takes the name, and still refuses what it does not know."""
    config = vllm["vllm.config.structured_outputs"].StructuredOutputsConfig
    assert config(backend="stackmask").backend == "stackmask"
    with pytest.raises(ValueError, match="backend"):
        config(backend="stackmark")


def test_settings(monkeypatch, tokenizer):
    """What vLLM has no option for comes from the environment."""
    environment = {"STACKMASK_VLLM_WHITESPACE": "compact", "STACKMASK_VLLM_COMPILE_SECONDS": "0.5", "STACKMASK_VLLM_CACHE_MB": "3"}
    environment |= {"STACKMASK_VLLM_EXTRA_PROPERTIES": "closed", "STACKMASK_VLLM_DISTINCT_KEYS": "1"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    settings = Settings.from_environment()
    assert (settings.whitespace, settings.compile_seconds, settings.cache_megabytes) == ("compact", 0.5, 3)
    assert Settings.from_environment({}) == Settings()
    front = Fronts(settings).of(tokenizer, SIZE)
    assert front.compiler.limits == Limits(compile_seconds=0.5)
    grammar = Grammar(front.compile("JSON", json.dumps(SCHEMA)), None)
    assert not grammar.accept_tokens("r", encode(tokenizer, '{"age": 3'))
    assert grammar.accept_tokens("r", encode(tokenizer, '{"age":3'))
    for given, allowed in ((settings, False), (Settings(), True)):
        grammar = Grammar(Fronts(given).of(tokenizer, SIZE).compile("JSON", '{"properties": {"a": {}}}'), None)
        assert grammar.accept_tokens("r", encode(tokenizer, '{"b":')) == allowed
        for kind, text in (("JSON", '{"type": "object"}'), ("JSON_OBJECT", "")):
            grammar = Grammar(Fronts(given).of(tokenizer, SIZE).compile(kind, text), None)
            assert grammar.accept_tokens("r", encode(tokenizer, '{"b":1,"c":2,"b":')) == allowed
    with pytest.raises(ValueError, match="STACKMASK_VLLM_DISTINCT_KEYS must be 0 or 1, not 'yes'"):
        Settings.from_environment({"STACKMASK_VLLM_DISTINCT_KEYS": "yes"})


def test_fronts_are_shared(tokenizer):
    """One compiler for a tokenizer and a width."""
    fronts = Fronts(Settings())
    assert fronts.of(tokenizer, SIZE) is fronts.of(tokenizer, SIZE)
    assert fronts.of(tokenizer, SIZE) is not fronts.of(tokenizer, SIZE + 1)


def test_mistral_tokenizers():
    """VLLM's wrapper around mistral-common is read through mistral-common."""
    mistral_common = pytest.importorskip("mistral_common")
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

    class Wrapper:
        mistral = MistralTokenizer.from_file(str(next((Path(mistral_common.__file__).parent / "data").glob("tekken*.json"))))

    vocabulary = Fronts(Settings()).of(Wrapper(), 131_072).compiler.vocabulary
    assert vocabulary.fingerprint == Vocabulary.from_mistral(Wrapper.mistral, 131_072).fingerprint


def test_nothing_of_vllm_is_imported():
    """The backend can be imported where there is no vLLM."""
    code = "import sys, stackmask.integration.vllm; print('vllm' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "False"


CALL = 'call: \\{"name": "get_weather", "city": "[a-c]{2}", "unit": "celsius"\\}'


@pytest.fixture
def forcing(vllm, config, tokenizer):
    """A manager whose engine speculates by n-grams."""
    config.speculative_config = SimpleNamespace(method="ngram")
    config.num_speculative_tokens = 6
    config.scheduler_config.async_scheduling = config.use_v2_model_runner = False
    made = vllm["vllm.v1.structured_output"].StructuredOutputManager(config, tokenizer)
    yield made
    made.clear_backend()


def drafting(vllm, manager, **constraint):
    """A request whose drafts are asked for."""
    request = start(vllm, manager, sampling(vllm, **constraint))
    request.structured_output_request.grammar = request.grammar()
    return request


def take(request, tokens):
    """Tokens that a request has generated."""
    request.output_token_ids += tokens
    assert request.structured_output_request.grammar.accept_tokens("r", tokens)


def test_forced_text_becomes_drafts(vllm, forcing, tokenizer):
    """Behind drafts that fit come the tokens of the text that must come, as the tokenizer cuts it, up to the number that vLLM verifies."""
    request = drafting(vllm, forcing, regex=CALL)
    grammar = request.structured_output_request.grammar
    whole = encode(tokenizer, 'call: {"name": "get_weather", "city": "')
    drafts = forcing.validate_tokens(request, [])
    assert drafts == whole[:6] and grammar.matcher.num_accepted == 0
    assert forcing.validate_tokens(request, whole[:2]) == drafts
    assert forcing.validate_tokens(request, [*whole[:2], 3]) == drafts  # what does not fit gives way
    take(request, whole[:-1])
    assert forcing.validate_tokens(request, []) == []  # the last token may go on past the forced text
    city = drafting(vllm, forcing, regex=CALL)
    take(city, encode(tokenizer, 'call: {"name": "get_weather", "city": "ab"'))
    ahead = forcing.validate_tokens(city, [])
    assert len(ahead) > 2 and ', "unit": "celsius"}'.startswith(tokenizer.decode(ahead))
    request.thinking = None
    assert forcing.validate_tokens(request, []) == [] and forcing.validate_tokens(request, [7]) == [7]
    request.thinking, request.use_structured_output = 0, False
    assert forcing.validate_tokens(request, [7]) == [7]


def test_nothing_is_forced(vllm, forcing, tokenizer):
    """Where text is free, at the end, and behind a token that the tokenizer would not have made, drafts are those that fit."""
    free = drafting(vllm, forcing, regex="[a-z]{4}")
    assert forcing.validate_tokens(free, []) == []
    ended = drafting(vllm, forcing, regex="a")
    take(ended, [*encode(tokenizer, "a"), 2])
    assert forcing.validate_tokens(ended, []) == []
    split = drafting(vllm, forcing, choice=["temperature and temperature"])
    grammar = split.structured_output_request.grammar
    first = next(token for token in grammar.matcher.allowed_tokens() if grammar.matcher.vocabulary.token_bytes(token) == b"t")
    take(split, [first])
    ahead = forcing.validate_tokens(split, [])
    assert ahead and grammar.validate_tokens(ahead) == ahead


def test_forced_text_is_cut_behind_the_tokens_before(vllm, config, forcing):
    """As the tokenizer cuts all of it: behind what was generated, behind drafts, and behind the end of a request's thinking."""
    words = word_tokens.load()
    forcing.tokenizer = words
    config.model_config.get_vocab_size = lambda: len(words)
    bracket, *rest = whole = encode(words, "[.name is known")
    assert rest != encode(words, ".name is known")
    request = drafting(vllm, forcing, regex="[<\\[]\\.name is known")
    assert forcing.validate_tokens(request, [bracket]) == whole[:6]
    take(request, [bracket])
    assert forcing.validate_tokens(request, []) == rest[:6]
    thinking = drafting(vllm, forcing, regex="\\.name is known")
    assert forcing.validate_tokens(thinking, []) == encode(words, ".name is known")[:6]
    thinking.thinking = 1
    assert forcing.validate_tokens(thinking, [bracket]) == whole[:6]


@pytest.mark.parametrize("change", ["method", "asynchronous", "runner", "setting", "none"])
def test_where_drafts_do_not_reach_the_model(vllm, config, tokenizer, monkeypatch, change):
    """With another proposer, asynchronous scheduling or the second model runner no drafts are forced: they would not reach the model."""
    config.num_speculative_tokens = 6
    config.speculative_config = None if change == "none" else SimpleNamespace(method="eagle" if change == "method" else "ngram")
    config.scheduler_config.async_scheduling = change == "asynchronous"
    config.use_v2_model_runner = change == "runner"
    settings = Settings(forced_drafts=change != "setting")
    backend = Backend(config, tokenizer, SIZE, fronts=Fronts(settings))
    assert backend.most_forced == 0
    assert Backend(config, tokenizer, SIZE, fronts=Fronts(Settings())).most_forced == (6 if change == "setting" else 0)
    assert (
        not Settings.from_environment({"STACKMASK_VLLM_FORCED_DRAFTS": "0"}).forced_drafts and Settings.from_environment({}).forced_drafts
    )
