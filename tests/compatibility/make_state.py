"""Makes a home folder, and what was exported from it, for later versions to be tried on.

``python -m tests.compatibility.make_state NAME`` writes ``NAME.tar.xz`` beside this file, by the code it is run with
and over its own HTTP interface: a database at the present migration head with its artifacts, and in ``exports/`` what
the service answered then. Run it at the commit whose state is to be kept, and add a line to README.md.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import torch
from safetensors.torch import save as save_safetensors
from torch import nn
from transformers import BertConfig, BertForSequenceClassification

from app.cli.embedded import embedded
from tests import assets, texts
from tests.compatibility.asked import AUDITS, IN_PIECES, PARAMS, POLICY, UNFINISHED
from tests.servers import eventually, local_worker
from workers.processors import processor

FOLDER = Path(__file__).parent
LAYERS: list[list[Any]] = [["conv", 1, 4, 3, 2, 1], ["batch_norm", 4], ["relu"], ["flatten"], ["linear", 64, 10]]
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "SEATRIAL_LOG_LEVEL": "warning",
    "SEATRIAL_POLL_S": "0.05",
    "SEATRIAL_REQUIRE_KEYS": "false",
    "SEATRIAL_TORCH_THREADS": "1",
}


def image_weights(seed: int) -> bytes:
    """Return a network of ``LAYERS`` trained on digits for a moment, as safetensors."""
    images, labels = assets.digits()
    inputs, targets = torch.tensor(images[:1000]).float() / 255, torch.tensor(labels[:1000])
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 10))
    _train(network, lambda at: nn.functional.cross_entropy(network(inputs[at]), targets[at]), len(inputs), epochs=15)
    return save_safetensors(network.state_dict())


def text_archive(folder: Path) -> bytes:
    """Return a one-layer BERT trained on made-up reviews for a moment, as a zip of its folder."""
    torch.manual_seed(0)
    tokenizer = texts.review_tokenizer()
    config = BertConfig(
        vocab_size=len(texts.vocabulary()),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        id2label=dict(enumerate(texts.LABELS)),
        label2id={label: number for number, label in enumerate(texts.LABELS)},
    )
    model = BertForSequenceClassification(config)
    reviews, labels = zip(*texts.sentences(600, seed=1), strict=True)
    encoded, targets = tokenizer(list(reviews), padding=True, return_tensors="pt"), torch.tensor(labels)

    def loss(at: torch.Tensor) -> torch.Tensor:
        logits = model(**{name: tensor[at] for name, tensor in encoded.items()}).logits
        return nn.functional.cross_entropy(logits, targets[at])

    _train(model, loss, len(labels), epochs=12)
    return texts.zip_folder(texts.save(folder, model))


def _train(module: nn.Module, loss: Any, count: int, *, epochs: int) -> None:
    optimizer = torch.optim.Adam(module.parameters(), lr=5e-3)
    module.train()
    for _ in range(epochs):
        for at in torch.randperm(count).split(50):
            optimizer.zero_grad()
            loss(at).backward()
            optimizer.step()
    module.eval()


class Maker:
    """Writes one state, in two sittings of the service."""

    def __init__(self, home: Path, exports: Path, http: httpx.Client) -> None:
        self.home, self.exports, self.http = home, exports, http
        self.inputs: dict[str, tuple[str, str]] = {}
        self.named: dict[str, str] = {}

    def ask(self, method: str, path: str, **more: Any) -> Any:
        """Return the answer to a request that must succeed."""
        answer = self.http.request(method, path, **more)
        if not answer.is_success:
            raise SystemExit(f"{method} {path}: {answer.text}")
        return answer.json()

    def upload(self) -> None:
        """Upload two image models, a text model, and what they are audited on."""
        image = {**assets.model_manifest(), "architecture": {"kind": "layers", "layers": LAYERS}}
        models = {
            "images": (image, image_weights(0)),
            "other": ({**image, "version": "2"}, image_weights(1)),
            "reviews": (texts.model_manifest(), text_archive(self.home.parent / "bert")),
        }
        rows = texts.jsonl(self.home.parent / "reviews.jsonl", texts.sentences(40, seed=5))
        datasets = {
            "images": (assets.dataset_manifest(), assets.npz(30)),
            "outliers": (assets.dataset_manifest("outliers"), assets.npz(40, first=0)),
            "reviews": (texts.dataset_manifest(), rows.read_bytes()),
        }
        for kind, uploads in (("models", models), ("datasets", datasets)):
            for name, (manifest, data) in uploads.items():
                made = self.ask("POST", f"/v1/{kind}", **assets.multipart(manifest, "upload", data))
                self.named[f"{kind}.{name}"] = made["id"]
        self.inputs = {
            name: (self.named[f"models.{name}"], self.named[f"datasets.{name}"]) for name in ("images", "reviews")
        }

    def submit(self, of: str, check: dict[str, Any], **more: Any) -> str:
        """Submit an audit and return its id."""
        model, dataset = self.inputs[of]
        body = {"model": model, "dataset": dataset, "seed": 7, "samples": 16, "shards": 2, "checks": [check], **more}
        return str(self.ask("POST", "/v1/audits", json=body)["id"])

    def audit_everything(self, worker_log: Path) -> None:
        """Run what is to have ended, promote and judge it, and cancel what is to have been asked only."""
        self.ask("POST", "/v1/policies", json=POLICY)
        for name, (of, check) in AUDITS.items():
            self.named[name] = self.submit(of, check, policy="standard" if name == "span" else "house")
        two = [AUDITS[name][1] for name in ("span", "certificates")]
        body = {"model": self.inputs["images"][0], "dataset": self.inputs["images"][1], "samples": 12, "checks": two}
        self.named["two checks"] = str(self.ask("POST", "/v1/audits", json=body)["id"])
        # Word substitution takes WordNet, which is not there.
        self.named["failed"] = self.submit(
            "reviews",
            {"kind": "temperature_attack", "recipes": ["pwws"], "arms": ["calibrated"], "validation_samples": 16},
            samples=4,
        )
        # Batches of two give six shards that take a moment each.
        self.named["undisturbed"] = self.submit("images", UNFINISHED, **IN_PIECES)
        worker = local_worker({**ENVIRONMENT, "SEATRIAL_HOME": str(self.home)}, worker_log)
        try:
            self.wait(*(name for name in (*AUDITS, "two checks", "failed", "undisturbed")))
            self.ask("POST", "/v1/baselines", json={"audit": self.named["span"], "name": "champion"})
        finally:
            worker.stop()
        ids = {"$outliers": self.named["datasets.outliers"], "$other": self.named["models.other"]}
        for of, check in PARAMS:
            audit = self.submit(of, _with_ids(check, ids), policy="lenient")
            self.ask("POST", f"/v1/audits/{audit}/cancel")
            self.named[f"asked.{check['kind']}"] = audit

    def wait(self, *names: str) -> None:
        """Wait until audits have ended, and been judged where they have a policy."""

        def has_ended(name: str) -> bool:
            audit = self.ask("GET", f"/v1/audits/{self.named[name]}")
            is_judged = audit["verdict"] is not None or not audit["spec"]["policy"]
            return audit["state"] in ("succeeded", "failed") and is_judged

        for name in names:
            eventually(lambda name=name: has_ended(name), timeout_s=600, what=name)

    def interrupt(self, worker_log: Path) -> None:
        """Kill a worker in the middle of an audit that another one has already shown the end of."""
        self.named["interrupted"] = self.submit("images", {**UNFINISHED, "bins": 14}, **IN_PIECES)
        self.named["queued"] = self.submit("images", {**AUDITS["span"][1], "steps": 2})
        worker = local_worker({**ENVIRONMENT, "SEATRIAL_HOME": str(self.home)}, worker_log)
        eventually(lambda: self._is_half_done(self.named["interrupted"]), timeout_s=120, every_s=0.01)
        worker.signal(signal.SIGKILL)
        worker.wait()

    def _is_half_done(self, audit: str) -> bool:
        query = (
            "SELECT shards.state FROM shards JOIN checks ON checks.id = shards.check_id"
            " WHERE checks.audit_id = ? AND shards.stage = 'attack'"
        )
        with closing(sqlite3.connect(self.home / "seatrial.db", timeout=30)) as database:
            states = [state for (state,) in database.execute(query, (audit,))]
        return "succeeded" in states and "running" in states

    def export(self) -> None:
        """Write down what the service answers now."""
        ended = [name for name in self.named if "." not in name]
        audits = {name: self.ask("GET", f"/v1/audits/{self.named[name]}") for name in (*ended, *_asked(self.named))}
        key = self.ask("POST", "/v1/keys", json={"name": "ci", "scope": "read"})
        answers = {
            "commit": _git("rev-parse", "HEAD"),
            "arithmetic": arithmetic(),
            "key": key["secret"],
            "named": self.named,
            "models": self.ask("GET", "/v1/models")["items"],
            "datasets": self.ask("GET", "/v1/datasets")["items"],
            "policies": self.ask("GET", "/v1/policies")["items"],
            "baselines": self.ask("GET", "/v1/baselines")["items"],
            "audits": audits,
            "judged": {},
            "costs": {},
        }
        for name, audit in audits.items():
            if audit["state"] == "succeeded":
                answers["judged"][name] = [
                    self.ask("POST", f"/v1/audits/{audit['id']}/judge", json={"policy": policy, "baseline": baseline})
                    for policy, baseline in (
                        ("lenient", None),
                        ("strict", None),
                        ("house", self.named["span"] if name == "two checks" else None),
                    )
                ]
                self._export_records(name, audit)
            wanted = ("model", "dataset", "checks", "seed", "samples", "batch_size", "shards", "max_error_rate")
            body = {field: audit["spec"][field] for field in wanted}
            costs = self.ask("POST", "/v1/audits/estimate", json=body)
            answers["costs"][name] = {
                field: value for field, value in costs.items() if field not in ("seconds", "checks")
            }
        bundle = self.http.get(f"/v1/audits/{self.named['span']}/bundle", params={"inputs": "true"})
        (self.exports / "bundle.zip").write_bytes(bundle.raise_for_status().content)
        (self.exports / "answers.json").write_text(json.dumps(answers, indent=1, sort_keys=True))

    def _export_records(self, name: str, audit: dict[str, Any]) -> None:
        for number, check in enumerate(audit["checks"]):
            for stage in check["stages"]:
                for form in ("jsonl", "parquet"):
                    path = f"/v1/audits/{audit['id']}/records/{number}"
                    answer = self.http.get(path, params={"stage": stage, "format": form}).raise_for_status()
                    file = self.exports / "records" / name / str(number) / f"{stage}.{form}"
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(answer.content)


def arithmetic() -> dict[str, str]:
    """Return what the last digits of a number follow from."""
    return {"torch": torch.__version__, "cpu": processor()}


def _with_ids(value: Any, ids: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _with_ids(inner, ids) for name, inner in value.items()}
    return ids.get(value, value) if isinstance(value, str) else value


def _asked(named: dict[str, str]) -> Iterator[str]:
    return (name for name in named if name.startswith("asked."))


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True, cwd=FOLDER).stdout.strip()


@contextmanager
def serving(home: Path) -> Iterator[httpx.Client]:
    """Run the API on a home, without workers."""
    with ExitStack() as stack:
        url = stack.enter_context(embedded(home, workers=0, say=print))
        # Answers to uploads do not wait for the check of a model, which is a worker's.
        yield stack.enter_context(httpx.Client(base_url=url, timeout=120, trust_env=False))


def forget_the_machine(home: Path) -> None:
    """Take out of the database the names of the machine and processes that made it, and what is no longer needed."""
    with closing(sqlite3.connect(home / "seatrial.db")) as database:
        database.execute("DELETE FROM workers")
        for table in ("checks", "shards", "models"):
            database.execute(f"UPDATE {table} SET worker = 'worker:1' WHERE worker IS NOT NULL")
        database.commit()
        database.execute("PRAGMA journal_mode = DELETE")
        database.execute("VACUUM")


def main(name: str) -> None:
    """Write ``<name>.tar.xz``."""
    os.environ.update(ENVIRONMENT)
    with TemporaryDirectory() as folder:
        home, exports = Path(folder, "home"), Path(folder, "exports")
        exports.mkdir()
        # No language resources, and no name of a folder of this machine in what is said of their lack.
        os.environ["SEATRIAL_RESOURCES"] = "/nonexistent"
        with serving(home) as http:
            maker = Maker(home, exports, http)
            maker.upload()
            maker.audit_everything(Path(folder, "worker.log"))
        forget_the_machine(home)
        with serving(home) as http:
            maker.http = http
            maker.export()
            maker.interrupt(Path(folder, "worker.log"))
            answers = json.loads((exports / "answers.json").read_text())
            (exports / "answers.json").write_text(
                json.dumps({**answers, "named": maker.named}, indent=1, sort_keys=True)
            )
        forget_the_machine(home)
        with tarfile.open(FOLDER / f"{name}.tar.xz", "w:xz", preset=9) as archive:
            for path in (home / "seatrial.db", home / "artifacts", exports):
                archive.add(path, path.relative_to(folder).as_posix(), filter=_anonymous)
    print(f"{name}.tar.xz: {(FOLDER / f'{name}.tar.xz').stat().st_size:,} bytes")


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


if __name__ == "__main__":
    main(sys.argv[1])
