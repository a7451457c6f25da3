"""projects take turns"""

import sqlalchemy as sa
from alembic import op

revision = 'a6f3905be714'
down_revision = '8e27d1c95f30'
branch_labels = None
depends_on = None

UNFINISHED = sa.text("state IN ('queued', 'running')")


def upgrade() -> None:
    op.add_column('projects', sa.Column('weight', sa.Float(), server_default='1', nullable=False))
    op.add_column('projects', sa.Column('priority', sa.Integer(), server_default='0', nullable=False))
    op.add_column('projects', sa.Column('turn', sa.Float(), server_default='0', nullable=False))
    op.add_column('audits', sa.Column('priority', sa.Integer(), server_default='0', nullable=False))
    op.create_index(
        'ix_audits_unfinished',
        'audits',
        ['project_id', 'priority', 'id'],
        sqlite_where=UNFINISHED,
        postgresql_where=UNFINISHED,
    )


def downgrade() -> None:
    op.drop_index('ix_audits_unfinished', table_name='audits')
    op.drop_column('audits', 'priority')
    for column in ('turn', 'priority', 'weight'):
        op.drop_column('projects', column)
