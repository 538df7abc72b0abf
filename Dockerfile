# The server on CPUs, with the demo model or one of yours:
#
#   docker build -t stackmask .
#   docker run --rm -p 127.0.0.1:8000:8000 stackmask
#   docker run --rm -p 127.0.0.1:8000:8000 -v /path/to/model:/model:ro -e STACKMASK_API_KEY stackmask serve --model /model --host 0.0.0.0
FROM python:3.11-slim AS build
# The compiler is that of the image's Debian, whatever its version.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
ENV PATH=/opt/stackmask/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
COPY .ci/constraints.txt /constraints.txt
RUN python -m venv /opt/stackmask && pip install --constraint /constraints.txt --index-url https://download.pytorch.org/whl/cpu torch
COPY . /source
RUN pip install --constraint /constraints.txt '/source[server]'

FROM python:3.11-slim
RUN useradd --create-home --uid 10001 stackmask
COPY --from=build /opt/stackmask /opt/stackmask
ENV PATH=/opt/stackmask/bin:$PATH PYTHONUNBUFFERED=1
USER 10001
WORKDIR /home/stackmask
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["stackmask"]
CMD ["serve", "--demo", "--host", "0.0.0.0"]
