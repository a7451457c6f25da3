"""The release of images: its workflow, and its script against programs that write down what they are asked."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.packaging.pages import ROOT
from tests.packaging.test_automation import workflow

DIGESTS = {"api": "sha256:" + "a1" * 32, "worker": "sha256:" + "b2" * 32}
VERSION = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1]  # type: ignore[index]

DOCKER = """#!/usr/bin/env bash
echo "docker $*" >>"$LOG"
case "$*" in
  *"--target api"*) digest=@API@ ;;
  *"--target worker"*) digest=@WORKER@ ;;
  *"imagetools inspect"*) [ -n "$NO_SBOM" ] && echo null || echo '{"spdxVersion": "SPDX-2.3"}'; exit 0 ;;
esac
while [ $# -gt 0 ]; do
  if [ "$1" = --metadata-file ] && [ -z "$NO_DIGEST" ]; then
    printf '{\\n  "containerimage.digest": "%s"\\n}\\n' "$digest" >"$2"
  elif [ "$1" = --metadata-file ]; then
    echo '{}' >"$2"
  fi
  shift
done
"""
COSIGN = """#!/usr/bin/env bash
echo "cosign $*" >>"$LOG"
[ "$1" = "$FAILING" ] && exit 1
[ "$1" = public-key ] && echo "a public key"
exit 0
"""
GH = '#!/usr/bin/env bash\necho "gh $*" >>"$LOG"\n'


class Release:
    """A copy of what the script reads, and programs in the place of docker, cosign and gh."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        programs = {
            "docker": DOCKER.replace("@API@", DIGESTS["api"]).replace("@WORKER@", DIGESTS["worker"]),
            "cosign": COSIGN,
            "gh": GH,
        }
        (folder / "bin").mkdir()
        (folder / "scripts").mkdir()
        for name, text in programs.items():
            (folder / "bin" / name).write_text(text)
            (folder / "bin" / name).chmod(0o755)
        (folder / "scripts" / "release").write_text((ROOT / "scripts" / "release").read_text())
        (folder / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())

    def run(self, **environment: str) -> tuple[int, list[str], str]:
        """Run it; return its status, what was asked of the programs, and what it said."""
        log = self.folder / "log"
        log.write_text("")
        given = {"SEATRIAL_REGISTRY": "registry.example/me", "SEATRIAL_RELEASE": f"v{VERSION}"}
        given |= {"COSIGN_PRIVATE_KEY": "a private key", "NO_SBOM": "", "NO_DIGEST": "", "FAILING": ""}
        done = subprocess.run(
            ["bash", str(self.folder / "scripts" / "release")],
            env={"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "LOG": str(log), **given, **environment},
            capture_output=True,
            text=True,
        )
        return done.returncode, log.read_text().splitlines(), done.stderr + done.stdout


@pytest.fixture
def release(tmp_path: Path) -> Release:
    return Release(tmp_path)


def test_what_was_pushed_is_signed_by_digest_with_its_bill_of_materials_and_checked(release: Release) -> None:
    status, asked, said = release.run(GH_TOKEN="a token")
    assert status == 0, said
    for target, digest in DIGESTS.items():
        pushed = f"registry.example/me/seatrial-{target}@{digest}"
        built = next(i for i, line in enumerate(asked) if f"--target {target}" in line)
        assert "--push" in asked[built]
        assert "--sbom=true" in asked[built]
        later = [line for line in asked[built + 1 :] if pushed in line]
        assert [line.split()[1] for line in later] == ["buildx", "sign", "attest", "verify", "verify-attestation"]
        assert "--key env://COSIGN_PRIVATE_KEY" in later[1]
        assert "--type spdxjson --predicate" in later[2]
        assert all("--key dist/release/cosign.pub" in line for line in later[3:])
    assert "a private key" not in "\n".join(asked)
    assert asked[-1].startswith(f"gh release create v{VERSION} --verify-tag")
    files = {path.name for path in (release.folder / "dist" / "release").iterdir()}
    assert files == {"cosign.pub", "images.txt", "api.spdx.json", "worker.spdx.json"}


@pytest.mark.parametrize(
    ("environment", "reason", "forbidden"),
    [
        ({"SEATRIAL_RELEASE": "v99.0.0"}, "is not v", "docker"),
        ({"SEATRIAL_RELEASE": ""}, "name the release", "docker"),
        ({"COSIGN_PRIVATE_KEY": ""}, "give the key that signs", "docker"),
        ({"FAILING": "public-key"}, "", "docker"),
        ({"NO_DIGEST": "1"}, "told no digest", "cosign sign"),
        ({"NO_SBOM": "1"}, "carries no bill of materials", "cosign sign"),
        ({"FAILING": "sign"}, "", "cosign attest"),
        ({"FAILING": "verify"}, "", "gh"),
        ({"FAILING": "verify-attestation"}, "", "gh"),
    ],
)
def test_what_is_not_whole_is_not_released(
    release: Release, environment: dict[str, str], reason: str, forbidden: str
) -> None:
    status, asked, said = release.run(GH_TOKEN="a token", **environment)
    assert status != 0
    assert reason in said
    assert not [line for line in asked if line.startswith(forbidden)]


def test_only_a_tag_releases_and_only_after_the_tests() -> None:
    read = workflow("release.yml")
    assert read["on"] == {"push": {"tags": ["v*"]}}
    images = read["jobs"]["images"]
    assert images["needs"] == "test"
    assert images["environment"] == "release"
    assert images["permissions"] == {"contents": "write", "packages": "write"}


def test_secrets_are_given_to_the_step_that_needs_them_alone() -> None:
    read = workflow("release.yml")
    signing = [step for job in read["jobs"].values() for step in job["steps"] if "COSIGN_PRIVATE_KEY" in str(step)]
    assert [step["run"] for step in signing] == ["make release"]
    assert "secrets." not in str({name: value for name, value in read.items() if name != "jobs"})
    assert "secrets." not in str(read["jobs"]["test"])
