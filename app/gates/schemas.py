"""Working examples of what an audit is judged by."""

from typing import Any

JUDGEMENT_EXAMPLES: dict[str, Any] = {
    "By a shipped policy": {"policy": "standard"},
    "By a policy that is stored nowhere": {
        "policy": {"name": "draft", "rules": [{"metric": "uncertainty_span.mus_worst", "max": 0.4}]}
    },
}
