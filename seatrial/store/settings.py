"""Settings, all from the environment (prefix ``SEATRIAL_``)."""

import re
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from seatrial.contracts.endpoints import EndpointSecret, parse_network
from seatrial.store.settings_errors import check_broker_url, check_database_url, invalid_settings

MIB = 2**20


class Settings(BaseSettings):
    """Everything an operator may set. Each field is ``SEATRIAL_<NAME>`` in the environment."""

    model_config = SettingsConfigDict(env_prefix="SEATRIAL_", extra="ignore", hide_input_in_errors=True)

    home: Path = Field(default=Path(".seatrial"), description="Folder everything is written under.")
    database_url: str = Field(default="", description="SQLAlchemy URL; default: SQLite under home.")
    database_pool: int = Field(
        default=12,
        ge=1,
        description="Most connections to Postgres of an API process; what is asked beyond waits for one. A worker has "
        "four at most.",
    )
    database_wait_s: float = Field(
        default=15.0, gt=0, description="Seconds a request waits for a connection before it is a 503."
    )
    database_connect_s: int = Field(default=5, ge=2, description="Seconds connecting to Postgres may take.")
    database_statement_s: float = Field(
        default=60.0,
        ge=0,
        description="Seconds a statement may take on Postgres, migrations aside; 0: without limit, as behind PgBouncer "
        "in transaction mode, where the role's own statement_timeout is to be set.",
    )
    broker_url: str = Field(
        default="", description="Redis URL of the Celery broker; default: none, workers poll the database."
    )
    artifacts_url: str = Field(
        default="", description="Folder or fsspec URL (s3://...) of stored files; default: home/artifacts."
    )
    cache_bytes: int = Field(
        default=20 * 1024 * MIB,
        ge=0,
        description="About how many bytes of copies of a bucket's files a machine keeps under home/cache; those used "
        "longest ago go first.",
    )

    public_url: str = Field(
        default="",
        pattern=r"^(https?://[A-Za-z0-9._\-\[\]:]+(/[A-Za-z0-9._\-/]*)?)?$",
        description="Address people open the console at, for links in reports and messages, such as "
        "https://seatrial.example.com; default: what the client called the service by.",
    )
    ends_with_command: bool = Field(
        default=False,
        description="Whether the service ends with the command that started it, as that of `seatrial gate` without "
        "--server does; reports then have no link to its console.",
    )
    require_keys: bool = Field(
        default=True, description="Refuse requests without an API key. `seatrial serve` on loopback sets it to false."
    )
    bootstrap_key: SecretStr | None = Field(
        default=None, description="An admin key accepted from the start, at least 32 characters."
    )
    allowed_paths: list[Path] = Field(
        default=[], description="Folders models and datasets may be referenced from, as JSON list."
    )

    max_model_bytes: int = Field(default=8 * 1024 * MIB, gt=0, description="Largest model upload, bytes.")
    max_dataset_bytes: int = Field(default=4 * 1024 * MIB, gt=0, description="Largest dataset upload, bytes.")
    max_json_bytes: int = Field(default=1 * MIB, gt=0, description="Largest JSON body, bytes.")
    max_header_bytes: int = Field(
        default=64 * 1024, ge=1024, description="Most bytes of a request's line and headers; others are a 431."
    )
    header_timeout_s: float = Field(
        default=10.0, gt=0, description="Seconds a client has to send a request's line and headers."
    )
    body_timeout_s: float = Field(
        default=30.0, gt=0, description="Seconds over which the speed of a body, sent or received, is averaged."
    )
    min_body_rate: int = Field(
        default=500,
        ge=0,
        description="Least bytes a second of a body, sent or received; 0: one byte per SEATRIAL_BODY_TIMEOUT_S.",
    )
    max_connections: int = Field(
        default=2000,
        ge=8,
        description="Most connections of an API process; a new one takes the place of the one idle longest. Fewer "
        "where the system allows few open files.",
    )
    max_streams_per_key: int = Field(
        default=32, gt=0, description="Most event streams open at a time with one key, per API process."
    )
    max_streams_per_project: int = Field(
        default=128, gt=0, description="Most event streams open at a time in one project, per API process."
    )
    max_archive_entries: int = Field(default=200_000, gt=0, description="Most files in an archive.")
    max_archive_bytes: int = Field(default=16 * 1024 * MIB, gt=0, description="Most bytes an archive may unpack to.")
    max_compression_ratio: float = Field(
        default=200.0,
        gt=1,
        description="Largest unpacked to packed ratio of an archive, or of a Parquet file's values.",
    )
    max_activation_values: int = Field(
        default=2**29, gt=0, description="Most values a model may compute for one image, all its operators together."
    )
    max_batch_bytes: int = Field(
        default=2 * 1024 * MIB,
        gt=0,
        description="Most bytes of decoded images a worker holds at once: a batch, a row group, what a defence sees "
        "together.",
    )
    max_text_chars: int = Field(default=100_000, gt=0, description="Longest text of a dataset, in characters.")
    max_examples: int = Field(default=5_000_000, gt=0, description="Most examples in a dataset.")

    staging_kept_s: float = Field(
        default=6 * 3600.0,
        ge=3600,
        description="Seconds without a write after which a file on its way in belongs to nobody and is removed: an "
        "upload whose process was killed.",
    )

    lease_s: float = Field(default=60.0, gt=0, description="Seconds a shard stays claimed without a heartbeat.")
    heartbeat_s: float = Field(default=15.0, gt=0, description="Seconds between heartbeats of a running shard.")
    mix_code: bool = Field(
        default=False,
        description="Whether workers of several versions may share an audit; its checks then carry `mixed_code`. "
        "Otherwise one version measures an audit, and others leave it alone.",
    )
    reap_s: float = Field(default=10.0, gt=0, description="Seconds between sweeps for expired leases.")
    poll_s: float = Field(
        default=0.25, gt=0, description="Seconds between looks at the database of an idle local worker."
    )
    max_attempts: int = Field(default=3, ge=1, description="Times a shard is tried before it fails.")
    check_deadline_s: float = Field(
        default=300.0, gt=0, description="Seconds the check of an uploaded model may take in all."
    )
    check_memory_bytes: int = Field(
        default=4 * 1024 * MIB,
        ge=256 * MIB,
        description="Memory the check of a model may take, besides six times the size of its file.",
    )
    shard_silence_s: float = Field(
        default=1800.0,
        gt=0,
        description="Seconds a shard may go without a batch, a gradient step or a text before its process is ended.",
    )
    shard_memory_bytes: int = Field(
        default=0,
        ge=0,
        description="Memory a shard may take, besides six times the size of its models' files; 0: three quarters of "
        "the machine's, or of what its control group is given.",
    )
    confine: bool = Field(
        default=True,
        description="Let the kernel keep processes that read uploads or run models from every other file, where it "
        "offers Landlock; models on a GPU are not confined, whose drivers open files of their own.",
    )
    inspection_deadline_s: float = Field(
        default=120.0,
        gt=0,
        description="Seconds the inspection of an upload may take, and one more for every 10 MB of it.",
    )
    inspection_memory_bytes: int = Field(
        default=1024 * MIB, ge=128 * MIB, description="Memory the inspection of an upload may take."
    )
    inspections: int = Field(
        default=0, ge=0, le=256, description="Uploads inspected at one time by one process; 0: one per processor."
    )
    inspections_per_project: int = Field(
        default=0, ge=0, le=256, description="Most of them for one project; 0: half of them, at least one."
    )
    inspections_waiting: int = Field(
        default=16, ge=0, le=10_000, description="Uploads of one project that wait for their turn; more are a 429."
    )
    shard_s: float = Field(default=60.0, gt=0, description="Seconds a shard should take.")
    local_workers: int = Field(default=1, ge=0, le=64, description="Worker processes `seatrial serve` starts.")
    device: str = Field(default="auto", description="auto, cpu, cuda or cuda:N.")
    torch_threads: int = Field(
        default=0, ge=0, description="CPU threads per worker; 0: all cores. Part of what makes a run repeatable."
    )
    autocast: Literal["off", "bfloat16"] = Field(
        default="off",
        description="Let certificates be computed in bfloat16: faster on a GPU; what is certified is "
        "then the network in that arithmetic.",
    )
    cuda_graphs: bool = Field(
        default=False,
        description="On a GPU, record the passes of image models as CUDA graphs and replay them: small networks take "
        "longer to launch than to run. Needs memory for up to 16 shapes of batches.",
    )

    resources: Path | None = Field(
        default=None,
        description="Folder of language resources (WordNet, word vectors, encoders); default: home/resources. "
        "`seatrial resources` lists what is there.",
    )
    logit_cache_bytes: int = Field(
        default=256 * MIB, ge=MIB, description="Memory a worker keeps logits of texts in, to ask each text once."
    )
    shared_work_bytes: int = Field(
        default=1024 * MIB,
        ge=0,
        description="Memory a worker keeps what the games of a check would each make alike in: the attacked training "
        "data of RMC, the networks of TADV. What does not fit is made again; no record depends on it.",
    )
    text_drivers: int = Field(
        default=0,
        ge=0,
        le=64,
        description="Processes of a worker that drive the attacks on a model of texts: searches are Python, and those "
        "of one process cannot keep a GPU busy. 0: half of the cores beside a GPU, 8 at most, and one on a CPU. "
        "Endpoints have one always. No record depends on it.",
    )
    endpoint_allowed_networks: list[str] = Field(
        default=[],
        description="Private or local networks endpoint models and webhooks may be in, as JSON list of CIDR blocks, "
        'such as `["127.0.0.1/32"]`; others are refused.',
    )
    endpoint_secrets: dict[str, EndpointSecret] = Field(
        default={},
        description='Secrets endpoint headers may name, as JSON: `{"NAME": {"host": "...", "value": "..."}}`, with '
        '`scheme` (https), `port` (the scheme\'s), `projects` (["default"]) and `headers` (Authorization and the like) '
        "where they differ. Workers need them, the API does not.",
    )
    perturb_deadline_s: float = Field(
        default=2.0, gt=0, description="Seconds of computing a request to /v1/perturb may take."
    )
    webhook_pings_per_minute: int = Field(
        default=60, ge=1, description="Pings, and as many redeliveries, a project may ask an API process for."
    )

    signing_keys: Path | None = Field(
        default=None,
        description="Folder of the keys attestations are signed with; default: home/signing. `seatrial keys signing "
        "create` makes one. Only the API needs it.",
    )
    signing_passphrase: SecretStr | None = Field(
        default=None, description="What the private keys in it are encrypted with; default: they are not."
    )

    least_model_bytes: int = Field(
        default=0,
        ge=0,
        description="A worker takes no model smaller than this, nor audits and trainings of one: small models are for "
        "workers without a GPU, where there are any. Of each worker by itself.",
    )
    most_model_bytes: int | None = Field(
        default=None, ge=0, description="The same of larger models; default, or empty: it takes all."
    )
    log_level: Literal["debug", "info", "warning", "error", "critical"] = Field(
        default="info", description="debug, info, warning, error or critical."
    )
    log_json: bool = Field(
        default=False, description="Log JSON lines, with the ids of what each is about, in all processes."
    )
    traces: bool = Field(
        default=False,
        description="Send OpenTelemetry traces from the request to the shard (extra `otel`), to where "
        "`OTEL_EXPORTER_OTLP_ENDPOINT` says.",
    )

    def __init__(self, **values: Any) -> None:
        """Read the environment; ``values`` win over it.

        Raises:
            InvalidSettingsError: A variable does not fit; the message repeats no value.
        """
        refused: ValidationError | SettingsError | None = None
        try:
            super().__init__(**values)
        except (ValidationError, SettingsError) as error:
            refused = error
        # Outside of the except block: raised inside, pydantic's error with the values would go along.
        if refused is not None:
            raise invalid_settings(refused)

    @field_validator("most_model_bytes", mode="before")
    @classmethod
    def _empty_is_without_limit(cls, most: object) -> object:
        # What docker-compose.yml passes on where .env says nothing.
        return None if most == "" else most

    @field_validator("log_level", mode="before")
    @classmethod
    def _level_in_any_case(cls, level: object) -> object:
        return level.lower() if isinstance(level, str) else level

    @field_validator("device")
    @classmethod
    def _device_is_known(cls, device: str) -> str:
        if not re.fullmatch(r"auto|cpu|cuda(:\d{1,3})?", device):
            raise ValueError("must be auto, cpu, cuda or cuda:N")
        return device

    @field_validator("database_url")
    @classmethod
    def _database_url_can_be_read(cls, url: str) -> str:
        if url:
            check_database_url(url)
        return url

    @field_validator("broker_url")
    @classmethod
    def _broker_url_can_be_read(cls, url: str) -> str:
        if url:
            check_broker_url(url)
        return url

    @field_validator("heartbeat_s")
    @classmethod
    def _heartbeat_fits_into_the_lease(cls, heartbeat_s: float, info: object) -> float:
        lease_s = getattr(info, "data", {}).get("lease_s", 60.0)
        if heartbeat_s * 2 > lease_s:
            raise ValueError(
                f"heartbeat_s ({heartbeat_s:g}) must be at most half of lease_s ({lease_s:g}): one beat may be missed"
            )
        return heartbeat_s

    @field_validator("endpoint_allowed_networks")
    @classmethod
    def _networks_are_networks(cls, networks: list[str]) -> list[str]:
        for network in networks:
            parse_network(network)
        return networks

    @property
    def resolved_resources(self) -> Path:
        """Where language resources are."""
        return self.resources or self.home.absolute() / "resources"

    @property
    def resolved_signing_keys(self) -> Path:
        """Where signing keys are."""
        return self.signing_keys or self.home.absolute() / "signing"

    @property
    def resolved_database_url(self) -> str:
        """The database URL, SQLite under ``home`` by default, Postgres always through psycopg 3."""
        url = self.database_url or f"sqlite:///{self.home.absolute() / 'seatrial.db'}"
        for plain in ("postgres://", "postgresql://"):
            if url.startswith(plain):
                return "postgresql+psycopg://" + url.removeprefix(plain)
        return url

    @property
    def resolved_artifacts_url(self) -> str:
        """Where files are stored."""
        return self.artifacts_url or str(self.home.absolute() / "artifacts")

    @property
    def is_distributed(self) -> bool:
        """Whether a broker carries wake-ups."""
        return bool(self.broker_url)

    def for_child(self) -> dict[str, Any]:
        """Return, as JSON, what a child process that reads uploaded files may know: no address and no secret."""
        return self.model_dump(mode="json", exclude=_NOT_FOR_CHILDREN)


_NOT_FOR_CHILDREN = {
    "database_url",
    "broker_url",
    "artifacts_url",
    "bootstrap_key",
    "endpoint_secrets",
    "signing_passphrase",
}
_given: Settings | None = None


@lru_cache(maxsize=1)
def get_settings() -> Settings:
    """Return the process's settings: those it was given, else read from the environment once."""
    return _given or Settings()


def use_settings(values: dict[str, Any]) -> None:
    """Give this process its settings, as :meth:`Settings.for_child` returned them; its environment has none."""
    global _given
    _given = Settings.model_validate(values)
    get_settings.cache_clear()
