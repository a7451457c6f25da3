"""figures tell their sizes"""

import sqlalchemy as sa
from alembic import op

revision = 'b4d07c5e19a3'
down_revision = 'd91c6b3fe052'
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Workers of the version before tell the size of a check's figures together, which counts as it did.
    op.add_column('checks', sa.Column('figure_sizes', sa.JSON(none_as_null=True), nullable=True))


def downgrade() -> None:
    op.drop_column('checks', 'figure_sizes')
