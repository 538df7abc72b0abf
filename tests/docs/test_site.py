"""The site of the documentation: built without a warning, all its pages in the navigation, and nothing loaded from elsewhere."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

pytest.importorskip("mkdocs")
pytest.importorskip("material")

ROOT = Path(__file__).parents[2]


class Loads(HTMLParser):
    """What a page makes a browser load: scripts, styles, fonts, images and frames; not links to follow."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attributes):
        """Note the address."""
        values = dict(attributes)
        if tag in ("script", "img", "iframe", "source", "video", "audio", "embed") and "src" in values:
            self.found.append(values["src"])
        if tag == "link" and values.get("rel") not in ("canonical", "next", "prev", "alternate"):
            self.found.append(values["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, built as CI builds it; a warning is an error."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_page_is_there(site):
    """Each page of docs/ has its place, under an address without a suffix."""
    for page in (ROOT / "docs").rglob("*.md"):
        place = page.relative_to(ROOT / "docs").with_suffix("")
        assert (site / ("" if place.name == "index" else place) / "index.html").exists(), place
    assert not list(site.rglob("*_suite.json"))


def test_nothing_is_loaded_from_elsewhere(site):
    """Neither pages nor styles load scripts, styles, fonts or images of other servers."""
    for page in site.rglob("*.html"):
        loads = Loads()
        loads.feed(page.read_text(encoding="utf-8"))
        assert len(loads.found) >= 3
        assert [address for address in loads.found if re.match(r"(?:\w+:)?//", address)] == [], page
    for style in site.rglob("*.css"):
        assert re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//[^)]*", style.read_text(encoding="utf-8")) == [], style


def test_bars_in_tables(site):
    """A bar inside of code in a table is shown without the backslash that GitHub needs."""
    text = (site / "tool_calling" / "index.html").read_text(encoding="utf-8")
    assert "&lt;|python_tag|&gt;" in text and "\\|" not in text
