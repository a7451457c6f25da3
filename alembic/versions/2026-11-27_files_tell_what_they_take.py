"""files tell what they take"""

import sqlalchemy as sa
from alembic import op

revision = '6a1f93d0c7e2'
down_revision = 'e20b47d9a1c8'
branch_labels = None
depends_on = None

COLUMNS = (
    ('models', 'weights_bytes'),
    ('checks', 'figures_bytes'),
    ('shards', 'saved_bytes'),
    ('hardenings', 'saved_bytes'),
)


def upgrade() -> None:
    # Workers of the version before tell no sizes of these, and nobody counts what they store.
    for table, column in COLUMNS:
        op.add_column(table, sa.Column(column, sa.BigInteger(), nullable=True))
    saved = sa.text('saved_digest IS NOT NULL')
    op.create_index('ix_shards_saved', 'shards', ['check_id'], sqlite_where=saved, postgresql_where=saved)


def downgrade() -> None:
    op.drop_index('ix_shards_saved', table_name='shards')
    for table, column in reversed(COLUMNS):
        op.drop_column(table, column)
