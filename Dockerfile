# The guest image. Three layers of ours above the base: the system's programs, the dependencies, the agent's source.
# `make image` builds it with docker, podman or buildah, on a Debian base of its own; `docker build .` builds it on the
# image below. docs/reference/image.md says what is in it and how it is held.
ARG BASE_IMAGE=python:3.11-slim-bookworm

FROM ${BASE_IMAGE} AS system
# Podman and buildah take a step for unchanged when only what is mounted has changed: this says that it has.
ARG SYSTEM=unknown
RUN --mount=type=bind,source=images/steps,target=/build sh /build/system.sh agent 10001 10001

# pip comes with the base, or lies in /run/pip. Its configuration and certificates are lent for the build alone.
FROM ${BASE_IMAGE} AS dependencies
COPY requirements/runtime.lock images/steps/dependencies.sh /build/
RUN --mount=type=secret,id=pip.conf,mode=0444 --mount=type=secret,id=ca.pem,mode=0444 \
    sh /build/dependencies.sh /build/runtime.lock /opt/agent

FROM system AS source
COPY --from=dependencies /opt/agent /opt/agent
COPY LICENSE pyproject.toml images/healthz.py images/sbom.py images/steps/source.sh /build/
# Without the doubles for tests: a model and a host that obey any caller have no place in a guest.
COPY agent_common /build/agent_common
COPY agent_runtime /build/agent_runtime
RUN sh /build/source.sh /opt/agent /staged agent-runtime agent_runtime.cli agent_common agent_runtime

FROM system
COPY --from=dependencies /opt/agent /opt/agent
COPY --from=source /staged /
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="agent-runtime" \
      org.opencontainers.image.description="A runtime for one LLM agent" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
ENV PATH=/opt/agent/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/home/agent \
    LANG=C.UTF-8 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYDANTIC_DISABLE_PLUGINS=__all__ \
    AGENT_HOST=0.0.0.0 \
    AGENT_DATA_DIR=/data
USER 10001:10001
WORKDIR /data
VOLUME /data
EXPOSE 8400
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=3s --start-period=20s --retries=3 CMD ["agent-healthz"]
ENTRYPOINT ["tini", "--", "agent-runtime"]
CMD ["serve"]
