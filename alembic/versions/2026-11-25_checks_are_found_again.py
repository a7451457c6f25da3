"""checks are found again"""

import sqlalchemy as sa
from alembic import op

revision = 'a51c0e7d2f94'
down_revision = '4be0a71d93c2'
branch_labels = None
depends_on = None

JSON = sa.JSON(none_as_null=True)
KNOWN = sa.text('asked IS NOT NULL')


def upgrade() -> None:
    # Null of those that are there: nobody knows what they were measured with, and they are never offered again.
    op.add_column('checks', sa.Column('asked', sa.String(), nullable=True))
    op.add_column('checks', sa.Column('measured_with', sa.String(), nullable=True))
    op.add_column('checks', sa.Column('reused', JSON, nullable=True))
    op.create_index('ix_checks_asked', 'checks', ['asked'], sqlite_where=KNOWN, postgresql_where=KNOWN)


def downgrade() -> None:
    op.drop_index('ix_checks_asked', 'checks')
    op.drop_column('checks', 'reused')
    op.drop_column('checks', 'measured_with')
    op.drop_column('checks', 'asked')
