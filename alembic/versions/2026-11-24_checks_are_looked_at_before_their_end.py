"""checks are looked at before their end"""

import sqlalchemy as sa
from alembic import op

revision = '4be0a71d93c2'
down_revision = '4d9e61c7ab20'
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Null: not looked at, as all checks of before.
    op.add_column('checks', sa.Column('looks', sa.JSON(), nullable=True))


def downgrade() -> None:
    op.drop_column('checks', 'looks')
