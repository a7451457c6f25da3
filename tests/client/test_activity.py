"""The audit log from a shell."""

import httpx
from click.testing import CliRunner

from app.cli import main
from tests.client.conftest import Server


def test_the_log_is_printed_newest_first_and_by_action(server: Server) -> None:
    with httpx.Client(base_url=server.url) as client:
        for name in ("one", "two"):
            client.post("/v1/keys", json={"name": name, "scope": "read", "project": "speech"})

    def run(*options: str) -> list[str]:
        result = CliRunner().invoke(main, ["activity", "--server", server.url, "--project", "speech", *options])
        assert result.exit_code == 0, result.output
        return result.output.splitlines()

    first, second = run()
    assert "  operator  key.created  key_" in first
    assert '"name": "two"' in first
    assert '"name": "one"' in second
    assert run("--limit", "1") == [first]
    assert run("--action", "audit.deleted") == []
    assert run("--subject", second.split("  ")[3]) == [second]
