"""audits carry their trace"""

import sqlalchemy as sa
from alembic import op

revision = 'b40d7e15c9a2'
down_revision = '3f7c92d8e1b4'
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Null where traces are off, and of what plans and hardenings ask for by themselves.
    op.add_column('audits', sa.Column('traceparent', sa.String(), nullable=True))


def downgrade() -> None:
    op.drop_column('audits', 'traceparent')
