"""Make integration/inspector/static/vendor.js out of the libraries that scripts/inspector_vendor pins, and collect their licences.

    python scripts/inspector_vendor.py [--check]

Needs npm, and the registry for what is not in its cache. The lock file fixes every version and hash, so the same bytes come out everywhere;
`--check` says whether they are those in the package.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent / "inspector_vendor"
STATIC = Path(__file__).parents[1] / "integration" / "inspector" / "static"


def main() -> int:
    """Bundle, and write or compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where the package has other bytes")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for name in ("package.json", "package-lock.json", "entry.js"):
            shutil.copy(HERE / name, work)
        subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], cwd=work, check=True)
        command = ["npx", "esbuild", "entry.js", "--bundle", "--minify", "--format=esm", "--legal-comments=none", "--outfile=vendor.js"]
        subprocess.run([*command, "--log-level=warning"], cwd=work, check=True)
        made = {"vendor.js": (work / "vendor.js").read_bytes(), "vendor.licences.txt": licences(work).encode()}
    changed = [name for name, content in made.items() if not (STATIC / name).is_file() or (STATIC / name).read_bytes() != content]
    if not arguments.check:
        for name in changed:
            (STATIC / name).write_bytes(made[name])
    print(f"{', '.join(changed) or 'nothing'} {'differs' if arguments.check else 'written'}")
    return 1 if arguments.check and changed else 0


def licences(work: Path) -> str:
    """The licences of all packages in the bundle, by name and version."""
    lock = json.loads((work / "package-lock.json").read_text("utf-8"))
    texts = []
    for place, package in sorted(lock["packages"].items()):
        if not place or package.get("dev"):
            continue
        found = sorted((work / place).glob("LICEN[CS]E*"))
        text = found[0].read_text("utf-8").strip() if found else f"Licence: {package.get('license')}"
        texts.append(f"{place.removeprefix('node_modules/')} {package['version']}\n\n{text}\n")
    return f"\n{'-' * 78}\n\n".join(texts)


if __name__ == "__main__":
    sys.exit(main())
