"""What can be told of the image from its files alone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent_host.settings import LOADER as HOST_LOADER
from agent_runtime.settings import LOADER, PREFIX, Settings
from frontends.settings import LOADER as BOTS_LOADER

ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "images"
DOCKERFILE = (ROOT / "Dockerfile").read_text()
FINAL = DOCKERFILE.rpartition("\nFROM ")[2]
PROFILE: dict[str, Any] = json.loads((IMAGES / "seccomp.json").read_text())
TEXTS = [
    ROOT / "Dockerfile",
    *(path for path in IMAGES.rglob("*") if path.is_file() and "__pycache__" not in path.parts),
]
SECRETS = {LOADER.env_name(name) for name in Settings.model_fields if LOADER.is_secret(name)}
FILES_OF_SETTINGS = {f"{name}_FILE" for name in SECRETS}
SETTINGS = set(LOADER.names())


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((IMAGES / name).read_text()))


def allowed() -> set[str]:
    return {name for rule in PROFILE["syscalls"] if "args" not in rule for name in rule["names"]}


def test_dependencies_and_source_are_layers_of_their_own() -> None:
    copied = re.findall(r"^COPY (.*)$", FINAL, re.MULTILINE)
    assert copied == ["--from=dependencies /opt/agent /opt/agent", "--from=source /staged /"]
    assert "RUN" not in FINAL.split()


def test_the_base_is_an_argument() -> None:
    assert re.search(r"^ARG BASE_IMAGE=\S+$", DOCKERFILE.partition("\nFROM ")[0], re.MULTILINE)
    stages = re.findall(r"^FROM (\S+)(?: AS (\w+))?$", DOCKERFILE, re.MULTILINE)
    named = {name for _, name in stages}
    assert {source for source, _ in stages} - named == {"${BASE_IMAGE}"}


def test_the_environment_says_where_data_lies_and_holds_no_secret() -> None:
    lines = FINAL.replace("\\\n", " ").splitlines()
    [words] = [line.split()[1:] for line in lines if line.startswith("ENV ")]
    env = dict(word.split("=", 1) for word in words)
    ours = {name: value for name, value in env.items() if name.startswith(PREFIX)}
    assert ours == {"AGENT_DATA_DIR": "/data", "AGENT_HOST": "0.0.0.0"}  # noqa: S104  the place of a container is closed
    assert env["PYTHONDONTWRITEBYTECODE"] == "1"
    assert {"VOLUME /data", "WORKDIR /data", "EXPOSE 8400"} <= set(lines)
    labels = set(re.findall(r"org\.opencontainers\.image\.(\w+)=", FINAL))
    assert labels == {"title", "description", "licenses", "version", "revision"}


def test_the_program_is_nobody_and_is_reaped() -> None:
    assert "USER 10001:10001" in FINAL
    assert 'ENTRYPOINT ["tini", "--", "agent-runtime"]' in FINAL
    assert 'CMD ["agent-healthz"]' in FINAL
    assert "STOPSIGNAL SIGTERM" in FINAL


def test_only_what_the_dockerfile_names_goes_into_a_build() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert lines[1] == "*"
    assert {line for line in lines if line.startswith("!")} == {
        "!agent_client", "!agent_common", "!agent_conformance", "!agent_host", "!agent_runtime", "!agent_testing",
        "!frontends", "!images", "!requirements", "!LICENSE", "!pyproject.toml",
    }  # fmt: skip


def test_the_install_is_by_hash_and_compiles_nothing() -> None:
    script = (IMAGES / "steps/dependencies.sh").read_text()
    assert {"--require-hashes", "--no-deps"} <= set(script.split())
    assert "--only-binary :all:" in script


@pytest.mark.parametrize("step", ["dependencies", "source"])
def test_bytecode_is_bound_to_no_files_time(step: str) -> None:
    lines = (IMAGES / f"steps/{step}.sh").read_text().splitlines()
    [line] = [line for line in lines if "-m compileall" in line]
    assert "--invalidation-mode unchecked-hash" in line
    assert not line.startswith(("#", ":"))


def test_doubles_stay_out_and_a_bill_of_materials_is_written() -> None:
    assert re.findall(r"^COPY (agent_\w+)", DOCKERFILE, re.MULTILINE) == ["agent_common", "agent_runtime"]
    script = (IMAGES / "steps/source.sh").read_text()
    assert '/build/sbom.py /build/pyproject.toml >"$staged/usr/share/$command/sbom.cdx.json"' in script


def test_the_bots_are_neither_a_host_nor_an_agent() -> None:
    text = (IMAGES / "bots/Dockerfile").read_text()
    copied = re.findall(r"^COPY ((?:agent_|frontends)\w*) ", text, re.MULTILINE)
    assert copied == ["agent_common", "agent_client", "frontends"]
    final = text.rpartition("\nFROM ")[2]
    assert "USER 10003:10003" in final
    assert {"VOLUME /data", "STOPSIGNAL SIGTERM", 'ENTRYPOINT ["tini", "--", "agent-bots"]'} <= set(final.splitlines())
    assert "EXPOSE" not in final


def test_the_bots_of_compose_start_when_asked_and_have_their_secrets_in_files() -> None:
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    bots, mesh = compose["services"]["bots"], compose["services"]["mesh"]
    assert bots["profiles"] == ["bots"]
    assert set(bots["environment"]) <= {"MESH_TOKEN_FILE", *BOTS_LOADER.names()}
    assert not {name for name in bots["environment"] if name.endswith("_TOKEN")}
    held = ("read_only", "cap_drop", "security_opt", "tmpfs", "pids_limit")
    assert {name: bots[name] for name in held} == {name: mesh[name] for name in held}
    own, given = bots["volumes"]
    assert own.partition(":")[0] in compose["volumes"]
    assert given.endswith(":/run/bots:ro")
    others = {volume for name, one in compose["services"].items() if name != "bots" for volume in one["volumes"]}
    assert own not in others


def test_no_program_runs_as_somebody_else() -> None:
    for script in ("base.sh", "steps/system.sh"):
        assert "-type f -perm /6000 -exec chmod a-s {} +" in (IMAGES / script).read_text(), script


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_no_file_names_an_index_or_a_key(path: Path) -> None:
    text = path.read_text()
    assert not re.search(r"https?://(?!2:|agent-mesh)[\w-]+\.\w+", text), path
    assert not re.search(r"sk-[A-Za-z0-9]{8}|BEGIN [A-Z ]*PRIVATE KEY", text), path


def test_system_calls_that_no_guest_needs_are_refused() -> None:
    assert PROFILE["defaultAction"] == "SCMP_ACT_ERRNO"
    assert {rule["action"] for rule in PROFILE["syscalls"]} == {"SCMP_ACT_ALLOW"}
    refused = {
        "bpf", "ptrace", "process_vm_readv", "process_vm_writev", "keyctl", "add_key", "request_key", "io_uring_setup",
        "userfaultfd", "perf_event_open", "init_module", "finit_module", "kexec_load", "reboot", "swapon", "setns",
        "open_by_handle_at", "fsopen", "move_mount", "clock_settime", "settimeofday", "acct", "syslog",
    }  # fmt: skip
    assert not refused & {name for rule in PROFILE["syscalls"] for name in rule["names"]}


def test_what_the_backends_need_is_not_refused() -> None:
    bubblewrap = {
        "clone",
        "unshare",
        "mount",
        "umount2",
        "pivot_root",
        "sethostname",
        "capset",
        "prctl",
        "memfd_create",
    }
    landlock = {"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "seccomp"}
    assert bubblewrap | landlock <= allowed()
    families = [rule["args"] for rule in PROFILE["syscalls"] if rule["names"] == ["socket"]]
    assert {(one["index"], one["value"], one["op"]) for [one] in families} == {
        (0, family, "SCMP_CMP_EQ") for family in (1, 2, 10, 16, 40)
    }
    assert "socket" not in allowed()


def test_the_workspace_of_microagent_fails_closed_and_has_no_network() -> None:
    [spec] = documents("microagent.yaml")
    assert spec["network"] == {"mode": "isolated"}
    assert spec["mediation"] == {
        "enabled": True, "required": True, "failClosed": True, "port": 2048, "target": "127.0.0.1:9900",
    }  # fmt: skip
    assert spec["env"]["AGENT_MEDIATION_REQUIRED"] == "true"
    assert set(spec["env"]) <= SETTINGS
    assert not SECRETS & set(spec["env"])


def test_the_pod_is_held_and_names_only_settings_that_there_are() -> None:
    [stateful] = [one for one in documents("kubernetes/statefulset.yaml") if one["kind"] == "StatefulSet"]
    pod = stateful["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert (pod["runtimeClassName"], pod["automountServiceAccountToken"]) == ("kata", False)
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 10001)
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["resources"]["limits"]["memory"] == "512Mi"
    names = {one["name"] for one in container["env"]}
    assert names <= SETTINGS
    assert not SECRETS & names


def test_the_mesh_is_one_pod_that_is_held_and_has_its_secrets_in_files() -> None:
    named = {one["kind"]: one for one in documents("kubernetes/mesh/deployment.yaml")}
    spec = named["Deployment"]["spec"]
    assert (spec["replicas"], spec["strategy"]) == (1, {"type": "Recreate"})
    pod = spec["template"]["spec"]
    [container] = pod["containers"]
    assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False)
    held = pod["securityContext"]
    assert (held["runAsNonRoot"], held["runAsUser"], held["runAsGroup"]) == (True, 10002, 10001)
    assert held["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
    }  # fmt: skip
    names = {one["name"] for one in container["env"]}
    assert names <= set(HOST_LOADER.names())
    assert not {name for name in names if not name.endswith("_FILE")}
    claim = named["PersistentVolumeClaim"]["metadata"]["name"]
    assert claim in {one.get("persistentVolumeClaim", {}).get("claimName") for one in pod["volumes"]}


def test_the_mesh_is_reached_by_agents_and_by_those_who_are_let_in() -> None:
    deny, mesh = documents("kubernetes/mesh/networkpolicy.yaml")
    assert deny["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    assert all(rule["from"] for rule in mesh["spec"]["ingress"])
    outside = [to["ipBlock"] for rule in mesh["spec"]["egress"] for to in rule["to"] if "ipBlock" in to]
    assert [one["cidr"] for one in outside] == ["0.0.0.0/0"]
    assert {"10.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"} <= set(outside[0]["except"])


def test_pods_reach_nothing_but_the_mesh() -> None:
    deny, mesh = documents("kubernetes/networkpolicy.yaml")
    assert deny["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    ports = {(port["protocol"], port["port"]) for rule in mesh["spec"]["egress"] for port in rule["ports"]}
    assert ports == {("TCP", 8420), ("TCP", 9900), ("UDP", 53), ("TCP", 53)}
    assert all(rule["to"] for rule in mesh["spec"]["egress"])
