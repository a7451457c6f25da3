"""estimates are ranges"""

import sqlalchemy as sa
from alembic import op

revision = 'c7e5b81f3a06'
down_revision = 'a51c0e7d2f94'
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Null of those that are there: what was seen elsewhere.
    op.add_column('checks', sa.Column('spread_low', sa.Float(), nullable=True))
    op.add_column('checks', sa.Column('spread_high', sa.Float(), nullable=True))


def downgrade() -> None:
    op.drop_column('checks', 'spread_high')
    op.drop_column('checks', 'spread_low')
