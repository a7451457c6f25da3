"""claims stop at the first that waits"""

import sqlalchemy as sa
from alembic import op

revision = 'e20b47d9a1c8'
down_revision = 'b40d7e15c9a2'
branch_labels = None
depends_on = None

UNFINISHED = "state IN ('queued', 'running')"
PARTIAL = (
    ('ix_audits_next', 'audits', ['project_id', sa.text('priority DESC'), 'id'], UNFINISHED),
    ('ix_checks_begun', 'checks', ['audit_id'], "state = 'running' AND open_shards = 0"),
    ('ix_models_checking', 'models', ['project_id', 'id'], "state = 'checking'"),
)


def _create(name, table, columns, condition) -> None:
    where = sa.text(condition)
    op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)


def upgrade() -> None:
    for index in PARTIAL:
        _create(*index)
    op.drop_index('ix_audits_unfinished', table_name='audits')


def downgrade() -> None:
    _create('ix_audits_unfinished', 'audits', ['project_id', 'priority', 'id'], UNFINISHED)
    for name, table, _, _ in reversed(PARTIAL):
        op.drop_index(name, table_name=table)
