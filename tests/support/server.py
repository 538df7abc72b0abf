"""A server of the demo model as a process of its own."""

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import stackmask


class Server:
    """A server process, and where it listens."""

    def __init__(self, *arguments):
        path = os.pathsep.join([str(Path(stackmask.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        model = () if {"--model", "--gguf", "--mlx"} & set(arguments) else ("--demo",)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stackmask", "serve", *model, "--port", "0", *arguments],
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        self.lines = []
        while not (found := re.search(r"at (http://\S+)/v1", "".join(self.lines))):
            line = self.process.stderr.readline()
            assert line, f"the server ended: {self.lines}"
            self.lines.append(line)
        self.url = found[1]
        self.reader = threading.Thread(target=lambda: self.lines.extend(self.process.stderr), daemon=True)
        self.reader.start()

    def client(self, key="none"):
        """OpenAI's client for it."""
        import openai

        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0)

    def stop(self):
        """Its exit code when told to stop."""
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(30)
        self.reader.join()
        self.process.stderr.close()
        return code
