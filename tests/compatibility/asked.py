"""What is asked of the service whose state is kept: checks of every family, and a policy."""

from typing import Any

SMALL = {"network": "small", "epochs": 1}
POLICY = {
    "name": "house",
    "correction": "holm",
    "rules": [
        {"metric": "uncertainty_span.clean_accuracy", "min": 0.5, "required": False},
        {"metric": "uncertainty_span.mus_worst", "max": 0.05, "required": False},
        {"metric": "uncertainty_span.clean_accuracy", "max_regression": 0.1, "required": False},
        {"metric": "certified_calibration.cce[radius=0.1]", "max": 0.9, "severity": "warn", "required": False},
        {
            "metric": "temperature_attack.adversarial_accuracy[arm=as_served,recipe=deepwordbug]",
            "min": 0.01,
            "required": False,
        },
        {"metric": "low_level_attack.worst_case_score[level=0.5]", "min": 0.2, "required": False},
        {"metric": "transductive_attack.static_accuracy", "min": 0.2, "required": False},
    ],
}

AUDITS: dict[str, tuple[str, dict[str, Any]]] = {
    "span": (
        "images",
        {"kind": "uncertainty_span", "epsilon": 0.1, "steps": 3, "random_start": True, "attacks": ["ace_raise_true"]},
    ),
    "certificates": ("images", {"kind": "certified_calibration", "n": 200, "radii": [0.0, 0.1, 0.2]}),
    "defences": (
        "images",
        {
            "kind": "transductive_attack",
            "defences": [{"name": "identity"}, {"name": "dent", "changes": {"batch_size": 8, "steps": 2}}],
            "attacks": ["transfer_pgd", "fpa"],
            "epsilon": 0.1,
            "step_size": 0.05,
            "steps": 2,
            "iterations": 1,
        },
    ),
    "temperature": (
        "reviews",
        {
            "kind": "temperature_attack",
            "arms": ["calibrated"],
            "validation_samples": 16,
            "query_budget": 40,
            "design_temperature": 0.1,
        },
    ),
    "noise": ("reviews", {"kind": "low_level_attack", "attackers": ["visual", "keyboard_typo"], "levels": [0.5]}),
}
"""Audits that ran, by name: what of, and the check."""

PARAMS: list[tuple[str, dict[str, Any]]] = [
    (
        "images",
        {
            "kind": "uncertainty_span",
            "norm": "l2",
            "epsilon": 0.5,
            "selection": "final_or_clean",
            "outliers": {"dataset": "$outliers", "kind": "open_set", "epsilons": [0, 0.25]},
            "transfer_model": "$other",
            "robust_accuracy": {"steps": 20, "queries": 100},
        },
    ),
    (
        "images",
        {
            "kind": "certified_calibration",
            "sampling": "adaptive",
            "noise": "independent",
            "confidence_bound": "standard",
            "joint": True,
            "solvers": ["exact", "admm", "dece", "brier"],
            "ace_attacks": ["ace_lower_true", "ace_raise_predicted"],
            "robust_accuracy": {"version": "rand"},
        },
    ),
    (
        "images",
        {
            "kind": "transductive_attack",
            "defences": [
                {"name": "tent", "preset": "cifar10"},
                {"name": "rmc", "changes": {"neighbours": 40, "variant": "paper"}},
                {"name": "dann", "changes": SMALL},
                {"name": "tadv", "changes": SMALL},
                {"name": "urejectron", "changes": {"threshold": 0.4}},
                {"name": "of_an_operator", "changes": {"anything": 3}},
            ],
            "attacks": ["transfer_autoattack", "defence_autoattack", "gmsa_avg", "gmsa_min"],
            "order": "adversarial",
            "state": "leaking",
            "repeats": 2,
            "training_dataset": "$outliers",
        },
    ),
    (
        "reviews",
        {
            "kind": "temperature_attack",
            "recipes": ["pwws", "textfooler", "bae", "textbugger", "pruthi", "input_reduction", "iga"],
            "arms": ["calibrated", "calibrated_paper", "optimized", "platt_vector", "platt_matrix"],
            "validation_samples": 20,
            "temperature_search": "paper_bracket",
            "time_budget_s": None,
        },
    ),
    (
        "reviews",
        {
            "kind": "low_level_attack",
            "attackers": "all",
            "combined": True,
            "variant": "paper",
            "selection": "code",
            "phi": 0.3,
            "typos": "nlpaug",
            "glyphs": "confusables",
            "draws": 3,
        },
    ),
]
"""What was asked in further audits, which were cancelled before they began."""

UNFINISHED: dict[str, Any] = {"kind": "uncertainty_span", "epsilon": 0.1, "steps": 60, "random_start": True}
IN_PIECES: dict[str, Any] = {"samples": 12, "batch_size": 2, "shards": 6}
