"""keys expire"""

import sqlalchemy as sa
from alembic import op

revision = 'b95e2c70d4a1'
down_revision = 'f1d07c3a5b92'
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Keys there are already have no expiry: null.
    with op.batch_alter_table('keys', schema=None) as batch_op:
        batch_op.add_column(sa.Column('expires_at', sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table('keys', schema=None) as batch_op:
        batch_op.drop_column('expires_at')
