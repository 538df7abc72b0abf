"""The picture of the README is what the inspector says of its text."""

import subprocess
import sys

from support.blocks import ROOT


def test_picture():
    """Both files are drawn from the inspector's answer, light and dark."""
    done = subprocess.run([sys.executable, ROOT / "scripts" / "readme_picture.py", "--check"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "nothing differs\n"), done.stderr
