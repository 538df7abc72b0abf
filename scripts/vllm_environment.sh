#!/usr/bin/env bash
# An environment with vLLM 0.33.0 and stackmask in which scripts/vllm_check.py and scripts/vllm_compare.py run, without a GPU: 3.5 GB.
#
#   scripts/vllm_environment.sh DIRECTORY
#
# vLLM's wheel is for CUDA and asks for 20 packages of kernels that nothing here calls, so it is installed without its dependencies and what
# its Python code imports is listed below. torch is whatever pip finds: set PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu for one
# without CUDA, which is smaller.
set -euo pipefail
[[ $# -eq 1 ]] || { sed -n '2,4p' "$0" >&2; exit 2; }
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
directory=$1
export PIP_DISABLE_PIP_VERSION_CHECK=1

[[ -x "$directory/bin/python" ]] || "${PYTHON:-python3}" -m venv "$directory"
install() { "$directory/bin/python" -m pip install --quiet "$@"; }

install 'torch==2.13.0'
install 'transformers>=5.16.1,<5.21' 'fastapi>=0.133,<0.137' 'llguidance>=1.7,<1.8' 'xgrammar==0.2.8' 'outlines_core==0.2.14' 'lm-format-enforcer==0.11.3' \
  'lark==1.2.2' 'depyf==0.20.0' 'mcp>=2.2,<3' 'model-hosting-container-standards>=0.1.14,<1' 'oss-harmony>=0.0.11' 'mistral_common[image]>=1.11.6' \
  'opentelemetry-semantic-conventions-ai>=0.4.1' aiohttp anthropic blake3 cachetools cbor2 cloudpickle einops httptools httpx ijson jsonschema \
  loguru msgspec ninja numpy nvtx openai opencv-python-headless opentelemetry-exporter-otlp orjson partial-json-parser pillow \
  prometheus-fastapi-instrumentator protobuf psutil py-cpuinfo pybase64 python-json-logger python-multipart pyyaml pyzmq regex requests \
  sentencepiece setproctitle tiktoken tqdm uvicorn uvloop watchfiles
install --no-deps 'compressed-tensors==0.17.0' 'vllm==0.33.0'
install --no-deps "$root"
VLLM_TARGET_DEVICE=cpu "$directory/bin/python" -c '
import vllm, stackmask, torch
from stackmask.integration.vllm import register
register()
print(f"vLLM {vllm.__version__} with torch {torch.__version__}: stackmask is one of its backends")'
