"""Train the classifier and leave what the gate takes: ``model/`` and ``data/test.npz``."""

import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from torch import nn

from app.network import MANIFEST, build

SEEN = 1200
EPOCHS = 15


def main() -> None:
    """Train for a few seconds on scikit-learn's digits, and write weights, manifest and the digits not trained on."""
    digits = load_digits()
    pixels = (digits.images * 255 / 16).round().astype(np.uint8)[:, None]
    order = np.random.default_rng(0).permutation(len(pixels))
    seen, held_out = order[:SEEN], order[SEEN:]
    images, labels = torch.tensor(pixels[seen]).float() / 255, torch.tensor(digits.target[seen]).long()

    torch.manual_seed(0)
    network = build()
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(EPOCHS):
        for batch in torch.randperm(SEEN).split(100):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(images[batch]), labels[batch]).backward()
            optimizer.step()

    for folder in ("model", "data"):
        Path(folder).mkdir(exist_ok=True)
    save_file(network.state_dict(), "model/weights.safetensors")
    Path("model/manifest.json").write_text(json.dumps(MANIFEST, indent=2))
    np.savez("data/test.npz", images=pixels[held_out], labels=digits.target[held_out])


if __name__ == "__main__":
    main()
