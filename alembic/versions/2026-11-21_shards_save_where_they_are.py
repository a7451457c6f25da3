"""shards save where they are"""

import sqlalchemy as sa
from alembic import op

revision = 'c4e80b6d1f57'
down_revision = '7c1d2f0a9b34'
branch_labels = None
depends_on = None


def upgrade() -> None:
    with op.batch_alter_table('shards', schema=None) as batch_op:
        batch_op.add_column(sa.Column('saved_digest', sa.String(), nullable=True))
        batch_op.add_column(sa.Column('saved_attempt', sa.Integer(), nullable=True))
    op.create_table('discards',
    sa.Column('digest', sa.String(), nullable=False),
    sa.Column('due_at', sa.Float(), nullable=False),
    sa.PrimaryKeyConstraint('digest', name=op.f('pk_discards'))
    )
    with op.batch_alter_table('discards', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_discards_due_at'), ['due_at'], unique=False)


def downgrade() -> None:
    with op.batch_alter_table('discards', schema=None) as batch_op:
        batch_op.drop_index(batch_op.f('ix_discards_due_at'))
    op.drop_table('discards')
    with op.batch_alter_table('shards', schema=None) as batch_op:
        batch_op.drop_column('saved_attempt')
        batch_op.drop_column('saved_digest')
