"""Which noise harms most: audits of real models over HTTP, their ranking beside the paper's.

    seatrial serve --port 8000 &
    python -m benchmarks.noise_ranking http://127.0.0.1:8000 --model FOLDER --data REVIEWS.jsonl --task TC
    python -m benchmarks.noise_ranking ... --model FOLDER --data SNLI.jsonl --task NLI
    python -m benchmarks.noise_ranking ... --model FOLDER --data UD.jsonl --task POS --columns '{"tags": "upos"}'

One `low_level_attack` of all attackers at 0.2, 0.5 and 0.8. Beside it what Eger and Benz's RoBERTa keeps of its score
at 0.8 (Table 6: tagging of UD English-EWT, SNLI, AUROC on toxic comments), from which Table 5 ranks the attackers, and
Spearman's correlation of the two. Any single-text classifier is compared with the toxic comments.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from scipy.stats import spearmanr

from benchmarks.illusion import archive, estimates_of, written
from seatrial.client import Client

TASKS = {"TC": "text-classification", "NLI": "text-pair-classification", "POS": "token-classification"}

CLEAN = {"POS": 96.65, "NLI": 90.41, "TC": 0.93}
HIGH = {
    "full_shuffle": {"POS": 40.47, "NLI": 38.35, "TC": 0.74},
    "inner_shuffle": {"POS": 67.95, "NLI": 51.55, "TC": 0.82},
    "intrude": {"POS": 18.15, "NLI": 34.7, "TC": 0.66},
    "disemvowel": {"POS": 44.69, "NLI": 41.0, "TC": 0.79},
    "truncate": {"POS": 75.11, "NLI": 72.02, "TC": 0.83},
    "segment": {"POS": None, "NLI": 69.14, "TC": 0.91},
    "keyboard_typo": {"POS": 40.99, "NLI": 44.16, "TC": 0.84},
    "natural_typo": {"POS": 50.06, "NLI": 56.31, "TC": 0.9},
    "phonetic": {"POS": 88.95, "NLI": 82.8, "TC": 0.91},
    "visual": {"POS": 22.44, "NLI": 34.37, "TC": 0.48},
}
"""Table 6, level high: score under each attacker by task."""


def main() -> int:
    """Run one audit, print its ranking beside the paper's and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--task", choices=TASKS, required=True)
    parser.add_argument("--columns", type=json.loads, default=None, help="of the dataset, as JSON")
    parser.add_argument("--samples", type=int, default=1000)
    parser.add_argument("--variant", choices=("code", "paper"), default="code")
    parser.add_argument("--key", default=None)
    options = parser.parse_args()
    about = {"name": f"noise-{options.task}", "version": "1", "task": TASKS[options.task]}
    columns = {"columns": options.columns} if options.columns else {}
    with Client(options.url, options.key) as client, tempfile.TemporaryDirectory() as folder:
        packed = archive(options.model, Path(folder) / "model.zip")
        model = client.add_model(packed, {**about, "architecture": {"kind": "huggingface"}})
        dataset = client.add_dataset(options.data, {**about, **columns})
        began = time.monotonic()
        check = {"kind": "low_level_attack", "variant": options.variant}
        audit = client.wait(client.submit(model.id, dataset.id, [check], samples=options.samples).id)
    found = estimates_of(audit)
    print(f"{options.task}: {time.monotonic() - began:.0f} s, {audit.checks[0].meters}, audit {audit.id}")
    print(f"score without noise {written(found['score[level=0]'])}")
    names = [name for name in HIGH if HIGH[name][options.task] is not None and f"rank[attacker={name}]" in found]
    kept = {name: HIGH[name][options.task] / CLEAN[options.task] for name in names}
    ours = {name: found[f"relative_score[attacker={name},level=0.8]"].value or 0.0 for name in names}
    places = {name: place for place, name in enumerate(sorted(names, key=kept.__getitem__), start=1)}
    print(f"{'attacker':16}{'rank':>24}{'relative score':>28}{'paper: rank':>14}{'relative score':>18}")
    for name in sorted(names, key=ours.__getitem__):
        rank = written(found[f"rank[attacker={name}]"])
        relative = written(found[f"relative_score[attacker={name},level=0.8]"])
        print(f"{name:16}{rank:>24}{relative:>28}{places[name]:>14}{kept[name]:>18.2f}")
    rho = spearmanr([ours[name] for name in names], [kept[name] for name in names])
    print(f"Spearman's rho {rho.statistic:.2f} (p = {rho.pvalue:.3f}) over {len(names)} attackers")
    print(f"edit distance and relative score correlate {written(found['edit_correlation'])}")
    for level in ("0.2", "0.5", "0.8"):
        print(f"worst attacker for each example at {level}: {written(found[f'worst_case_score[level={level}]'])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
