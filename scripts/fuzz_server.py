"""Requests made up from the server's OpenAPI description, right and wrong ones: no answer has status 500, and the server lives on.

    python scripts/fuzz_server.py [--examples 100] [--seed 1] [--schemathesis COMMAND]

It starts `stackmask serve --demo` and runs schemathesis, which has to be installed, wherever (`uv tool install schemathesis`).
The exit code is that of schemathesis, or 1 where the server does not answer afterwards.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import urllib.request


def main() -> int:
    """Start the server, let it have them, stop it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=100, help="requests for each kind of test and route (default: 100)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--schemathesis", default="schemathesis", metavar="COMMAND")
    arguments = parser.parse_args()
    serve = [sys.executable, "-m", "stackmask", "serve", "--demo", "--port", "0", "--max-tokens", "40"]
    with subprocess.Popen(serve, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        found = re.search(r"at (http://\S+)/v1", server.stderr.readline())
        assert found, "the server did not start"
        try:
            fuzz = [arguments.schemathesis, "run", f"{found[1]}/openapi.json", "--checks", "not_a_server_error"]
            options = ["--max-examples", str(arguments.examples), "--seed", str(arguments.seed), "--request-timeout", "60"]
            with tempfile.TemporaryDirectory() as folder:  # where it leaves files of its own
                status = subprocess.run([*fuzz, *options], check=False, cwd=folder).returncode
            with urllib.request.urlopen(f"{found[1]}/health", timeout=10) as answer:
                return status or int(answer.status != 200)
        finally:
            server.terminate()


if __name__ == "__main__":
    sys.exit(main())
