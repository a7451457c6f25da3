"""Working examples of the bodies of the routes of policies, which are the families', and of baselines."""

from typing import Any

from seatrial.contracts.registry import families

POLICY_EXAMPLES: dict[str, Any] = {
    asks: body for spec in families().values() for asks, body in spec.policy_examples.items()
}

BASELINE_EXAMPLES: dict[str, Any] = {
    "The model that runs today": {
        "audit": "aud_0199f0c4e0c27b6c8a3e5d1f9b7a2c15",
        "name": "champion",
        "note": "Deployed on 21 November.",
    }
}
