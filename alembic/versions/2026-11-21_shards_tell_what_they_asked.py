"""shards tell what they asked"""

import sqlalchemy as sa
from alembic import op

revision = '7c1d2f0a9b34'
down_revision = '58bd446aa106'
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table('shards', schema=None) as batch_op:
        batch_op.add_column(sa.Column('queries', sa.BigInteger(), nullable=True))
        batch_op.add_column(sa.Column('forward_passes', sa.BigInteger(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table('shards', schema=None) as batch_op:
        batch_op.drop_column('forward_passes')
        batch_op.drop_column('queries')
