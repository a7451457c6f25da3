import numpy as np
import pytest
import torch
from pydantic import ValidationError
from sklearn import metrics

from tests.families.uncertainty_span.audits import DATA, NETWORK, audit, measure, parameters

# Near the middle of the box this network is least certain: these look like outliers to it.
OUTLIERS = (
    0.5 + 0.12 * (torch.rand(20, 1, 4, 4, generator=torch.Generator().manual_seed(4)) - 0.5),
    torch.full((20,), 77),
)


@pytest.mark.parametrize("kind", ["ood", "open_set"])
def test_metrics_agree_with_sklearn_at_every_epsilon(kind) -> None:
    params = parameters(outliers={"dataset": "dat_1", "kind": kind, "epsilons": [0.05, 0.2]})
    result, done = audit(params, NETWORK, DATA, outliers=OUTLIERS)
    inliers = np.asarray(done["attack"]["entropy_clean"])
    areas = []
    for epsilon in ("0", "0.05", "0.2"):
        outliers = np.asarray(done["outliers"][f"entropy_{epsilon}"])
        labels, scores = np.repeat([0, 1], [40, 20]), np.concatenate([inliers, outliers])
        areas.append(result.estimates[f"auroc[epsilon={epsilon}]"].value)
        assert areas[-1] == pytest.approx(metrics.roc_auc_score(labels, scores))
        precision, recall, _ = metrics.precision_recall_curve(labels, scores)
        assert result.estimates[f"aupr_out[epsilon={epsilon}]"].value == pytest.approx(metrics.auc(recall, precision))
        assert result.estimates[f"outlier_entropy[epsilon={epsilon}]"].value == pytest.approx(outliers.mean())
        assert result.estimates[f"auroc[epsilon={epsilon}]"].n == 60
    # The attack makes outliers look certain, the more the larger the ball.
    assert areas[0] > 0.9
    assert areas[0] > areas[1] > areas[2]


def test_no_more_outliers_than_the_sample_is_large() -> None:
    many = (OUTLIERS[0].repeat(5, 1, 1, 1), OUTLIERS[1].repeat(5))
    done = measure(parameters(outliers={"dataset": "dat_1"}), NETWORK, DATA, outliers=many)
    assert done["outliers"].num_rows == 40


def test_the_ratio_of_the_paper_is_a_parameter_and_priced() -> None:
    # Ledda et al., sec. V-A: 8,000 examples to 800 outliers.
    params = parameters(outliers={"dataset": "dat_1", "inliers_per_outlier": 10})
    many = (OUTLIERS[0].repeat(5, 1, 1, 1), OUTLIERS[1].repeat(5))
    result, done = audit(params, NETWORK, DATA, outliers=many)
    assert (done["attack"].num_rows, done["outliers"].num_rows) == (40, 4)
    assert result.estimates["auroc[epsilon=0]"].n == 44
    one = parameters(outliers={"dataset": "dat_1"})
    without, tenth, whole = (each.passes(8000, {"outliers/dataset": 9000}) for each in (parameters(), params, one))
    assert 10 * (tenth.backward - without.backward) == whole.backward - without.backward
    assert (tenth.forward - without.forward, whole.forward - without.forward) == (2 * 800, 2 * 8000)
    with pytest.raises(ValidationError):
        parameters(outliers={"dataset": "dat_1", "inliers_per_outlier": 0.5})
