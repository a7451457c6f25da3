"""a gate judges and tells"""

import sqlalchemy as sa
from alembic import op

revision = 'e2b7a90c4d18'
down_revision = 'c4e80b6d1f57'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('policies',
    sa.Column('id', sa.String(), nullable=False),
    sa.Column('project_id', sa.String(), nullable=False),
    sa.Column('name', sa.String(), nullable=False),
    sa.Column('version', sa.Integer(), nullable=False),
    sa.Column('document', sa.JSON(none_as_null=True), nullable=False),
    sa.Column('digest', sa.String(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['project_id'], ['projects.id'], name=op.f('fk_policies_project_id_projects')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_policies')),
    sa.UniqueConstraint('project_id', 'name', 'version', name='uq_policies_project_id_name_version')
    )
    with op.batch_alter_table('policies', schema=None) as batch_op:
        batch_op.create_index('ix_policies_project_id_id', ['project_id', 'id'], unique=False)

    op.create_table('webhooks',
    sa.Column('id', sa.String(), nullable=False),
    sa.Column('project_id', sa.String(), nullable=False),
    sa.Column('url', sa.String(), nullable=False),
    sa.Column('events', sa.JSON(none_as_null=True), nullable=False),
    sa.Column('description', sa.String(), nullable=False),
    sa.Column('is_enabled', sa.Boolean(), nullable=False),
    sa.Column('secrets', sa.JSON(none_as_null=True), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['project_id'], ['projects.id'], name=op.f('fk_webhooks_project_id_projects')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_webhooks'))
    )
    with op.batch_alter_table('webhooks', schema=None) as batch_op:
        batch_op.create_index('ix_webhooks_project_id_id', ['project_id', 'id'], unique=False)

    op.create_table('deliveries',
    sa.Column('id', sa.String(), nullable=False),
    sa.Column('webhook_id', sa.String(), nullable=False),
    sa.Column('event', sa.String(), nullable=False),
    sa.Column('payload', sa.JSON(none_as_null=True), nullable=False),
    sa.Column('status', sa.String(), nullable=False),
    sa.Column('due_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('log', sa.JSON(none_as_null=True), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('finished_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('token', sa.String(), nullable=True),
    sa.Column('lease_until', sa.Float(), nullable=True),
    sa.Column('attempts', sa.Integer(), server_default='0', nullable=False),
    sa.Column('worker', sa.String(), nullable=True),
    sa.ForeignKeyConstraint(['webhook_id'], ['webhooks.id'], name=op.f('fk_deliveries_webhook_id_webhooks'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_deliveries'))
    )
    with op.batch_alter_table('deliveries', schema=None) as batch_op:
        batch_op.create_index('ix_deliveries_status_due_at', ['status', 'due_at'], unique=False)
        batch_op.create_index('ix_deliveries_webhook_id_id', ['webhook_id', 'id'], unique=False)

    op.create_table('baselines',
    sa.Column('id', sa.String(), nullable=False),
    sa.Column('project_id', sa.String(), nullable=False),
    sa.Column('model_name', sa.String(), nullable=False),
    sa.Column('name', sa.String(), nullable=False),
    sa.Column('audit_id', sa.String(), nullable=False),
    sa.Column('note', sa.String(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['audit_id'], ['audits.id'], name=op.f('fk_baselines_audit_id_audits'), ondelete='CASCADE'),
    sa.ForeignKeyConstraint(['project_id'], ['projects.id'], name=op.f('fk_baselines_project_id_projects')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_baselines'))
    )
    with op.batch_alter_table('baselines', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_baselines_audit_id'), ['audit_id'], unique=False)
        batch_op.create_index('ix_baselines_project_id_id', ['project_id', 'id'], unique=False)
        batch_op.create_index('ix_baselines_project_id_model_name_name_id', ['project_id', 'model_name', 'name', 'id'], unique=False)

    op.create_table('judgements',
    sa.Column('id', sa.String(), nullable=False),
    sa.Column('audit_id', sa.String(), nullable=False),
    sa.Column('is_own', sa.Boolean(), nullable=False),
    sa.Column('verdict', sa.String(), nullable=False),
    sa.Column('judgement', sa.JSON(none_as_null=True), nullable=False),
    sa.Column('document', sa.JSON(none_as_null=True), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['audit_id'], ['audits.id'], name=op.f('fk_judgements_audit_id_audits'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_judgements'))
    )
    with op.batch_alter_table('judgements', schema=None) as batch_op:
        batch_op.create_index('ix_judgements_audit_id_id', ['audit_id', 'id'], unique=False)

    op.add_column('audits', sa.Column('policy', sa.JSON(none_as_null=True), nullable=True))
    op.add_column('audits', sa.Column('baseline', sa.String(), nullable=True))
    unjudged = sa.text('policy IS NOT NULL AND verdict IS NULL')
    op.create_index('ix_audits_unjudged', 'audits', ['state'], sqlite_where=unjudged, postgresql_where=unjudged)


def downgrade() -> None:
    op.drop_index('ix_audits_unjudged', table_name='audits')
    # Not in a batch: SQLite would drop the table to make it anew, and its checks with it.
    op.drop_column('audits', 'baseline')
    op.drop_column('audits', 'policy')
    with op.batch_alter_table('judgements', schema=None) as batch_op:
        batch_op.drop_index('ix_judgements_audit_id_id')

    op.drop_table('judgements')
    with op.batch_alter_table('baselines', schema=None) as batch_op:
        batch_op.drop_index('ix_baselines_project_id_model_name_name_id')
        batch_op.drop_index('ix_baselines_project_id_id')
        batch_op.drop_index(batch_op.f('ix_baselines_audit_id'))

    op.drop_table('baselines')
    with op.batch_alter_table('deliveries', schema=None) as batch_op:
        batch_op.drop_index('ix_deliveries_webhook_id_id')
        batch_op.drop_index('ix_deliveries_status_due_at')

    op.drop_table('deliveries')
    with op.batch_alter_table('webhooks', schema=None) as batch_op:
        batch_op.drop_index('ix_webhooks_project_id_id')

    op.drop_table('webhooks')
    with op.batch_alter_table('policies', schema=None) as batch_op:
        batch_op.drop_index('ix_policies_project_id_id')

    op.drop_table('policies')
