"""audits know their request"""

import sqlalchemy as sa
from alembic import op

revision = '9b3c6ad10f57'
down_revision = 'c7e5b81f3a06'
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Null of those that are there, and of what plans and hardenings ask for by themselves.
    op.add_column('audits', sa.Column('request_id', sa.String(), nullable=True))


def downgrade() -> None:
    op.drop_column('audits', 'request_id')
