"""the schema says who may use it"""

import sqlalchemy as sa
from alembic import op

revision = 'b7d03f5e98a2'
down_revision = 'e9c25d1b7f48'
branch_labels = None
depends_on = None

# Code that does not know this migration asks for exactly its own schema.
contracts = True


def upgrade() -> None:
    op.create_table(
        'schema',
        sa.Column('id', sa.Integer(), nullable=False),
        sa.Column('needs', sa.String(), nullable=False),
        sa.PrimaryKeyConstraint('id', name='pk_schema'),
    )


def downgrade() -> None:
    op.drop_table('schema')
