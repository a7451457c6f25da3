"""Working examples of the bodies of the routes of policies and baselines."""

from typing import Any

POLICY_EXAMPLES: dict[str, Any] = {
    "What must hold before a release": {
        "name": "release",
        "description": "Agreed with the product team.",
        "rules": [
            {"metric": "uncertainty_span.clean_accuracy", "min": 0.9, "label": "Accuracy"},
            {"metric": "uncertainty_span.mus_worst", "max": 0.5, "undecided": "fail"},
            {"metric": "uncertainty_span.s_ece[arm=over]", "max": 0.1, "severity": "warn"},
        ],
        "correction": "holm",
    },
    "What spam and tired thumbs may do": {
        "name": "noise",
        "rules": [
            {"metric": "low_level_attack.worst_case_score[level=0.2]", "min": 0.6},
            {"metric": "low_level_attack.relative_score[attacker=*,level=0.5]", "min": 0.7, "severity": "warn"},
        ],
    },
    "No worse than what runs today": {
        "name": "no-regression",
        "rules": [
            {"metric": "temperature_attack.illusion_gap[recipe=*]", "max": 0.05},
            {"metric": "temperature_attack.clean_accuracy", "max_regression": 0.01, "required": False},
        ],
        "baseline": "champion",
    },
}

BASELINE_EXAMPLES: dict[str, Any] = {
    "The model that runs today": {
        "audit": "aud_0199f0c4e0c27b6c8a3e5d1f9b7a2c15",
        "name": "champion",
        "note": "Deployed on 21 November.",
    }
}
