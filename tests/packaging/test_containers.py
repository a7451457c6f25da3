"""The Dockerfile and the compose file, as far as they can be judged without an engine."""

import json
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from seatrial.store.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = Path(sysconfig.get_path("scripts"))
# The program itself: the wheel's script of the same name ends with status 0 whatever happened.
COMPOSE = next(
    (one for folder in sys.path if (one := Path(folder, "compose", "docker-compose")).is_file()), Path("docker-compose")
)
SECRETS = {
    "POSTGRES_PASSWORD": "a" * 64,
    "POSTGRES_SERVICE_PASSWORD": "b" * 64,
    "POSTGRES_WORKER_PASSWORD": "c" * 64,
    "REDIS_PASSWORD": "d" * 64,
    "SEATRIAL_BOOTSTRAP_KEY": "e" * 64,
}


def compose(
    *arguments: str, files: tuple[Path, ...] = (), secrets: dict[str, str] = SECRETS
) -> subprocess.CompletedProcess[str]:
    """Run docker-compose of the wheel without any environment but the secrets."""
    chosen = [part for file in (ROOT / "docker-compose.yml", *files) for part in ("-f", str(file))]
    return subprocess.run(
        [COMPOSE, *chosen, *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **secrets},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    done = compose("--profile", "*", "config", "--format", "json")
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout)["services"])


@pytest.mark.parametrize("profile", [(), ("--profile", "cpu"), ("--profile", "gpu"), ("--profile", "*")])
def test_compose_accepts_every_profile(profile: tuple[str, ...]) -> None:
    done = compose(*profile, "config", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("missing", list(SECRETS))
def test_a_missing_secret_is_named(missing: str) -> None:
    done = compose("config", "--quiet", secrets={name: value for name, value in SECRETS.items() if name != missing})
    assert done.returncode != 0
    assert f"{missing} is missing a value: set it in .env" in done.stderr


def test_the_example_environment_names_every_secret() -> None:
    lines = (ROOT / ".env.example").read_text().splitlines()
    assert {line.partition("=")[0] for line in lines if line and not line.startswith("#")} == set(SECRETS)


def test_no_secret_stands_in_the_file() -> None:
    text = (ROOT / "docker-compose.yml").read_text()
    for name in SECRETS:
        assert f"${{{name}:?" in text


def test_every_service_is_watched_and_restarted(services: dict[str, Any]) -> None:
    assert set(services) == {"postgres", "redis", "migrate", "api", "scheduler", "worker-gpu", "worker-cpu"}
    for name, service in services.items():
        assert service["restart"] == ("on-failure" if name == "migrate" else "unless-stopped"), name
        if name != "migrate":
            assert service["healthcheck"]["test"], name
            assert service["stop_grace_period"], name


def test_every_container_is_closed_and_limited(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert "cap_add" not in service, name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert int(service["mem_limit"]) >= 2**28, name
        assert service["pids_limit"] >= 64, name
        assert service["tmpfs"], name
        assert all("size=" in one for one in service["tmpfs"]), name


def test_limits_may_be_set_in_the_environment() -> None:
    given = {"SEATRIAL_WORKER_MEMORY": "48g", "SEATRIAL_WORKER_TMP": "20g", "SEATRIAL_API_PIDS": "100"}
    done = compose("--profile", "*", "config", "--format", "json", secrets={**SECRETS, **given})
    services = json.loads(done.stdout)["services"]
    assert int(services["worker-cpu"]["mem_limit"]) == 48 * 2**30
    assert services["worker-gpu"]["tmpfs"] == ["/tmp:size=20g,mode=1777"]
    assert services["api"]["pids_limit"] == 100


def test_only_who_stores_and_reads_files_has_the_volume(services: dict[str, Any]) -> None:
    volumes = {name: [one["source"] for one in service.get("volumes", [])] for name, service in services.items()}
    assert volumes == {
        **{name: ["data"] for name in ("api", "worker-gpu", "worker-cpu")},
        **{name: [] for name in ("migrate", "scheduler", "redis")},
        "postgres": ["postgres"],
    }


def test_secrets_are_given_to_those_only_who_need_them(services: dict[str, Any]) -> None:
    of_worker = {"POSTGRES_WORKER_PASSWORD", "REDIS_PASSWORD"}
    for name, wanted in {
        "postgres": {"POSTGRES_PASSWORD"},
        "redis": {"REDIS_PASSWORD"},
        "migrate": {"POSTGRES_PASSWORD", "POSTGRES_SERVICE_PASSWORD", "POSTGRES_WORKER_PASSWORD"},
        "api": {"POSTGRES_SERVICE_PASSWORD", "REDIS_PASSWORD", "SEATRIAL_BOOTSTRAP_KEY"},
        **dict.fromkeys(("scheduler", "worker-gpu", "worker-cpu"), of_worker),
    }.items():
        said = json.dumps(services[name])
        assert {secret for secret, value in SECRETS.items() if value in said} == wanted, name


def test_nobody_but_the_migration_is_the_owner_of_the_database(services: dict[str, Any]) -> None:
    roles = {
        name: service["environment"]["SEATRIAL_DATABASE_URL"].removeprefix("postgresql://").partition(":")[0]
        for name, service in services.items()
        if name not in ("postgres", "redis")
    }
    assert roles == {
        **{"migrate": "seatrial", "api": "seatrial_service"},
        **dict.fromkeys(("scheduler", "worker-gpu", "worker-cpu"), "seatrial_worker"),
    }
    command = services["migrate"]["command"]
    assert command == ["seatrial", "migrate", "--service-role", "seatrial_service", "--worker-role", "seatrial_worker"]


def test_images_are_named_by_exact_version(services: dict[str, Any]) -> None:
    images = [services["postgres"]["image"], services["redis"]["image"]]
    images += [service["build"]["args"]["PYTHON_IMAGE"] for service in services.values() if "build" in service]
    default = re.search(r"^ARG PYTHON_IMAGE=(\S+)$", (ROOT / "Dockerfile").read_text(), re.M)
    assert default is not None
    assert set(images[2:]) == {default[1]}
    for image in images:
        assert re.fullmatch(r"[a-z]+:\d+\.\d+(\.\d+)?-[a-z-]+", image), image


def test_what_loads_models_reaches_no_network(services: dict[str, Any]) -> None:
    networks = json.loads(compose("config", "--format", "json").stdout)["networks"]
    assert networks["inside"]["internal"] is True
    for name in ("worker-gpu", "worker-cpu", "postgres", "redis", "scheduler"):
        assert list(services[name]["networks"]) == ["inside"], name


def test_a_second_file_lets_workers_and_nobody_else_out() -> None:
    files = (ROOT / "docker-compose.endpoints.yml",)
    done = compose("--profile", "*", "config", "--format", "json", files=files)
    services = json.loads(done.stdout)["services"]
    out = {name for name, service in services.items() if "outside" in service["networks"]}
    assert out == {"api", "worker-gpu", "worker-cpu"}


def test_the_cpu_profile_asks_for_torch_without_cuda(services: dict[str, Any]) -> None:
    assert services["worker-cpu"]["build"]["args"]["TORCH_BUILD"] == "cpu"
    assert services["worker-cpu"]["build"]["args"]["TORCH_INDEX_URL"] == "https://download.pytorch.org/whl/cpu"
    assert "TORCH_BUILD" not in services["worker-gpu"]["build"]["args"]


@pytest.mark.parametrize("worker", ["worker-cpu", "worker-gpu"])
def test_workers_start_with_what_is_passed_on_by_default(
    services: dict[str, Any], worker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in services[worker]["environment"].items():
        if value is not None:
            monkeypatch.setenv(name, value)
    settings = Settings()
    sizes = settings.least_model_bytes, settings.most_model_bytes
    assert (sizes, settings.mix_code, settings.traces) == ((0, None), False, False)


def test_models_are_shared_by_size_between_workers() -> None:
    given = {"SEATRIAL_MOST_MODEL_BYTES": "50000000", "SEATRIAL_LEAST_MODEL_BYTES": "50000001"}
    done = compose("--profile", "*", "config", "--format", "json", secrets={**SECRETS, **given})
    services = json.loads(done.stdout)["services"]
    of_cpu, of_gpu = (services[name]["environment"] for name in ("worker-cpu", "worker-gpu"))
    assert (of_cpu["SEATRIAL_MOST_MODEL_BYTES"], of_gpu["SEATRIAL_LEAST_MODEL_BYTES"]) == tuple(given.values())
    assert "SEATRIAL_LEAST_MODEL_BYTES" not in of_cpu
    assert "SEATRIAL_MOST_MODEL_BYTES" not in of_gpu


def test_logs_do_not_fill_the_disk(services: dict[str, Any]) -> None:
    for name, service in services.items():
        assert service["logging"] == {"driver": "json-file", "options": {"max-size": "20m", "max-file": "5"}}, name


@pytest.mark.parametrize(
    ("build", "missing", "asked"), [("cpu", "nothing", ["+cpu"]), ("cpu", "+cpu", ["+cpu", ""]), ("", "nothing", [""])]
)
def test_cpu_images_take_torch_without_cuda_where_it_is_offered(build: str, missing: str, asked: list[str]) -> None:
    step = re.search(r"^RUN (version=.*?)\n(?=\S)", (ROOT / "Dockerfile").read_text(), re.M | re.S)
    assert step is not None
    # A pip that says what it was asked for, and has not got everything.
    pip = f'pip() {{ for last; do :; done; echo "$last" >&2; case "$last" in *{missing}) return 1;; esac; }}'
    script = f"TORCH_BUILD={build}; TORCH_INDEX_URL=; {pip}\n{step[1]}"
    done = subprocess.run(["sh", "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    asked_of_pip = [line for line in done.stderr.splitlines() if line.startswith("torch==")]
    assert [line.partition("torch==")[2].lstrip("0123456789.") for line in asked_of_pip] == asked
    assert ("WARNING: no index offers torch" in done.stderr) == (len(asked) > 1)


def test_nothing_starts_before_the_migration(services: dict[str, Any]) -> None:
    for name in ("api", "scheduler", "worker-gpu", "worker-cpu"):
        assert services[name]["depends_on"]["migrate"]["condition"] == "service_completed_successfully", name


def test_the_second_gpu_of_the_comment_is_accepted(tmp_path: Path) -> None:
    lines = (ROOT / "docker-compose.yml").read_text().splitlines()
    first = next(n for n, line in enumerate(lines) if line == "  #   services:")
    example = [line.removeprefix("  #   ") for line in lines[first : first + 4]]
    override = tmp_path / "second-gpu.yml"
    override.write_text("\n".join(example).replace("file: docker-compose.yml", f"file: {ROOT / 'docker-compose.yml'}"))
    done = compose("--profile", "gpu", "config", "--format", "json", files=(override,))
    assert done.returncode == 0, done.stderr
    workers = {
        name: service["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"]
        for name, service in json.loads(done.stdout)["services"].items()
        if name.startswith("worker-gpu")
    }
    assert workers == {"worker-gpu": ["0"], "worker-gpu-1": ["1"]}


def test_hadolint_finds_nothing() -> None:
    done = subprocess.run(
        [SCRIPTS / "hadolint", "--config", ".hadolint.yaml", "Dockerfile"], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_images_run_as_nobody_in_particular() -> None:
    stages = (ROOT / "Dockerfile").read_text().split("\nFROM ")[1:]
    for name in ("worker", "api"):
        stage = next(text for text in stages if text.splitlines()[0].endswith(f"AS {name}"))
        assert "\nUSER 10001:10001\n" in stage
        assert "\nHEALTHCHECK " in stage
