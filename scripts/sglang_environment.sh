#!/usr/bin/env bash
# A virtual environment in which SGLang's handling of grammars runs on a CPU, with this checkout installed beside it.
#
#     scripts/sglang_environment.sh DIR            3 GB, of which torch is one
#     scripts/sglang_environment.sh DIR PYTHON     with the torch of another environment, given by its interpreter
#     DIR/bin/python scripts/sglang_check.py
#
# SGLang's own requirements bring CUDA and dozens of kernels, so it is installed without them, and what its modules import comes by name.
# torchvision from PyPI does not fit a torch for CPUs; nothing calls it, and scripts/sglang_stage.py declares the operators it registers.
set -euo pipefail

directory=${1:?usage: $0 DIR [PYTHON]}
base=${2:-}
root=$(cd "$(dirname "$0")/.." && pwd)
sglang=0.5.23
torch=2.13.0

"${base:-python3}" -m venv "$directory"
python=$directory/bin/python
install() { "$python" -m pip install --quiet --disable-pip-version-check "$@"; }

if [ -n "$base" ]; then
  "$base" -c 'import torch; print(torch.__path__[0])' | xargs dirname > "$("$python" -c 'import site; print(site.getsitepackages()[0])')/torch.pth"
else
  install --index-url https://download.pytorch.org/whl/cpu "torch==$torch"
fi
install aiohttp cffi distro easydict einops fastapi filelock interegular IPython jinja2 jsonschema lark llguidance loguru mistral_common \
  msgspec networkx "numpy>=1.26" nvidia-ml-py openai==2.8.0 openai-harmony==0.0.4 orjson packaging partial_json_parser pillow prometheus-client \
  psutil pybase64 pydantic python-multipart pyyaml pyzmq regex requests sentencepiece==0.2.1 setproctitle soundfile==0.13.1 tiktoken \
  tokenizers==0.23.2 tqdm transformers==5.19.0 uvicorn uvloop xxhash zstandard
install --no-deps apache-tvm-ffi==0.1.11 compressed-tensors==0.18.0 dill gguf "sglang==$sglang" torchvision triton xgrammar==0.2.7
install --no-deps "$root"
"$python" -c 'import importlib.metadata as m; print("SGLang", m.version("sglang"), "with", "stackmask", m.version("stackmask"))'
