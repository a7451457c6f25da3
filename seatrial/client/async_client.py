"""The client that is awaited, in asyncio or trio."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Literal
from uuid import uuid4

from pydantic import BaseModel

from seatrial.client.async_hardenings import AsyncHardenings
from seatrial.client.async_keeping import AsyncKeeping
from seatrial.client.preparing import dataset_upload, model_upload
from seatrial.client.requests import (
    Request,
    Source,
    Stored,
    as_json,
    comparison_query,
    id_of,
    path_part,
    prefer_wait,
    upload_request,
    without_none,
)
from seatrial.client.results import Comparison, Dataset, Model
from seatrial.contracts.datasets import DatasetSummary
from seatrial.contracts.leaderboards import LeaderboardRead
from seatrial.contracts.models import ModelSummary, Task
from seatrial.contracts.perturb import Noisemaker, PerturbationsRead
from seatrial.contracts.plans import PlanEstimate, PlanRead, PlanSummary
from seatrial.contracts.policies import BaselineRead, Policy, PolicyRead, Verdict
from seatrial.contracts.states import ModelState
from seatrial.contracts.tags import SearchHit, SearchKind, TagsRead


class AsyncClient(AsyncHardenings, AsyncKeeping):
    """Speaks to one service as one project.

    A request is sent again, after pauses that grow, when the connection fails or the service answers 429, 502, 503 or
    504; a 429 of a quota that is used up, or one that asks for more than two minutes, is raised at once. What would do
    its work twice is sent once. Where an id is taken, so is what a client returned: a model, a dataset, an audit.

    Every method raises :class:`~seatrial.client.ClientError`: ``ProblemResponseError`` where the service refuses,
    ``ServiceUnreachableError`` where it does not answer, ``UnexpectedAnswerError`` where something else answers.

    Args:
        base_url: Where the service listens, without ``/v1``. By default SEATRIAL_URL of the environment, else
            http://127.0.0.1:8000.
        api_key: Sent as a bearer token; None on a service that needs none. Where no address is given, by default
            SEATRIAL_KEY of the environment: a key goes to no service it was not set beside.
        timeout_s: Seconds without a byte before a request fails.
        retries: Times a request is sent again.
        transport: For tests.

    Raises:
        ValueError: ``base_url`` is not an address.
    """

    async def add_model(
        self, file: Source | str, manifest: Mapping[str, Any] | None = None, *, wait_s: int = 30
    ) -> Model:
        """Upload weights and return the model.

        Args:
            file: One .safetensors, an archive of a folder, or a folder: a Hugging Face one, or ``manifest.json`` beside
                weights.
            manifest: What the weights are: ``name``, ``version``, ``task``, ``architecture``, ... By default what is
                found beside the file or in the folder; name and version are then made up where they are missing.
            wait_s: Seconds to wait for a worker to load it; after that it is returned in state ``checking``.

        Raises:
            ProblemResponseError: The manifest, the file or the model itself is refused, with the reason.
            ValueError: It is a pickle, or nothing says what the file is.
        """
        return await self._ask(upload_request("/v1/models", *model_upload(file, manifest), wait_s), Model)

    async def add_endpoint(self, manifest: Mapping[str, Any], *, wait_s: int = 30) -> Model:
        """Store a model behind an HTTP endpoint and return it.

        Args:
            manifest: As of :meth:`add_model`, with an architecture of kind ``endpoint``.
            wait_s: Seconds to wait for a worker to ask it; after that it is returned in state ``checking``.

        Raises:
            ProblemResponseError: The manifest or what the endpoint answers is refused, with the reason.
        """
        body = {"manifest": dict(manifest)}
        return await self._ask(Request("POST", "/v1/models", json=body, **prefer_wait(wait_s)), Model)

    def models(
        self,
        *,
        name: str | None = None,
        task: Task | None = None,
        state: ModelState | str | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[ModelSummary]:
        """Yield the project's models, newest first, filtered by name, task and state.

        ``limit`` is how many a request fetches: all are yielded. Class names and manifest are left to :meth:`model`.
        """
        return self._pages("/v1/models", ModelSummary, {"name": name, "task": task, "state": state, "limit": limit})

    async def model(self, model_id: str | Stored) -> Model:
        """Return one model."""
        return await self._ask(Request("GET", f"/v1/models/{path_part(model_id)}"), Model)

    async def cancel_check(self, model_id: str | Stored) -> Model:
        """End the check of a model and return it, rejected; cancelling twice is the same as once.

        Raises:
            ProblemResponseError: It has been checked already.
        """
        return await self._ask(Request("POST", f"/v1/models/{path_part(model_id)}/cancel"), Model)

    async def add_dataset(self, file: Source | str, manifest: Mapping[str, Any] | None = None) -> Dataset:
        """Upload examples and return the dataset.

        Args:
            file: .npz, .parquet, .csv, .jsonl, .conllu, an archive of folders of images, or such a folder.
            manifest: What the examples are: ``name``, ``version``, ``task``, ... By default what is found beside them,
                else the task is that of the columns.

        Raises:
            ProblemResponseError: The manifest or the file is refused, with the reason.
            ValueError: Nothing says what the examples are for.
        """
        return await self._ask(upload_request("/v1/datasets", *dataset_upload(file, manifest)), Dataset)

    def datasets(
        self, *, name: str | None = None, task: Task | None = None, limit: int | None = None
    ) -> AsyncIterator[DatasetSummary]:
        """Yield the project's datasets, newest first, filtered by name and task.

        ``limit`` is how many a request fetches: all are yielded. Class names and manifest are left to :meth:`dataset`.
        """
        return self._pages("/v1/datasets", DatasetSummary, {"name": name, "task": task, "limit": limit})

    async def dataset(self, dataset_id: str | Stored) -> Dataset:
        """Return one dataset."""
        return await self._ask(Request("GET", f"/v1/datasets/{path_part(dataset_id)}"), Dataset)

    async def submit_plan(
        self, steps: Iterable[Mapping[str, Any] | BaseModel], *, name: str = "", idempotency_key: str | None = None
    ) -> PlanRead:
        """Queue jobs that follow each other and return the plan.

        Args:
            steps: ``harden`` where wanted, ``audit``, then any of ``judge``, ``attest`` and ``notify``.
            name: For people.
            idempotency_key: Submitting twice with it is submitting once; by default each call makes up its own.

        Raises:
            ProblemResponseError: A step could never run, with its place and the reason.
        """
        headers = {"Idempotency-Key": idempotency_key or str(uuid4())}
        body = {"name": name, "steps": as_json(steps)}
        return await self._ask(Request("POST", "/v1/plans", json=body, headers=headers), PlanRead)

    async def estimate_plan(self, steps: Iterable[Mapping[str, Any] | BaseModel]) -> PlanEstimate:
        """Return what a plan of such steps would cost, at most; nothing is queued.

        Raises:
            ProblemResponseError: A step could never run, with its place and the reason.
        """
        return await self._ask(Request("POST", "/v1/plans/estimate", json={"steps": as_json(steps)}), PlanEstimate)

    def plans(self, *, limit: int | None = None) -> AsyncIterator[PlanSummary]:
        """Yield the project's plans, newest first; ``limit`` is how many a request fetches."""
        return self._pages("/v1/plans", PlanSummary, {"limit": limit})

    async def plan(self, plan_id: str | Stored) -> PlanRead:
        """Return one plan with its steps."""
        return await self._ask(Request("GET", f"/v1/plans/{path_part(plan_id)}"), PlanRead)

    async def cancel_plan(self, plan_id: str | Stored) -> PlanRead:
        """End a plan, and the hardening or the audit it waits for."""
        path = f"/v1/plans/{path_part(plan_id)}/cancel"
        return await self._ask(Request("POST", path, is_repeatable=False), PlanRead)

    async def retry_plan(self, plan_id: str | Stored) -> PlanRead:
        """Go on from the step that failed.

        Raises:
            ProblemResponseError: None has.
        """
        path = f"/v1/plans/{path_part(plan_id)}/retry"
        return await self._ask(Request("POST", path, is_repeatable=False), PlanRead)

    async def add_policy(self, policy: Policy | Mapping[str, Any]) -> PolicyRead:
        """Store a policy and return it; where the name is taken, as its next version."""
        return await self._ask(Request("POST", "/v1/policies", json=as_json(policy)), PolicyRead)

    def policies(
        self, *, name: str | None = None, shipped: bool | None = None, limit: int | None = None
    ) -> AsyncIterator[PolicyRead]:
        """Yield the project's policies, newest first, filtered by name; Seatrial's own with ``shipped``.

        ``limit`` is how many a request fetches: all are yielded.
        """
        return self._pages("/v1/policies", PolicyRead, {"name": name, "shipped": shipped, "limit": limit})

    async def policy(self, reference: str) -> PolicyRead:
        """Return a policy by its id, name, ``name@version``, or the name of a shipped one."""
        return await self._ask(Request("GET", f"/v1/policies/{path_part(reference)}"), PolicyRead)

    async def promote(self, audit_id: str | Stored, name: str = "champion", *, note: str = "") -> BaselineRead:
        """Make a succeeded audit the baseline ``name`` of its model and return that."""
        body = {"audit": id_of(audit_id), "name": name, "note": note}
        return await self._ask(Request("POST", "/v1/baselines", json=body), BaselineRead)

    def baselines(
        self, *, model: str | None = None, name: str | None = None, limit: int | None = None
    ) -> AsyncIterator[BaselineRead]:
        """Yield baselines with their history, newest first, filtered by the model's name and their own.

        ``limit`` is how many a request fetches: all are yielded.
        """
        return self._pages("/v1/baselines", BaselineRead, {"model": model, "name": name, "limit": limit})

    def search(
        self,
        of: SearchKind = "audits",
        *,
        name: str | None = None,
        tag: Iterable[str] = (),
        digest: str | None = None,
        verdict: Verdict | None = None,
        metric: str | None = None,
        at_least: float | None = None,
        at_most: float | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[SearchHit]:
        """Yield models, datasets or audits, newest first.

        Args:
            of: What to look through.
            name: Part of a name.
            tag: Tags it has, all of them.
            digest: Beginning of a SHA-256, 8 digits at least.
            verdict: Of audits.
            metric: A number of audits, by its full name.
            at_least: Its least value that counts.
            at_most: Its largest.
            limit: How many a request fetches: all are yielded.
        """
        asked: dict[str, Any] = {"of": of, "name": name, "tag": list(tag) or None, "digest": digest}
        asked |= {"verdict": verdict, "metric": metric, "at_least": at_least, "at_most": at_most, "limit": limit}
        return self._pages("/v1/search", SearchHit, asked)

    async def tags(self, subject_id: str | Stored) -> list[str]:
        """Return the tags of a model, a dataset or an audit."""
        return (await self._ask(Request("GET", f"/v1/tags/{path_part(subject_id)}"), TagsRead)).tags

    async def tag(self, subject_id: str | Stored, add: Iterable[str] = (), *, remove: Iterable[str] = ()) -> list[str]:
        """Put tags on a model, a dataset or an audit, take others off, and return those it has then."""
        body = {"add": list(add), "remove": list(remove)}
        return (await self._ask(Request("POST", f"/v1/tags/{path_part(subject_id)}", json=body), TagsRead)).tags

    async def leaderboard(
        self,
        dataset: str | Stored,
        check: str,
        *,
        metric: str | None = None,
        against: str | Stored | None = None,
        group: str | None = None,
        across: str | None = None,
        beside: str | None = None,
    ) -> LeaderboardRead:
        """Return the models that were audited alike, in the order of a metric, with ranks.

        Args:
            dataset: The dataset, or its id.
            check: Kind of the check.
            metric: What to sort by; by default the first number that shipped policies judge.
            against: Audit, one of the rows', to measure differences from.
            group: Which audits, where some ran with other parameters; by default those of most models.
            across: Parameter of the check in which audits may differ: a model has a row for each of its values.
            beside: A second number: rows that none other beats in both are on the Pareto front (``is_efficient``).
        """
        query = {"dataset": id_of(dataset), "check": check, "metric": metric, "against": id_of(against), "group": group}
        query |= {"across": across, "beside": beside}
        return await self._ask(Request("GET", "/v1/leaderboard", params=without_none(query)), LeaderboardRead)

    async def leaderboard_table(
        self,
        dataset: str | Stored,
        check: str,
        format: Literal["csv", "markdown"],
        *,
        metric: str | None = None,
        against: str | Stored | None = None,
        group: str | None = None,
        across: str | None = None,
        beside: str | None = None,
    ) -> str:
        """Return the same as a table: CSV with every number, or Markdown with the chief ones."""
        query = {"dataset": id_of(dataset), "check": check, "metric": metric, "against": id_of(against), "group": group}
        query |= {"across": across, "beside": beside}
        params = without_none({**query, "format": format})
        return (await self._send(Request("GET", "/v1/leaderboard", params=params))).text

    async def compare(
        self,
        *audits: str | Stored | Iterable[str | Stored],
        groups: Mapping[str, Iterable[str | Stored]] | None = None,
        metrics: Iterable[str] = (),
    ) -> Comparison:
        """Compare audits that ran alike: of two the differences, of more mean and deviation over training runs.

        Args:
            audits: Audits or their ids, one by one or in a list, grouped by the name of their model, of which every
                version is a training run.
            groups: Audits put together by names of your own.
            metrics: Full names, ``*`` for any value of a qualifier; by default all that can be compared.

        Raises:
            ProblemResponseError: Audits did not run alike, or there is no such number.
        """
        query = comparison_query(audits, groups or {}, metrics)
        return await self._ask(Request("GET", "/v1/comparison", params=query), Comparison)

    async def comparison_table(
        self,
        format: Literal["csv", "markdown"],
        *audits: str | Stored | Iterable[str | Stored],
        groups: Mapping[str, Iterable[str | Stored]] | None = None,
        metrics: Iterable[str] = (),
    ) -> str:
        """Return the same as a table: CSV with every number, or Markdown with the first ones."""
        query = {**comparison_query(audits, groups or {}, metrics), "format": format}
        return (await self._send(Request("GET", "/v1/comparison", params=query))).text

    async def perturb(
        self,
        texts: Iterable[str | Sequence[str]] | None = None,
        *,
        sentences: Iterable[Sequence[str]] | None = None,
        attackers: Literal["all"] | Iterable[Noisemaker] = "all",
        levels: Iterable[float] = (0.2, 0.5, 0.8),
        draws: int = 1,
        seed: int = 0,
        first: int = 0,
        variant: Literal["code", "paper"] = "code",
        selection: Literal["code", "paper"] | None = None,
        phi: float | None = None,
        typos: Literal["codespell", "nlpaug"] = "codespell",
        glyphs: Literal["dejavu", "dejavu_bmp", "confusables"] = "dejavu",
    ) -> PerturbationsRead:
        """Return texts with noise, without a model; nothing is stored.

        Args:
            texts: Texts, or pairs of premise and hypothesis.
            sentences: Lists of tokens, in place of texts.
            attackers: ``all``, or their names.
            levels: Fractions of the words that are attacked.
            draws: Random draws of each text at each level.
            seed: Everything random follows from it.
            first: Number of the first text; those after it are counted on.
            variant: Rules of the released program or of the paper.
            selection: How words are selected; by default as of ``variant``.
            phi: How hard an attacked word is hit; by default the level.
            typos: Where misspellings are taken from.
            glyphs: Where look-alikes are taken from.

        Raises:
            ProblemResponseError: They are too much for one request, or an attacker lacks what it draws from.
        """
        given = {"texts": texts, "sentences": sentences, "attackers": attackers, "levels": levels, "draws": draws}
        noise = {"variant": variant, "selection": selection, "phi": phi, "typos": typos, "glyphs": glyphs}
        body = without_none({**given, "seed": seed, "first": first, **noise})
        return await self._ask(Request("POST", "/v1/perturb", json=body), PerturbationsRead)
