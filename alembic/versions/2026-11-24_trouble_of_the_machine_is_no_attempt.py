"""trouble of the machine is no attempt"""

import sqlalchemy as sa
from alembic import op

revision = '5c81e0b6a4d7'
down_revision = 'f3c4a86d1b95'
branch_labels = None
depends_on = None

LEASED = ('models', 'checks', 'shards')


def upgrade() -> None:
    # Workers of before neither read nor write it.
    for table in LEASED:
        op.add_column(table, sa.Column('deferrals', sa.Integer(), server_default='0', nullable=False))


def downgrade() -> None:
    for table in LEASED:
        op.drop_column(table, 'deferrals')
