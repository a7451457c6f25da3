"""verdicts are signed"""

import sqlalchemy as sa
from alembic import op

revision = 'd40a7f93be62'
down_revision = 'b95e2c70d4a1'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        'attestations',
        sa.Column('id', sa.String(), nullable=False),
        sa.Column('audit_id', sa.String(), nullable=False),
        sa.Column('judgement_id', sa.String(), nullable=True),
        sa.Column('key_id', sa.String(), nullable=False),
        sa.Column('content', sa.Text(), nullable=False),
        sa.Column('digest', sa.String(), nullable=False),
        sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(['audit_id'], ['audits.id'], name=op.f('fk_attestations_audit_id_audits'), ondelete='CASCADE'),
        sa.ForeignKeyConstraint(['judgement_id'], ['judgements.id'], name=op.f('fk_attestations_judgement_id_judgements'), ondelete='CASCADE'),
        sa.PrimaryKeyConstraint('id', name=op.f('pk_attestations')),
        sa.UniqueConstraint('judgement_id', 'key_id', name='uq_attestations_judgement_id_key_id'),
    )
    op.create_index('ix_attestations_audit_id_judgement_id', 'attestations', ['audit_id', 'judgement_id'])


def downgrade() -> None:
    op.drop_index('ix_attestations_audit_id_judgement_id', table_name='attestations')
    op.drop_table('attestations')
