"""Policies, what they made of audits, and the audits later ones are compared with."""

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, Index, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from seatrial.store.tables.base import Base, utc_now


class PolicyRow(Base):
    """One version of a policy; never changed."""

    __tablename__ = "policies"

    id: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    name: Mapped[str]
    version: Mapped[int]
    document: Mapped[dict[str, Any]]
    digest: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)

    __table_args__ = (
        UniqueConstraint("project_id", "name", "version", name="uq_policies_project_id_name_version"),
        Index("ix_policies_project_id_id", "project_id", "id"),
    )


class JudgementRow(Base):
    """A verdict with all it rests on; never changed."""

    __tablename__ = "judgements"

    id: Mapped[str] = mapped_column(primary_key=True)
    audit_id: Mapped[str] = mapped_column(ForeignKey("audits.id", ondelete="CASCADE"))
    is_own: Mapped[bool]
    """Of the policy the audit was submitted with; the audit shows this one."""
    verdict: Mapped[str]
    judgement: Mapped[dict[str, Any]]
    """As told: :class:`seatrial.contracts.policies.Judgement`."""
    document: Mapped[dict[str, Any]]
    """The policy, so that the verdict can be understood whatever becomes of it."""
    created_at: Mapped[datetime] = mapped_column(default=utc_now)

    __table_args__ = (Index("ix_judgements_audit_id_id", "audit_id", "id"),)


class AttestationRow(Base):
    """A signed envelope about an audit; never changed, and further ones may follow."""

    __tablename__ = "attestations"

    id: Mapped[str] = mapped_column(primary_key=True)
    audit_id: Mapped[str] = mapped_column(ForeignKey("audits.id", ondelete="CASCADE"))
    judgement_id: Mapped[str | None] = mapped_column(ForeignKey("judgements.id", ondelete="CASCADE"))
    """The verdict attested; null in what was signed at submission."""
    key_id: Mapped[str]
    content: Mapped[str] = mapped_column(Text)
    """JSON Lines of DSSE envelopes, as they are given out."""
    digest: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)

    __table_args__ = (
        Index("ix_attestations_audit_id_judgement_id", "audit_id", "judgement_id"),
        # Whoever signs second finds that there is one: a verdict has one attestation of a key.
        UniqueConstraint("judgement_id", "key_id", name="uq_attestations_judgement_id_key_id"),
    )


class BaselineRow(Base):
    """An audit promoted once; the newest of a model's name and a name is in force, the others are its history."""

    __tablename__ = "baselines"

    id: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str] = mapped_column(ForeignKey("projects.id"))
    model_name: Mapped[str]
    name: Mapped[str]
    audit_id: Mapped[str] = mapped_column(ForeignKey("audits.id", ondelete="CASCADE"), index=True)
    note: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(default=utc_now)

    __table_args__ = (
        Index("ix_baselines_project_id_model_name_name_id", "project_id", "model_name", "name", "id"),
        Index("ix_baselines_project_id_id", "project_id", "id"),
    )
