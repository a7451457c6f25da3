"""projects have quotas"""

import sqlalchemy as sa
from alembic import op

revision = 'e9c25d1b7f48'
down_revision = 'd4b8f07a61c3'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        'quotas',
        sa.Column('project_id', sa.String(), nullable=False),
        sa.Column('unfinished_audits', sa.Integer(), nullable=True),
        sa.Column('audit_s', sa.Float(), nullable=True),
        sa.Column('daily_s', sa.Float(), nullable=True),
        sa.Column('stored_bytes', sa.BigInteger(), nullable=True),
        sa.Column('requests_per_s', sa.Float(), nullable=True),
        sa.Column('open_uploads', sa.Integer(), nullable=True),
        sa.ForeignKeyConstraint(['project_id'], ['projects.id'], name='fk_quotas_project_id_projects'),
        sa.PrimaryKeyConstraint('project_id', name='pk_quotas'),
    )


def downgrade() -> None:
    op.drop_table('quotas')
