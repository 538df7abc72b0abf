"""llama-cpp-python itself: what its `Llama` generates with the logits processor is inside the grammar.

The package is installed without its library, which takes long to build (`CMAKE_ARGS="-DLLAMA_BUILD=OFF"`). The fetched build takes the
library's place, where the structures that the package declares are those of that build. Functions that the package declares and the build
lacks abort; none of them is called here.
"""

import ctypes
import importlib.util
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest

from stackmask.integration.compiler import Compiler
from stackmask.integration.llama_cpp.library import ContextParams, Library, ModelParams
from stackmask.integration.llama_cpp.logits_processor import GrammarLogitsProcessor, llama_vocabulary

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "pattern": "^(?!x)[a-z ]{1,9}$"},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["new", "sale"]}, "maxItems": 2},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
REGEX = r"[a-c]{2,4}(-\d\d)?"
PROMPT = '{"name":"anna","age":31,"tags":["new"]} and again: '


@pytest.fixture(scope="module")
def llama_cpp(library, tmp_path_factory):
    """The package, over its own library where it has one."""
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None:
        pytest.skip("needs llama-cpp-python")
    package = Path(spec.origin).parent
    with pytest.MonkeyPatch.context() as context:
        context.delenv("STACKMASK_LIBLLAMA", raising=False)
        if not list((package / "lib").glob("*llama*")):
            directory = tmp_path_factory.mktemp("llama_cpp")
            put_library(library, directory, declared=re.findall(r'ctypes_function\(\s*"(\w+)"', (package / "llama_cpp.py").read_text()))
            context.setenv("LLAMA_CPP_LIB_PATH", str(directory))
        Library.open.cache_clear()
        module = importlib.import_module("llama_cpp")
        if "LLAMA_CPP_LIB_PATH" in os.environ:
            for theirs, ours in ((module.llama_model_params, ModelParams), (module.llama_context_params, ContextParams)):
                assert layout(theirs) == layout(ours)[:-1], "all but the spare bytes"
        Library.open()  # loads the back ends
        yield module
        Library.open.cache_clear()


def layout(structure):
    """The names, places and sizes of fields."""
    return [(field[0], getattr(structure, field[0]).offset, getattr(structure, field[0]).size) for field in structure._fields_]


def put_library(library, directory, *, declared):
    """Lay the library out as the package looks for it, with the functions that it lacks."""
    if (compiler := shutil.which("cc")) is None:
        pytest.skip("needs a C compiler")
    for path in library.path.parent.iterdir():
        (directory / path.name).symlink_to(path)
    missing = [name for name in declared if not hasattr(ctypes.CDLL(str(library.path)), name)]
    source = directory / "missing.c"
    source.write_text("#include <stdlib.h>\n" + "".join(f"void {name}(void) {{ abort(); }}\n" for name in missing))
    linking = ["-Wl,--no-as-needed", directory / library.path.name, f"-Wl,-rpath,{directory}"]
    subprocess.run([compiler, "-shared", "-fPIC", source, *linking, "-o", directory / "libllama.so"], check=True)


@pytest.mark.parametrize(("name", "count", "drafts"), [("demo", 25, False), ("spm", 25, False), ("demo", 6, True), ("spm", 6, True)])
def test_every_answer_is_valid(llama_cpp, files, name, count, drafts):
    """Schemas and patterns at any temperature, by one processor that begins anew; with drafts, guesses are refused and accepted."""
    from llama_cpp.llama_speculative import LlamaPromptLookupDecoding

    draft_model = LlamaPromptLookupDecoding(num_pred_tokens=4) if drafts else None
    llm = llama_cpp.Llama(str(files[name]), n_ctx=512, n_threads=1, verbose=False, draft_model=draft_model)
    compiler = Compiler(llama_vocabulary(llm))
    processors = [
        GrammarLogitsProcessor(compiler.json_schema(PERSON, whitespace="compact")),
        GrammarLogitsProcessor(compiler.regex(REGEX)),
    ]
    for number in range(count):
        processor = processors[number % 2]
        processor.reset()
        answer = llm.create_completion(
            PROMPT, max_tokens=150, seed=number, temperature=number % 3, logits_processor=llama_cpp.LogitsProcessorList([processor])
        )
        (choice,) = answer["choices"]
        assert (choice["finish_reason"], processor.error) == ("stop", None)
        if number % 2:
            assert re.fullmatch(REGEX, choice["text"])
        else:
            jsonschema.validate(json.loads(choice["text"]), PERSON)


def test_a_chat(llama_cpp, files):
    """A chat takes the processor as a completion does, in pieces too."""
    llm = llama_cpp.Llama(str(files["spm"]), n_ctx=512, n_threads=1, verbose=False)
    grammar = Compiler(llama_vocabulary(llm)).json_schema(PERSON, whitespace="compact")
    for seed in range(3):
        pieces = llm.create_chat_completion(
            [{"role": "user", "content": "A person."}],
            max_tokens=150,
            seed=seed,
            stream=True,
            logits_processor=llama_cpp.LogitsProcessorList([GrammarLogitsProcessor(grammar)]),
        )
        text = "".join(piece["choices"][0]["delta"].get("content", "") for piece in pieces)
        jsonschema.validate(json.loads(text), PERSON)
