"""What axe-core finds on a page that keeps people from using it (WCAG 2.1 and best practices)."""

from importlib.resources import files
from typing import Any

from tests.console.driving import Tab

# Its answer is kept in the page: a promise nobody holds is collected before it is kept.
RUN = """window.axed = null;
axe.run().then(told => { window.axed = told.violations.map(one =>
  ({impact: one.impact, id: one.id, help: one.help, nodes: one.nodes.slice(0, 6).map(node => node.html)})); });
1"""


def violations(tab: Tab) -> list[dict[str, Any]]:
    """Return what axe-core finds on the page a tab shows."""
    tab.value(files("axe_core_python").joinpath("axe.min.js").read_text(encoding="utf-8") + "; 1")
    tab.value(RUN)
    tab.wait("window.axed")
    found: list[dict[str, Any]] = tab.value("window.axed")
    return found
