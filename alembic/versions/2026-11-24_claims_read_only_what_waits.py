"""claims read only what waits"""

import sqlalchemy as sa
from alembic import op

revision = '8e27d1c95f30'
down_revision = '5c81e0b6a4d7'
branch_labels = None
depends_on = None

PARTIAL = (
    ('ix_checks_advanceable', 'checks', ['id'], "state IN ('queued', 'running') AND open_shards = 0"),
    ('ix_checks_held', 'checks', ['lease_until'], 'token IS NOT NULL'),
    ('ix_models_held', 'models', ['lease_until'], 'token IS NOT NULL'),
    ('ix_shards_queued', 'shards', ['check_id', 'id'], "state = 'queued'"),
)


def upgrade() -> None:
    for name, table, columns, condition in PARTIAL:
        where = sa.text(condition)
        op.create_index(name, table, columns, sqlite_where=where, postgresql_where=where)
    op.drop_index('ix_checks_state_open_shards', table_name='checks')


def downgrade() -> None:
    op.create_index('ix_checks_state_open_shards', 'checks', ['state', 'open_shards'])
    for name, table, _, _ in reversed(PARTIAL):
        op.drop_index(name, table_name=table)
