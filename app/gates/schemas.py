"""Working examples of what an audit is judged by."""

from typing import Any

from app.policies.schemas import POLICY_EXAMPLES

JUDGEMENT_EXAMPLES: dict[str, Any] = {
    "By a shipped policy": {"policy": "standard"},
    "By a policy that is stored nowhere": {
        "policy": {"name": "draft", "rules": next(body["rules"][:1] for body in POLICY_EXAMPLES.values())}
    },
}
