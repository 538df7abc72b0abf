"""A specification as code to copy: Python, curl, vLLM and SGLang."""

from __future__ import annotations

import json
import pprint
import shlex
from typing import Any, Final

from .request import Specification
from .specification import value_of

MOST: Final = 20_000
"""Characters of a specification that is shown as code."""


def snippets(given: Specification, url: str = "http://127.0.0.1:8000/v1") -> dict[str, str]:
    """The specification in each client's words, by the client's name; a comment where a client has no word for it."""
    if len(given.text) > MOST:
        return {}
    return {"python": _python(given), "curl": _curl(given, url), "vllm": _vllm(given), "sglang": _sglang(given)}


def _python(given: Specification) -> str:
    options = "".join(f", {name}={value!r}" for name, value in given.options.items())
    call = f"compiler.{given.kind}({'' if given.kind == 'json' else 'specification'}{options})".replace("(, ", "(")
    specification = "" if given.kind == "json" else f"specification = {_literal(given)}\n"
    return (
        "import stackmask\nfrom transformers import AutoTokenizer\n\n"
        f"{specification}"
        'tokenizer = AutoTokenizer.from_pretrained("path/to/model")\n'
        "compiler = stackmask.Compiler(stackmask.Vocabulary.from_transformers(tokenizer))\n"
        f"grammar = {call}\n"
        "matcher = grammar.matcher()\n"
        "bitmask = stackmask.allocate_token_bitmask(1, compiler.vocabulary.size)\n"
        "matcher.fill_next_token_bitmask(bitmask)\n"
    )


def _literal(given: Specification) -> str:
    """The specification as Python source."""
    return pprint.pformat(value_of(given), width=100, sort_dicts=False) if given.kind == "choice" else _text(given.text)


def _text(text: str) -> str:
    """A text as a literal that keeps its lines, where Python has one."""
    if "\n" not in text or '"""' in text or text.endswith(('"', "\\")) or not text.replace("\n", "").isprintable():
        return repr(text)
    prefix = "r" if "\\" in text else ""
    return f'{prefix}"""{text}"""'


def _body(given: Specification) -> dict[str, Any]:
    """The constraint of a request to the server of stackmask."""
    match given.kind:
        case "json_schema":
            body: dict[str, Any] = {
                "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": value_of(given)}}
            }
        case "json":
            body = {"response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": True}}}
        case "regex":
            body = {"response_format": {"type": "regex", "pattern": given.text}}
        case "ebnf" | "lark":
            body = {"structured_outputs": {"grammar": given.text}}
        case "structural_tag":
            body = {"response_format": value_of(given)}
        case _:
            body = {"structured_outputs": {"choice": value_of(given)}}
    extension = {name: value for name, value in given.options.items() if name not in ("root", "start")}
    return {**body, **({"stackmask": extension} if extension else {})}


def _curl(given: Specification, url: str) -> str:
    body = {"model": "demo", "messages": [{"role": "user", "content": "..."}], **_body(given)}
    data = shlex.quote(json.dumps(body, indent=2, ensure_ascii=False))
    return f"curl {url}/chat/completions -H 'Content-Type: application/json' -d {data}\n"


def _structured(given: Specification) -> dict[str, Any]:
    """VLLM's `structured_outputs`."""
    match given.kind:
        case "json_schema":
            return {"json": given.text}
        case "json":
            return {"json": {}}
        case "ebnf" | "lark":
            return {"grammar": given.text}
        case "structural_tag":
            return {"structural_tag": given.text}
        case kind:
            return {kind: value_of(given)}


def _vllm(given: Specification) -> str:
    (name, value), *_ = _structured(given).items()
    return (
        "# vllm serve path/to/model --structured-outputs-config.backend stackmask\n"
        "from vllm import LLM, SamplingParams\nfrom vllm.sampling_params import StructuredOutputsParams\n"
        "from stackmask.integration.vllm import register\n\nregister()\n"
        f"specification = {_text(value) if isinstance(value, str) else pprint.pformat(value, width=100)}\n"
        'llm = LLM("path/to/model", structured_outputs_config={"backend": "stackmask"})\n'
        f"parameters = SamplingParams(max_tokens=512, structured_outputs=StructuredOutputsParams({name}=specification))\n"
        'print(llm.generate("...", parameters)[0].outputs[0].text)\n'
    )


def _sglang(given: Specification) -> str:
    match given.kind:
        case "json_schema" | "json":
            name, value = "json_schema", given.text if given.kind == "json_schema" else "{}"
        case "regex" | "ebnf" | "structural_tag":
            name, value = given.kind, given.text
        case "choice":
            name, value = "ebnf", "root ::= " + " | ".join(json.dumps(choice, ensure_ascii=False) for choice in value_of(given))
        case _:
            return "# SGLang has no field for grammars in Lark's language: write this one as EBNF.\n"
    return (
        "# python -m sglang.launch_server --model-path path/to/model --grammar-backend stackmask\n"
        "import requests\n\n"
        f"specification = {_text(value)}\n"
        'body = {"text": "...", "sampling_params": {"max_new_tokens": 512, "' + name + '": specification}}\n'
        'print(requests.post("http://127.0.0.1:30000/generate", json=body).json()["text"])\n'
    )
