"""Decisions against brute force over all tokenizations, and exact draws against masked ones."""

import itertools
import math
import random
from collections import Counter
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import stackmask  # noqa: E402
from stackmask.integration.decisions import Decider  # noqa: E402
from stackmask.integration.decisions.scorer import BatchScorer, TreeScorer  # noqa: E402
from stackmask.integration.engine import Engine, Request, Sampling  # noqa: E402

torch.set_num_threads(1)

PIECES = [b"a", b"b", b"c", b"ab", b"ba", b"bc", b"abc", b"aa", b"cab", b"bb", b"aba", b"x"]
STOP = len(PIECES)
SIZE = STOP + 3  # two ids that no text has


def tiny(seed, *, spread=0.6, window=None):
    """A random model over `PIECES`, with float64 weights whose distributions are far from even."""
    torch.manual_seed(seed)
    kinds = {} if window is None else {"sliding_window": window}
    config, model = (transformers.LlamaConfig, transformers.LlamaForCausalLM)
    if window is not None:
        config, model = (transformers.MistralConfig, transformers.MistralForCausalLM)
    made = config(
        vocab_size=SIZE, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
        max_position_embeddings=64, initializer_range=spread, tie_word_embeddings=False, **kinds,
    )  # fmt: skip
    return model(made).eval().double()


def compiler():
    return stackmask.Compiler(stackmask.Vocabulary.from_bytes([*PIECES, None, None, None], stop_token_ids=[STOP]))


def greedy(text, **_):
    """A tokenizer that takes the longest piece from the left."""
    ids, data = [], text.encode()
    while data:
        token = max((i for i, piece in enumerate(PIECES) if data.startswith(piece)), key=lambda i: len(PIECES[i]))
        ids.append(token)
        data = data[len(PIECES[token]) :]
    return {"input_ids": ids}


def tokenizations(text):
    """All ways to cut a text into pieces."""
    if not text:
        return [[]]
    return [[i, *rest] for i, piece in enumerate(PIECES) if text.startswith(piece) for rest in tokenizations(text[len(piece) :])]


def probability(model, prompt, ways, temperature=1.0):
    """The probability of ways to spell a text, with the end behind each, by plain passes of the model, one for each length."""
    total = 0.0
    for length in {len(tokens) for tokens in ways}:
        whole = torch.tensor([[*prompt, *tokens, STOP] for tokens in ways if len(tokens) == length])
        with torch.inference_mode():
            logprobs = torch.log_softmax(model(input_ids=whole).logits.double() / temperature, 2)
        said = logprobs[:, :-1].gather(2, whole[:, 1:, None])[:, len(prompt) - 1 :, 0].sum(1)
        total += said.exp().sum().item()
    return total


def brute(model, prompt, text, temperature=1.0):
    """The probability of a text, over all its tokenizations."""
    return probability(model, prompt, tokenizations(text), temperature)


def words(generator, count, longest):
    """Different random texts."""
    found = set()
    while len(found) < count:
        found.add("".join(generator.choices("abc", k=generator.randint(1, longest))))
    return sorted(found, key=lambda _: generator.random())


@pytest.mark.parametrize("part", range(4))
def test_equal_to_brute_force(part):
    """On 200 random questions, the probabilities and the mass are those of all tokenizations, each run by itself."""
    generator = random.Random(part)
    grammars = compiler()
    for case in range(50):
        model = tiny(1000 * part + case // 5)
        prompt = [generator.randrange(STOP) for _ in range(generator.randint(1, 6))]
        texts = words(generator, generator.randint(2, 4), 5)
        temperature = generator.choice([1.0, 0.7, 2.0])
        masses = {text: brute(model, prompt, text.encode(), temperature) for text in texts}
        decision = Decider(model, None, compiler=grammars).decide(prompt, texts, temperature=temperature)
        total = math.fsum(masses.values())
        assert decision.unexplored == 0 and abs(decision.mass - total) < 1e-6
        assert math.fsum(decision.probabilities.values()) == pytest.approx(1, abs=1e-12)
        for text in texts:
            assert abs(decision.probabilities[text] - masses[text] / total) < 1e-6
        assert decision.best == max(texts, key=masses.__getitem__)


def test_canonical_tokenizations():
    """The tokenizer's own way alone, where that is asked for."""
    generator = random.Random(5)
    model, grammars = tiny(7), compiler()
    for _ in range(10):
        texts = words(generator, 3, 6)
        decision = Decider(model, greedy, compiler=grammars).decide([0, 1], texts, tokenizations="canonical")
        masses = {text: probability(model, [0, 1], [greedy(text)["input_ids"]]) for text in texts}
        assert decision.probabilities == pytest.approx({text: mass / sum(masses.values()) for text, mass in masses.items()}, abs=1e-6)
        assert decision.mass <= Decider(model, greedy, compiler=grammars).decide([0, 1], texts).mass
    with pytest.raises(ValueError, match="changes the text 'ab'"):
        Decider(model, lambda text, **_: {"input_ids": [0]}, compiler=grammars).decide([0], ["ab", "c"], tokenizations="canonical")


def test_a_regex():
    """The walk takes any grammar with few texts; the texts are all there, each with its mass."""
    model, grammars = tiny(3), compiler()
    decider = Decider(model, None, compiler=grammars)
    found = decider.distribution([2, 4], grammars.regex("a?(b|c){1,3}"))
    texts = ["".join(word) for n in (1, 2, 3) for word in itertools.product("bc", repeat=n)]
    texts = [*texts, *("a" + text for text in texts)]
    assert set(found.masses) == {text.encode() for text in texts}
    for text, mass in found.masses.items():
        assert abs(mass - brute(model, [2, 4], text)) < 1e-6
    assert found.best == max(found.masses, key=found.masses.__getitem__)
    assert found.forwards < found.places / 4  # many places in a pass


def test_both_scorers_agree():
    """Tree attention and a row for each path give the same, for prompts that share a beginning too; models with windows use the second."""
    model, grammars = tiny(11), compiler()
    texts = ["ab", "abc", "cabba", "bbbb"]
    tree, batch = Decider(model, None, compiler=grammars), Decider(model, None, compiler=grammars)
    batch._scorer = BatchScorer(model, SIZE)
    for prompt in ([1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 4], [1, 2], [5], [1, 2, 3, 4, 5, 6, 7]):
        one, other = tree.decide(prompt, texts), batch.decide(prompt, texts)
        assert one.probabilities == pytest.approx(other.probabilities, abs=1e-6) and one.mass == pytest.approx(other.mass, abs=1e-6)
    assert isinstance(tree._scorer, TreeScorer)
    windowed = tiny(12, window=4)
    decider = Decider(windowed, None, compiler=grammars)
    decision = decider.decide([1, 2, 3, 4, 5, 6], texts)
    assert isinstance(decider._scorer, BatchScorer)
    assert decision.mass == pytest.approx(sum(brute(windowed, [1, 2, 3, 4, 5, 6], text.encode()) for text in texts), abs=1e-6)


def test_a_tolerance():
    """What is left out is bounded, and leaving it out saves places; an endless grammar ends where it may leave something out."""
    model, grammars = tiny(4), compiler()
    decider = Decider(model, None, compiler=grammars)
    texts = ["abcabcabcabc", "aabbaabbaabb"]
    exact, near = decider.decide([1], texts), decider.decide([1], texts, tolerance=0.01)
    assert 0 < near.unexplored <= 0.01 * near.mass and near.mass <= exact.mass <= near.mass + near.unexplored
    assert near.distribution.places < exact.distribution.places
    assert near.probabilities == pytest.approx(exact.probabilities, abs=0.02)
    endless = grammars.regex("[abc]*")
    found = Decider(tiny(11), None, compiler=grammars).distribution([1], endless, tolerance=0.25)
    assert 0 < found.unexplored <= 0.25 * found.mass <= 0.25
    for options in ({}, {"tolerance": 1e-9}):
        with pytest.raises(stackmask.LimitError, match="beginnings in tokens"):
            decider.distribution([1], endless, max_places=500, **options)
    with pytest.raises(stackmask.LimitError, match="beginnings; this takes grammars with few texts"):
        decider.distribution([1], endless, max_places=200, tokenizations="canonical")
    with pytest.raises(stackmask.LimitError, match="more than 4 tokens"):
        decider.decide([1] * 60, ["a" * 9, "b"])


def chi_square(counts, probabilities, total):
    """Pearson's statistic over cells that expect at least 5, the rest as one cell, and the cells less one."""
    cells, rest = [], [0.0, 0]
    for key, probability in probabilities.items():
        if total * probability >= 5:
            cells.append((total * probability, counts.get(key, 0)))
        else:
            rest = [rest[0] + total * probability, rest[1] + counts.get(key, 0)]
    if rest[0] >= 1:
        cells.append(tuple(rest))
    return sum((seen - expected) ** 2 / expected for expected, seen in cells), len(cells) - 1


def critical(freedom, z=3.09):
    """The value that the statistic exceeds once in 1000 (Wilson and Hilferty 1931)."""
    return freedom * (1 - 2 / (9 * freedom) + z * math.sqrt(2 / (9 * freedom))) ** 3


def test_draws_are_exact_and_masked_ones_are_not():
    """4000 draws pass a chi-square test against the enumerated distribution; 400 answers under the mask alone fail it by far."""
    grammars = compiler()
    texts = ["abcx", "b", "cab", "bbc"]
    model = tiny(21)
    engine = Engine(model, SimpleNamespace(eos_token_id=STOP), compiler=grammars)
    found = Decider(model, None, compiler=grammars).decide([1, 2], texts).distribution
    enumerated = {text: brute(model, [1, 2], text.encode()) for text in texts}
    total = math.fsum(enumerated.values())
    enumerated = {text: mass / total for text, mass in enumerated.items()}
    drawn = Counter(Decider(model, None, compiler=grammars).sample(found, seed=1, n=4000))
    statistic, freedom = chi_square(drawn, enumerated, 4000)
    assert freedom >= 2 and statistic < critical(freedom)
    grammar = grammars.choice(texts)
    requests = [Request(prompt=[1, 2], constraint=grammar, sampling=Sampling(seed=seed)) for seed in range(400)]
    masked = Counter(answer.text for answer in engine.generate_batch(requests))
    statistic, freedom = chi_square(masked, enumerated, 400)
    assert statistic > 10 * critical(freedom)


def test_faithful_answers():
    """`faithful` draws answers from that distribution by the seeds of `generate`; at temperature 0 it takes the most probable text."""
    grammars, model = compiler(), tiny(21)
    texts = ["abcx", "b", "cab", "bbc"]
    generator = stackmask.Generator(model, None, compiler=grammars)
    found = Decider(model, None, compiler=grammars).decide([1, 2], texts)
    answer = generator.generate([1, 2], choice=texts, faithful=True, temperature=1.0, seed=3, n=600)
    drawn = Counter(one.text for one in (answer, *answer.others))
    statistic, freedom = chi_square(drawn, found.probabilities, 600)
    assert freedom >= 2 and statistic < critical(freedom)
    assert (answer.mass, answer.finish_reason, answer.complete) == (pytest.approx(found.mass), "stop", True)
    assert answer.parsed == answer.text and b"".join(PIECES[token] for token in answer.token_ids).decode() == answer.text
    again = generator.generate([1, 2], choice=texts, faithful=True, temperature=1.0, seed=4)
    assert again.text == answer.others[0].text
    said = []
    (best,) = generator.generate_batch([[1, 2]], choice=texts, faithful=True)
    assert best.text == found.best == generator.generate([1, 2], choice=texts, faithful=True, on_text=said.append).text == said[0]
    for options, error in (
        ({"choice": texts, "top_p": 0.5}, "top_p cannot be combined with faithful"),
        ({}, "needs a constraint"),
        ({"choice": texts, "n": 0}, "n is 0"),
    ):
        with pytest.raises(ValueError, match=error):
            generator.generate([1, 2], faithful=True, **options)
    with pytest.raises(ValueError, match="nothing to stream"):
        generator.stream([1, 2], choice=texts, faithful=True)
