"""Whether word importances as served and calibrated are the same (appendix E.7)."""

from collections.abc import Sequence

from seatrial.families.temperature_attack.params import AS_SERVED
from workers.attacks.text.importance import Agreement, Example, How, agreement, word_importances
from workers.attacks.text.scoring import ScoringService
from workers.families.contexts import TextContext, TextExample
from workers.families.temperature_attack.arms import Arms

IMPORTANCE: dict[str, How] = {"pwws": "saliency", "textfooler": "deletion"}
"""How a recipe ranks the words of a text before it changes the first (appendix E.7)."""


def importance_correlations(
    arms: Arms, how: How, service: ScoringService, context: TextContext, examples: Sequence[TextExample]
) -> list[Agreement]:
    """Return per text Spearman's correlation of word importances as served and calibrated."""
    views = [arms[arm].scaling.probabilities for arm in (AS_SERVED, "calibrated")]
    weighed = [Example(example.text, example.label, service.seen(example.text)) for example in examples]
    importances = word_importances(service, views, weighed, how, check_cancelled=context.check_cancelled)
    return [Agreement(float("nan")) if pair is None else agreement(pair[0], pair[1]) for pair in importances]
