"""things are deleted"""

import sqlalchemy as sa
from alembic import op

from seatrial.store.tables.base import UtcDateTime

revision = 'd4b8f07a61c3'
down_revision = 'c17d84e2f0a6'
branch_labels = None
depends_on = None


def upgrade() -> None:
    def project_of(table: str) -> sa.Column[str]:
        name = f'fk_{table}_project_id_projects'
        return sa.Column('project_id', sa.String(), sa.ForeignKey('projects.id', name=name), nullable=False)

    op.create_table(
        'tombstones',
        sa.Column('id', sa.String(), nullable=False),
        project_of('tombstones'),
        sa.Column('subject', sa.String(), nullable=False),
        sa.Column('kind', sa.String(), nullable=False),
        sa.Column('name', sa.String(), nullable=False),
        sa.Column('details', sa.JSON(none_as_null=True), nullable=False),
        sa.Column('actor', sa.String(), nullable=False),
        sa.Column('cascade_of', sa.String(), nullable=True),
        sa.Column('created_at', UtcDateTime(timezone=True), nullable=False),
        sa.Column('deleted_at', UtcDateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint('id', name='pk_tombstones'),
        sa.UniqueConstraint('subject', name='uq_tombstones_subject'),
    )
    op.create_index('ix_tombstones_project_id_id', 'tombstones', ['project_id', 'id'])
    op.create_index('ix_tombstones_project_id_kind_created_at', 'tombstones', ['project_id', 'kind', 'created_at'])
    op.create_index('ix_tombstones_cascade_of', 'tombstones', ['cascade_of'])
    op.create_table(
        'releases',
        sa.Column('digest', sa.String(), nullable=False),
        sa.Column('due_at', sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint('digest', name='pk_releases'),
    )
    op.create_index('ix_releases_due_at', 'releases', ['due_at'])
    op.create_table(
        'retentions',
        project_of('retentions'),
        sa.Column('kind', sa.String(), nullable=False),
        sa.Column('keep_days', sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint('project_id', 'kind', name='pk_retentions'),
    )
    op.create_table(
        'activity',
        sa.Column('id', sa.String(), nullable=False),
        project_of('activity'),
        sa.Column('actor', sa.String(), nullable=False),
        sa.Column('action', sa.String(), nullable=False),
        sa.Column('subject', sa.String(), nullable=False),
        sa.Column('details', sa.JSON(none_as_null=True), nullable=False),
        sa.Column('request_id', sa.String(), nullable=True),
        sa.Column('created_at', UtcDateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint('id', name='pk_activity'),
    )
    op.create_index('ix_activity_project_id_id', 'activity', ['project_id', 'id'])
    # Null is what workers of before leave.
    op.add_column('shards', sa.Column('records_bytes', sa.BigInteger(), nullable=True))
    named = sa.text('records_digest IS NOT NULL')
    op.create_index(
        'ix_shards_records_digest', 'shards', ['records_digest'], sqlite_where=named, postgresql_where=named
    )


def downgrade() -> None:
    op.drop_index('ix_shards_records_digest', table_name='shards')
    op.drop_column('shards', 'records_bytes')
    for table in ('activity', 'retentions', 'releases', 'tombstones'):
        op.drop_table(table)
