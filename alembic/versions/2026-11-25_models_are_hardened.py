"""models are hardened"""

import sqlalchemy as sa
from alembic import op

revision = '4d9e61c7ab20'
down_revision = 'b7d03f5e98a2'
branch_labels = None
depends_on = None

JSON = sa.JSON(none_as_null=True)


def upgrade() -> None:
    op.add_column('models', sa.Column('derived_from', sa.String(), nullable=True))
    op.add_column('models', sa.Column('weights_digest', sa.String(), nullable=True))
    op.create_table(
        'hardenings',
        sa.Column('id', sa.String(), nullable=False),
        sa.Column('project_id', sa.String(), nullable=False),
        sa.Column('model_id', sa.String(), nullable=False),
        sa.Column('dataset_id', sa.String(), nullable=False),
        sa.Column('validation_id', sa.String(), nullable=True),
        sa.Column('audited_id', sa.String(), nullable=False),
        sa.Column('method', sa.String(), nullable=False),
        sa.Column('params', JSON, nullable=False),
        sa.Column('seed', sa.BigInteger(), nullable=False),
        sa.Column('spec', JSON, nullable=False),
        sa.Column('state', sa.String(), nullable=False),
        sa.Column('stage', sa.String(), server_default='training', nullable=False),
        sa.Column('progress', JSON, nullable=True),
        sa.Column('curves', JSON, nullable=True),
        sa.Column('outcome', JSON, nullable=True),
        sa.Column('hardened_id', sa.String(), nullable=True),
        sa.Column('audit_before', sa.String(), nullable=True),
        sa.Column('audit_after', sa.String(), nullable=True),
        sa.Column('result', JSON, nullable=True),
        sa.Column('verdict', sa.String(), nullable=True),
        sa.Column('error', JSON, nullable=True),
        sa.Column('estimated_s', sa.Float(), nullable=True),
        sa.Column('seconds', sa.Float(), nullable=True),
        sa.Column('code', sa.String(), nullable=True),
        sa.Column('hardware', sa.String(), nullable=True),
        sa.Column('saved_digest', sa.String(), nullable=True),
        sa.Column('saved_attempt', sa.Integer(), nullable=True),
        sa.Column('event_seq', sa.Integer(), server_default='0', nullable=False),
        sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
        sa.Column('started_at', sa.DateTime(timezone=True), nullable=True),
        sa.Column('finished_at', sa.DateTime(timezone=True), nullable=True),
        sa.Column('token', sa.String(), nullable=True),
        sa.Column('lease_until', sa.Float(), nullable=True),
        sa.Column('attempts', sa.Integer(), server_default='0', nullable=False),
        sa.Column('worker', sa.String(), nullable=True),
        sa.Column('deferrals', sa.Integer(), server_default='0', nullable=False),
        sa.ForeignKeyConstraint(['project_id'], ['projects.id'], name=op.f('fk_hardenings_project_id_projects')),
        sa.ForeignKeyConstraint(['model_id'], ['models.id'], name=op.f('fk_hardenings_model_id_models')),
        sa.ForeignKeyConstraint(['dataset_id'], ['datasets.id'], name=op.f('fk_hardenings_dataset_id_datasets')),
        sa.ForeignKeyConstraint(['validation_id'], ['datasets.id'], name=op.f('fk_hardenings_validation_id_datasets')),
        sa.ForeignKeyConstraint(['audited_id'], ['datasets.id'], name=op.f('fk_hardenings_audited_id_datasets')),
        sa.ForeignKeyConstraint(['hardened_id'], ['models.id'], name=op.f('fk_hardenings_hardened_id_models')),
        sa.ForeignKeyConstraint(['audit_before'], ['audits.id'], name=op.f('fk_hardenings_audit_before_audits')),
        sa.ForeignKeyConstraint(['audit_after'], ['audits.id'], name=op.f('fk_hardenings_audit_after_audits')),
        sa.PrimaryKeyConstraint('id', name=op.f('pk_hardenings')),
    )
    op.create_index('ix_hardenings_project_id_id', 'hardenings', ['project_id', 'id'])
    for name, columns, condition in (
        ('ix_hardenings_queued', ['project_id', 'id'], "state = 'queued'"),
        ('ix_hardenings_held', ['lease_until'], 'token IS NOT NULL'),
        ('ix_hardenings_in_audits', ['id'], "state = 'running' AND stage = 'auditing'"),
    ):
        where = sa.text(condition)
        op.create_index(name, 'hardenings', columns, sqlite_where=where, postgresql_where=where)
    op.create_table(
        'hardening_events',
        sa.Column('hardening_id', sa.String(), nullable=False),
        sa.Column('seq', sa.Integer(), nullable=False),
        sa.Column('kind', sa.String(), nullable=False),
        sa.Column('data', JSON, nullable=False),
        sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ['hardening_id'],
            ['hardenings.id'],
            name=op.f('fk_hardening_events_hardening_id_hardenings'),
            ondelete='CASCADE',
        ),
        sa.PrimaryKeyConstraint('hardening_id', 'seq', name=op.f('pk_hardening_events')),
    )


def downgrade() -> None:
    op.drop_table('hardening_events')
    for name in ('in_audits', 'held', 'queued', 'project_id_id'):
        op.drop_index(f'ix_hardenings_{name}', table_name='hardenings')
    op.drop_table('hardenings')
    op.drop_column('models', 'weights_digest')
    op.drop_column('models', 'derived_from')
