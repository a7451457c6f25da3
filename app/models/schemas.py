"""Working examples of the bodies of the model routes."""

from typing import Any

MODEL_REFERENCE: dict[str, Any] = {
    "manifest": {
        "name": "mnist-cnn",
        "version": "3",
        "task": "image-classification",
        "architecture": {
            "kind": "layers",
            "layers": [["conv", 1, 16, 4, 2, 1], ["relu"], ["flatten"], ["linear", 3136, 10]],
        },
        "input": {"shape": [1, 28, 28], "mean": [0.0], "std": [1.0]},
        "labels": ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"],
    },
    "path": "/srv/models/mnist-cnn.safetensors",
}

ENDPOINT_REFERENCE: dict[str, Any] = {
    "manifest": {
        "name": "reviews",
        "version": "2026-11",
        "task": "text-classification",
        "architecture": {
            "kind": "endpoint",
            "url": "https://models.example.com/v1/classify",
            "headers": {"Authorization": "Bearer {{secret:MODELS}}"},
            "request": {"inputs": "{{texts}}", "parameters": {"top_k": None}},
            "scores": "$[*]",
            "batch_size": 32,
            "query_budget": 200000,
            "requests_per_second": 10,
        },
        "labels": ["NEGATIVE", "POSITIVE"],
    }
}

IMAGES_REFERENCE: dict[str, Any] = {
    "manifest": {
        "name": "digits-api",
        "version": "1",
        "task": "image-classification",
        "architecture": {
            "kind": "endpoint",
            "url": "https://models.example.com/v1/digits",
            "request": {"images": "{{images}}"},
            "scores": "$.predictions[*].scores",
            "image_format": "png",
            "query_budget": 2000000,
        },
        "input": {"shape": [1, 28, 28]},
        "labels": ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"],
    }
}

LANGUAGE_MODEL_REFERENCE: dict[str, Any] = {
    "manifest": {
        "name": "reviews-llm",
        "version": "1",
        "task": "text-classification",
        "architecture": {
            "kind": "chat",
            "url": "https://llm.example.com/v1/chat/completions",
            "headers": {"Authorization": "Bearer {{secret:LLM}}"},
            "model": "a-small-model",
            "template": "Is this review negative or positive? Answer with one word.\n\n{{text}}",
            "labels": {"negative": ["negative", "Negative"], "positive": ["positive", "Positive"]},
            "query_budget": 100000,
        },
    }
}

TAGGER_REFERENCE: dict[str, Any] = {
    "manifest": {
        "name": "tagger",
        "version": "5",
        "task": "token-classification",
        "architecture": {
            "kind": "endpoint",
            "url": "https://models.example.com/v1/tag",
            "request": {"sentences": {"$each": {"words": "{{tokens}}"}}},
            "scores": "$.sentences[*].tags",
            "outputs": "logits",
        },
        "labels": ["ADJ", "NOUN", "VERB", "X"],
    }
}
