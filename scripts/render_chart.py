"""Render the Helm chart without a cluster, validate what comes of it, and write deploy/kubernetes/.

Needs what no extra brings (best its own environment): ``pip install helm-python-sdk==0.2.2 kubernetes-validate==1.37``.
Run it when the chart has changed; the tests read what it wrote, and compare the digest of the chart in it.

    python scripts/render_chart.py

KEDA's own kinds have no schema in these wheels; ``@kubernetes-models/keda`` of npm has, and its classes ``validate()``.
"""

import hashlib
from pathlib import Path
from typing import Any

import helm_python
import kubernetes_validate
import yaml

ROOT = Path(__file__).resolve().parents[1]
CHART = ROOT / "deploy" / "helm" / "seatrial"
OUT = ROOT / "deploy" / "kubernetes"
VERSION = "1.33"

VARIANTS: dict[str, dict[str, Any]] = {
    "workers.yaml": {},
    "keda.yaml": {
        "workers": {"cpu": {"replicas": 0}, "gpu": {"replicas": 0}},
        "keda": {"enabled": True},
        "kueueQueue": "seatrial",
    },
}
"""What is written. A bucket, pull secrets and the like are rendered and validated as well."""

FURTHER = {
    "artifactsUrl": "s3://bucket/prefix",
    "images": {"pullSecrets": [{"name": "registry"}]},
    "workers": {
        "cpu": {"environment": {"SEATRIAL_MOST_MODEL_BYTES": "100000000"}},
        "gpu": {
            "replicas": 2,
            "nodeSelector": {"gpu": "h100"},
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "image": "registry.example/seatrial-worker:gpu",
        },
    },
    "networkPolicy": {
        "enabled": True,
        "apiFrom": [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}],
        "backendTo": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
        "egress": [{"ports": [{"protocol": "TCP", "port": 443}]}],
    },
}


def digest_of_chart() -> str:
    """Return the digest of the chart's files."""
    digest = hashlib.sha256()
    for path in sorted(path for path in CHART.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(CHART).as_posix()}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def render(values: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the manifests by template, as ``helm template seatrial`` would print them."""
    chart = helm_python.Chart.load(str(CHART))
    rendered = chart.render(values, name="seatrial", is_install=True)
    return [(name, text.strip()) for name, text in sorted(rendered.items()) if text.strip()]


def check(text: str) -> list[str]:
    """Validate manifests by their schemas and return what was validated.

    Raises:
        ValidationError: One does not fit, of kubernetes-validate.
    """
    done = []
    for manifest in filter(None, yaml.safe_load_all(text)):
        kind = manifest["kind"]
        if manifest["apiVersion"].startswith("keda.sh/"):
            done.append(f"{kind}: no schema here")
            continue
        kubernetes_validate.validate(manifest, VERSION, strict=True)
        done.append(f"{kind} {manifest['metadata']['name']}")
    return done


def main() -> None:
    """Render, validate and write."""
    print(helm_python.lint(str(CHART)))
    OUT.mkdir(parents=True, exist_ok=True)
    for name, values in VARIANTS.items():
        parts = render(values)
        text = "\n---\n".join(part for _, part in parts)
        print(name, check(text))
        head = f"# From deploy/helm/seatrial by scripts/render_chart.py; sha256 of the chart: {digest_of_chart()}"
        (OUT / name).write_text(f"{head}\n---\n{text}\n")
    print("further values", check("\n---\n".join(part for _, part in render(FURTHER))))


if __name__ == "__main__":
    main()
