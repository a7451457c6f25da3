# Two images of one source. `api` has no torch and also runs migrations and the scheduler; `worker` measures.
#   docker build --target api -t seatrial-api .
#   docker build --target worker -t seatrial-worker .
# TORCH_BUILD=cpu takes torch without CUDA (a worker image of 2 GB instead of 8) where pip's indexes offer it; TORCH_INDEX_URL
# names one more, such as PyTorch's index of CPU builds.

# By exact version; a digest pins it for good: PYTHON_IMAGE=python:3.11.13-slim-bookworm@sha256:...
ARG PYTHON_IMAGE=python:3.11.13-slim-bookworm
FROM ${PYTHON_IMAGE} AS base
ENV PATH=/opt/seatrial/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/tmp \
    MPLCONFIGDIR=/tmp/matplotlib \
    HF_HUB_OFFLINE=1 \
    SEATRIAL_HOME=/data \
    SEATRIAL_LOG_JSON=true
# A fixed number, so that both images may write to one volume.
RUN groupadd --gid 10001 seatrial \
    && useradd --uid 10001 --gid 10001 --no-create-home --shell /usr/sbin/nologin seatrial \
    && install --directory --mode=0700 --owner=10001 --group=10001 /data

FROM base AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/seatrial
WORKDIR /source
COPY constraints.txt pyproject.toml README.md LICENSE alembic.ini ./
COPY alembic ./alembic
COPY seatrial ./seatrial
COPY app ./app
COPY workers ./workers
RUN pip install --constraint constraints.txt .

FROM build AS build-worker
ARG TORCH_BUILD=""
ARG TORCH_INDEX_URL=""
# In a step of its own: torch is the largest layer and changes least.
RUN version="$(sed -n 's/^torch==//p' constraints.txt)" \
    && install_torch() { pip install --constraint constraints.txt ${TORCH_INDEX_URL:+--extra-index-url "$TORCH_INDEX_URL"} "torch==$1"; } \
    && if [ -n "$TORCH_BUILD" ] && ! install_torch "$version+$TORCH_BUILD"; then \
        echo "WARNING: no index offers torch $version+$TORCH_BUILD (TORCH_INDEX_URL names one more): torch $version of the default build, maybe with CUDA, takes its place" >&2; \
        TORCH_BUILD=""; \
    fi \
    && { [ -n "$TORCH_BUILD" ] || install_torch "$version"; }
RUN pip install --constraint constraints.txt ".[text]"
# What text attacks need, into the image: nothing is downloaded when an audit runs.
RUN apt-get update \
    && SEATRIAL_RESOURCES=/opt/seatrial/resources seatrial resources install \
    && rm -rf /var/lib/apt/lists/*

FROM base AS worker
# glibc gives large freed blocks back at every gradient step; keeping them saves a fifth of a small network's time on a CPU.
ENV MALLOC_TRIM_THRESHOLD_=536870912 \
    MALLOC_MMAP_THRESHOLD_=536870912 \
    SEATRIAL_RESOURCES=/opt/seatrial/resources
COPY --from=build-worker /opt/seatrial /opt/seatrial
USER 10001:10001
WORKDIR /data
VOLUME ["/data"]
HEALTHCHECK --interval=15s --timeout=5s --start-period=60s --retries=3 CMD ["seatrial", "health"]
CMD ["seatrial", "worker", "--queues", "gpu"]

FROM base AS api
COPY --from=build /opt/seatrial /opt/seatrial
USER 10001:10001
WORKDIR /data
VOLUME ["/data"]
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=5s --start-period=15s --retries=3 \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
CMD ["seatrial", "serve", "--host", "0.0.0.0", "--port", "8000", "--workers", "0"]
