"""workers tell what they use"""

import sqlalchemy as sa
from alembic import op

revision = '3f7c92d8e1b4'
down_revision = '9b3c6ad10f57'
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Workers of the version before count nothing and tell nothing of themselves.
    op.create_table(
        'counters',
        sa.Column('name', sa.String(), nullable=False),
        sa.Column('labels', sa.String(), nullable=False),
        sa.Column('value', sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint('name', 'labels', name=op.f('pk_counters')),
    )
    op.add_column('workers', sa.Column('usage', sa.JSON(none_as_null=True), nullable=True))


def downgrade() -> None:
    op.drop_column('workers', 'usage')
    op.drop_table('counters')
