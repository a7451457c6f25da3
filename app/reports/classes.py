"""How many classes an audit is about, and what they are called."""

from seatrial.store.tables import DatasetRow, ModelRow


def count_classes(model: ModelRow | None) -> int | None:
    """Return how many classes a model has, where that is known."""
    if model is None:
        return None
    labels = model.manifest.get("labels")
    counted = (model.facts or {}).get("classes") or (len(labels) if labels else None)
    return int(counted) if counted else None


def name_classes(model: ModelRow | None, dataset: DatasetRow | None) -> list[str] | None:
    """Return the class names: the model's own words for them, else those of the data."""
    places = [
        *([model.manifest, model.facts or {}] if model else []),
        *([dataset.manifest, dataset.facts or {}] if dataset else []),
    ]
    return next(([str(name) for name in place["labels"]] for place in places if place.get("labels")), None)
