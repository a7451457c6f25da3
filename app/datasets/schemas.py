"""Working examples of the bodies of the dataset routes."""

from typing import Any

DATASET_REFERENCE: dict[str, Any] = {
    "manifest": {"name": "mnist-test", "version": "1", "task": "image-classification", "split": "test"},
    "path": "/srv/data/mnist-test.npz",
}

TEXTS_REFERENCE: dict[str, Any] = {
    "manifest": {
        "name": "reviews",
        "version": "1",
        "task": "text-classification",
        "split": "test",
        "columns": {"text": "review", "label": "sentiment"},
        "labels": ["negative", "positive"],
    },
    "path": "/srv/data/reviews.csv",
}
