"""plans know their request"""

import sqlalchemy as sa
from alembic import op

revision = 'd91c6b3fe052'
down_revision = 'b3d85e40f9a7'
branch_labels = None
depends_on = None

TABLES = ('plans', 'hardenings')


def upgrade() -> None:
    for table in TABLES:
        op.add_column(table, sa.Column('request_id', sa.String(), nullable=True))
        op.add_column(table, sa.Column('traceparent', sa.String(), nullable=True))


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_column(table, 'traceparent')
        op.drop_column(table, 'request_id')
