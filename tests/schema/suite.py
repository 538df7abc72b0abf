"""The official JSON Schema test suite, read from its archive."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(os.environ.get("STACKMASK_TEST_DATA", Path(__file__).resolve().parents[2].parent / "shared" / "data"))
"""Where the suite's archive and the tokenizers lie; the environment variable names another place."""
ARCHIVE = DATA / "json-schema-test-suite.tar.gz"
DRAFTS = {"draft4": "draft4", "draft6": "draft6", "draft7": "draft7", "2019-09": "draft2019-09", "2020-12": "draft2020-12"}
"""Our names of the drafts, and the suite's."""


@dataclass(frozen=True, slots=True)
class Case:
    """One test: whether an instance is valid against a schema."""

    draft: str
    file: str
    group: str
    description: str
    schema: Any
    instance: Any
    valid: bool

    @property
    def name(self) -> str:
        """What identifies the case in messages and in the table of reasons."""
        return f"{self.draft}/{self.file}: {self.group}: {self.description}"


@cache
def members() -> dict[str, Any]:
    """Every JSON file of the archive by its path."""
    found = {}
    with tarfile.open(ARCHIVE) as archive:
        for member in archive:
            if member.name.endswith(".json"):
                file = archive.extractfile(member)
                assert file is not None
                found[member.name.removeprefix("./")] = json.loads(file.read())
    return found


def cases(draft: str, part: str = "") -> Iterator[Case]:
    """The cases of a draft: the required ones, or those of `part` ("optional", "optional/format")."""
    folder = f"tests/{DRAFTS[draft]}/{part}".rstrip("/")
    for path, groups in sorted(members().items()):
        if path.rpartition("/")[0] == folder:
            for group in groups:
                for test in group["tests"]:
                    yield Case(
                        draft,
                        path.removeprefix(f"tests/{DRAFTS[draft]}/").removesuffix(".json"),
                        group["description"],
                        test["description"],
                        group["schema"],
                        test["data"],
                        test["valid"],
                    )


@cache
def remotes() -> dict[str, Any]:
    """The documents that the suite's schemas refer to, by URI."""
    return {
        f"http://localhost:1234/{path.removeprefix('remotes/')}": text for path, text in members().items() if path.startswith("remotes/")
    }
