"""shards tell what measured them"""

import sqlalchemy as sa
from alembic import op

revision = 'c17d84e2f0a6'
down_revision = 'a6f3905be714'
branch_labels = None
depends_on = None

COLUMNS = (('shards', 'code'), ('shards', 'hardware'), ('audits', 'code'), ('workers', 'code'))


def upgrade() -> None:
    # Null is what workers of before leave, who measure any audit.
    for table, column in COLUMNS:
        op.add_column(table, sa.Column(column, sa.String(), nullable=True))


def downgrade() -> None:
    for table, column in reversed(COLUMNS):
        op.drop_column(table, column)
