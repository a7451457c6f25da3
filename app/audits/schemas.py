"""Working examples of the bodies of the audit routes."""

from typing import Any

_MODEL = "mdl_0199f0c4e0c27b6c8a3e5d1f9b7a2c11"
_DATASET = "dat_0199f0c4e0c27b6c8a3e5d1f9b7a2c12"
_TEXT_MODEL = "mdl_0199f0c4e0c27b6c8a3e5d1f9b7a2c13"
_TEXTS = "dat_0199f0c4e0c27b6c8a3e5d1f9b7a2c14"

AUDIT_EXAMPLES: dict[str, Any] = {
    "How far can an attacker push the uncertainty?": {
        "model": _MODEL,
        "dataset": _DATASET,
        "seed": 0,
        "samples": 500,
        "checks": [{"kind": "uncertainty_span", "norm": "linf", "epsilon": 0.1, "steps": 50}],
    },
    "May this model ship? Judged by a shipped policy when it ends": {
        "model": _MODEL,
        "dataset": _DATASET,
        "checks": [{"kind": "uncertainty_span", "norm": "linf", "epsilon": 0.03}],
        "policy": "standard",
        "baseline": "champion",
    },
    "Two radii, two norms, calibration attacks": {
        "model": _MODEL,
        "dataset": _DATASET,
        "samples": 1000,
        "checks": [
            {"kind": "uncertainty_span", "norm": "linf", "epsilon": 0.03, "attacks": ["ace", "max_miscalibration"]},
            {"kind": "uncertainty_span", "norm": "l2", "epsilon": 1, "steps": 40, "random_start": True, "restarts": 2},
        ],
    },
    "Is the robustness of a text classifier an illusion of its temperature?": {
        "model": _TEXT_MODEL,
        "dataset": _TEXTS,
        "samples": 300,
        "checks": [
            {
                "kind": "temperature_attack",
                "recipes": ["deepwordbug", "pruthi"],
                "arms": ["calibrated", "optimized"],
                "validation_samples": 200,
                "query_budget": 1000,
            }
        ],
    },
    "How much spam and typing errors does a text model stand?": {
        "model": _TEXT_MODEL,
        "dataset": _TEXTS,
        "samples": 300,
        "checks": [
            {
                "kind": "low_level_attack",
                "attackers": ["visual", "intrude", "keyboard_typo", "segment"],
                "levels": [0.2, 0.5],
                "draws": 3,
            }
        ],
        "policy": "standard",
    },
}
