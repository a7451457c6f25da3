"""One step of each method that trains text models equals one computed by hand, as the official codes do it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from scipy.optimize import minimize
from torch import Tensor

from seatrial.contracts.training import methods
from tests.training.builders import batch_of, bert, cnn, gradients, set_gradients_to_none, step_of, text_data
from workers.errors import PreflightError
from workers.resources.vectors import WordVectors
from workers.training.engine import train
from workers.training.methods.ascc import synonym_table
from workers.training.methods.ddi import gram_matrix, onto_simplex, shortest_combination
from workers.training.models import TrainableTexts
from workers.training.protocol import Preparation


def _made(slug: str, model: Any, **body: Any) -> Any:
    spec = methods()[slug]
    return spec.load()(spec.params.model_validate({"method": slug, **body}), model)


def _official(model: TrainableTexts, texts: list[str], seed: int, *, start: float) -> tuple[Any, Tensor, Tensor]:
    """Encodings by the tokenizer itself, embeddings and the first delta, after TextDefender's ``pgd.py``."""
    encoded = model.classifier._tokenizer(texts, padding=True, return_tensors="pt")
    embeddings = model.module.get_input_embeddings()(encoded["input_ids"])
    mask = encoded["attention_mask"].float()
    unit = 2 * torch.rand(embeddings.shape, generator=torch.Generator().manual_seed(seed)) - 1
    magnitude = start / torch.sqrt(mask.sum(1) * embeddings.size(-1))
    return encoded, embeddings, unit * mask.unsqueeze(2) * magnitude.view(-1, 1, 1)


def _loss(model: TrainableTexts, encoded: Any, embeddings: Tensor, labels: Tensor) -> Tensor:
    output = model.module(
        inputs_embeds=embeddings, attention_mask=encoded["attention_mask"], token_type_ids=encoded["token_type_ids"]
    )
    return F.cross_entropy(output.logits, labels)


def _ascended(delta: Tensor, gradient: Tensor, rate: float, most: float) -> Tensor:
    norm = torch.clamp(torch.norm(gradient.view(gradient.size(0), -1).float(), dim=1).view(-1, 1, 1), min=1e-8)
    delta = (delta + rate * gradient / norm).detach()
    norm = torch.norm(delta.view(delta.size(0), -1).float(), p=2, dim=1)
    return delta * torch.where(norm > most, most / norm, torch.ones_like(norm)).view(-1, 1, 1)


@pytest.mark.parametrize("most", [1.0, 0.06])
def test_pgd_k_trains_on_the_last_embeddings_alone(most: float) -> None:
    model, batch = bert(), batch_of(text_data(4))
    body = {"steps": 3, "step_size": 0.03, "start": 0.05, "max_norm": most, "gradients": "plain"}
    _made("pgd_k", model, **body).accumulate(batch, 0.5, step_of(model, 8, seed=1))
    found = gradients(model)
    set_gradients_to_none(model)
    encoded, embeddings, delta = _official(model, batch.inputs, 1, start=0.05)  # type: ignore[arg-type]
    for _ in range(3):
        delta = delta.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(_loss(model, encoded, embeddings.detach() + delta, batch.labels), delta)
        delta = _ascended(delta.detach(), gradient, 0.03, most)
    assert float(delta.flatten(1).norm(dim=1).max()) <= min(most, 0.05 + 3 * 0.03) + 1e-6
    (0.5 * _loss(model, encoded, embeddings + delta, batch.labels)).backward()
    for ours, theirs in zip(found, gradients(model), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-6)


def test_freelb_takes_a_share_of_the_weights_gradient_at_every_step() -> None:
    model, batch = bert(), batch_of(text_data(4))
    loss = _made("freelb", model, steps=3, step_size=0.1).accumulate(batch, 1.0, step_of(model, 4, seed=1))
    found = gradients(model)
    set_gradients_to_none(model)
    encoded, _, delta = _official(model, batch.inputs, 1, start=0.05)  # type: ignore[arg-type]
    losses = []
    for number in range(3):
        delta = delta.detach().requires_grad_()
        embeddings = model.module.get_input_embeddings()(encoded["input_ids"])
        value = _loss(model, encoded, embeddings + delta, batch.labels) / 3
        value.backward()
        losses.append(float(value.detach()))
        if number < 2:
            assert delta.grad is not None
            delta = _ascended(delta.detach(), delta.grad, 0.1, 1.0)
    assert float(loss) == pytest.approx(sum(losses), rel=1e-5)
    for ours, theirs in zip(found, gradients(model), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-6)


def test_padding_stays_as_it_is_and_the_linf_variant_keeps_its_box() -> None:
    model, batch = bert(), batch_of(text_data(6))
    method = _made("pgd_k", model, norm="linf", start=0.01, step_size=0.02, max_norm=0.03, steps=4)
    encoded = model.encode(batch.inputs)  # type: ignore[arg-type]
    assert not bool(encoded.mask.all())
    delta = method.perturb(encoded, batch.labels, step_of(model))
    assert float(delta.abs().max()) == pytest.approx(0.03)
    assert not method.start(encoded, torch.Generator())[encoded.mask == 0].any()
    assert model.encode(["a film"]).ids.tolist() == model.classifier._tokenizer(["a film"])["input_ids"]


def _qp(gram: np.ndarray) -> np.ndarray:
    m = len(gram)
    scale = np.abs(gram).max()
    return minimize(
        lambda a: a @ gram @ a / scale,
        np.full(m, 1 / m),
        jac=lambda a: 2 * gram @ a / scale,
        bounds=[(0, 1)] * m,
        constraints={"type": "eq", "fun": lambda a: a.sum() - 1, "jac": lambda a: np.ones(m)},
        options={"ftol": 1e-15, "maxiter": 1000},
    ).x


@pytest.mark.parametrize("m", [1, 2, 3, 5])
def test_the_shortest_combination_is_that_of_a_quadratic_programme(m: int) -> None:
    draw = np.random.default_rng(m)
    for _ in range(20):
        rows = draw.normal(size=(m, 8)) * draw.uniform(0.1, 3, size=(m, 1)) + draw.normal(size=8)
        gram = rows @ rows.T
        ours, theirs = shortest_combination(gram), _qp(gram)
        assert ours.min() >= 0
        assert ours.sum() == pytest.approx(1)
        assert ours @ gram @ ours <= (theirs @ gram @ theirs) * (1 + 1e-6)
        assert ours == pytest.approx(theirs, abs=2e-3)
        # It descends every one of the losses.
        assert (gram @ ours).min() >= ours @ gram @ ours * (1 - 1e-4)


def test_the_projection_onto_the_simplex_is_the_nearest_point() -> None:
    draw = np.random.default_rng(0)
    for _ in range(50):
        point = draw.normal(size=4) * 2
        found = onto_simplex(point)
        others = draw.dirichlet(np.ones(4), size=200)
        assert np.linalg.norm(found - point) <= np.linalg.norm(others - point, axis=1).min() + 1e-12


@pytest.mark.parametrize("treatment", ["normalised", "plain"])
def test_ddi_at_steps_along_the_combination_of_the_gradients_at_its_attacks(treatment: str) -> None:
    model, batch = bert(), batch_of(text_data(4))
    method = _made("ddi_at", model, attacks=3, steps=2, step_size=0.5, start=0.5, gradients=treatment)
    step = step_of(model, 4, seed=1)
    method.accumulate(batch, 1.0, step)
    assert method.finish(step)
    found = torch.cat([each.flatten() for each in gradients(model)])
    again = step_of(model, 4, seed=1)
    rows = []
    for _ in range(3):
        set_gradients_to_none(model)
        encoded = model.encode(batch.inputs)  # type: ignore[arg-type]
        delta = method.perturb(encoded, batch.labels, again)
        F.cross_entropy(method.at(encoded, delta), batch.labels).backward()
        rows.append(torch.cat([each.grad.flatten() for each in model.module.parameters() if each.grad is not None]))
    matrix = torch.stack(rows).double().numpy()
    expected = _qp(matrix @ matrix.T) @ matrix
    if treatment == "normalised":
        expected = expected / np.linalg.norm(expected)
        assert float(found.norm()) == pytest.approx(1, rel=1e-5)
    assert np.abs(found.numpy() - expected).max() < 2e-3 * np.abs(expected).max()


def test_ddi_at_is_the_same_in_micro_batches_and_skips_where_there_is_no_direction() -> None:
    g = [[torch.tensor([1.0, 0.0])], [torch.tensor([-2.0, 0.0])]]
    assert gram_matrix(g).tolist() == [[1, -2], [-2, 4]]
    model = bert()
    method = _made("ddi_at", model, attacks=2)
    step = step_of(model)
    parameters = [each for each in model.module.parameters() if each.requires_grad]
    step.scratch["gradients"] = [[torch.full_like(p, s) for p in parameters] for s in (1.0, -2.0)]
    assert not method.finish(step)
    assert step.scratch["alpha"] == pytest.approx([2 / 3, 1 / 3])
    # Without random starts and steps of hardly any length every attack is the clean text.
    found = []
    for size in (4, 2):
        batch, step = batch_of(text_data(4)), step_of(model, 4)
        set_gradients_to_none(model)
        quiet = _made("ddi_at", model, attacks=2, start=0, step_size=1e-9)
        for at in range(0, 4, size):
            quiet.accumulate(batch.part(at, at + size), size / 4, step)
        assert quiet.finish(step)
        found.append(torch.cat([each.flatten() for each in gradients(model)]))
    assert torch.allclose(found[0], found[1], atol=1e-5)


def _ascc(model: TrainableTexts, **body: Any) -> Any:
    method = _made("ascc", model, neighbours=2, **body)
    ids = torch.arange(model.words.num_embeddings)
    method.table = torch.stack([ids, (ids + 1) % len(ids), torch.where(ids % 2 == 0, (ids + 2) % len(ids), -1)], 1)
    return method


def test_ascc_mixes_synonyms_sparsely_and_weighs_the_divergence() -> None:
    model, batch = bert(), batch_of(text_data(4))
    method = _ascc(model, steps=2, beta=4, sparsity=10)
    step = step_of(model, 4, seed=3)
    loss = method.accumulate(batch, 1.0, step)
    found = gradients(model)
    set_gradients_to_none(model)
    encoded = model.encode(batch.inputs)  # type: ignore[arg-type]
    ids = method.table[encoded.ids]
    table = model.module.get_input_embeddings().weight
    weights = torch.empty(*ids.shape, 1)
    torch.nn.init.kaiming_normal_(weights, generator=torch.Generator().manual_seed(3))
    weights.requires_grad_()
    adam = torch.optim.Adam([weights], lr=1, weight_decay=2e-5)

    def mixed() -> tuple[Tensor, Tensor]:
        valid = (ids >= 0).float().unsqueeze(3)
        shares = weights * valid - 999 * (1 - valid)
        return (shares.softmax(2) * table[ids.clamp_min(0)]).sum(2), shares

    def log_p(embeddings: Tensor) -> Tensor:
        out = model.module(inputs_embeds=embeddings, attention_mask=encoded.mask, token_type_ids=encoded.types)
        return out.logits.log_softmax(1)

    clean = log_p(table[encoded.ids])
    for _ in range(2):
        adam.zero_grad()
        embeddings, shares = mixed()
        kl = F.kl_div(log_p(embeddings), clean.exp().detach(), reduction="sum")
        entropy = -(shares.softmax(2) * shares.log_softmax(2)).sum(2).mean()
        (-kl + 10 * entropy).backward()
        adam.step()
    set_gradients_to_none(model)
    attacked = log_p(mixed()[0].detach() * 0 + mixed()[0])
    clean = log_p(table[encoded.ids])
    value = F.nll_loss(clean, batch.labels) + 4 * F.kl_div(attacked, clean.exp(), reduction="batchmean")
    value.backward()
    assert float(loss) == pytest.approx(float(value.detach()), rel=1e-4)
    for ours, theirs in zip(found, gradients(model), strict=True):
        assert torch.allclose(ours, theirs, atol=2e-5)


def test_synonyms_come_from_the_vectors_and_are_words_of_the_vocabulary() -> None:
    model = bert()
    vocabulary = model.classifier._tokenizer.get_vocab()
    words = ["film", "movie", "unheard", "the"]
    assert {"film", "movie", "the"} <= set(vocabulary)
    vectors = WordVectors(words, np.array([[1, 0.0], [1, 0.2], [1, 0.1], [-1, 0.5]]))
    table = synonym_table(model, vectors, 2)
    # The word nearest to film is no token.
    assert table[vocabulary["film"]].tolist() == [vocabulary["film"], vocabulary["movie"], -1]
    assert table[vocabulary["[CLS]"]].tolist() == [vocabulary["[CLS]"], -1, -1]
    method = _made("ascc", model)
    with pytest.raises(PreflightError, match="resources install"):
        method.prepare(text_data(2), Preparation(model, 0, None, lambda: None))


def test_embeddings_are_asked_of_a_model_that_takes_them() -> None:
    model = bert()
    model.takes_embeddings = False
    for slug in ("pgd_k", "freelb", "ddi_at", "ascc"):
        with pytest.raises(PreflightError, match="inputs_embeds"):
            _made(slug, model)


@pytest.mark.parametrize("mix", ["one_to_one", "leave_one_out"])
def test_noise_is_of_the_attackers_asked_for_and_the_same_whenever_read(mix: str) -> None:
    model, data = bert(), text_data(40)
    method = _made("noise_mix", model, mix=mix, attacker="segment")
    noisy = method.prepare(data, Preparation(model, 5, None, lambda: None))
    clean, changed = data.read(range(40)), noisy.read(range(40))
    assert noisy.read([7, 3]) == [changed[7], changed[3]]
    assert sum(a != b for a, b in zip(clean, changed, strict=True)) > 25
    assert noisy.labels.tolist() == data.labels.tolist()
    only_spaces = [str(a).replace(" ", "") == str(b).replace(" ", "") for a, b in zip(clean, changed, strict=True)]
    assert all(only_spaces) == (mix == "one_to_one")
    assert len(method.prepare(data, Preparation(model, 5, None, lambda: None)).perturbers) == (
        1 if mix == "one_to_one" else 9
    )
    assert method.prepare(data, Preparation(model, 6, None, lambda: None)).read(range(40)) != changed


@pytest.mark.slow
def test_dg_aug_adds_what_the_attack_makes_of_every_text_and_goes_on_where_it_was_left(tmp_path: Path) -> None:
    model, data = bert(), text_data(6)
    method = _made("dg_aug", model, query_budget=30)
    preparation = Preparation(model, 0, tmp_path / "prepared", lambda: None)
    both = method.prepare(data, preparation)
    assert len(both.labels) == 12
    assert both.labels[6:].tolist() == data.labels.tolist()
    texts = both.read(range(12))
    assert texts[:6] == data.read(range(6))
    assert any(a != b for a, b in zip(texts[:6], texts[6:], strict=True))
    file = tmp_path / "prepared" / "attacked.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    assert len(lines) == 6
    # Killed in the middle of a line: the rest is attacked again, to the same texts.
    file.write_text("".join(lines[:3]) + lines[3][:5])
    assert method.prepare(data, preparation).read(range(12)) == texts
    assert sorted(file.read_text().splitlines(keepends=True)) == sorted(lines)
    fewer = _made("dg_aug", model, query_budget=30, unbroken="drop").prepare(data, preparation)
    assert 6 <= len(fewer.labels) < 12


@pytest.mark.slow
@pytest.mark.parametrize("slug", ["pgd_k", "freelb", "ddi_at", "ascc", "noise_mix"])
def test_every_method_trains_a_text_model(slug: str) -> None:
    model = bert()
    method = _made(slug, model, epochs=2, learning_rate=0.001)
    vectors = WordVectors(["film", "movie"], np.array([[1, 0.0], [1, 0.2]]))
    outcome = train(model, method, method.params, text_data(16), text_data(8, seed=1), seed=0, vectors=vectors)
    assert len(outcome.curves) == 2
    assert ("attacked_accuracy" in outcome.curves[0]) == (slug != "noise_mix")


def test_inputs_of_the_other_kind_are_told() -> None:
    with pytest.raises(TypeError, match="takes texts"):
        bert().logits(torch.zeros(1, 1, 4, 4))
    with pytest.raises(TypeError, match="takes images"):
        cnn().logits(["a text"])
