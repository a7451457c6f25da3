"""the first schema"""

import sqlalchemy as sa
from alembic import op

revision = '58bd446aa106'
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table('projects',
    sa.Column('id', sa.String(), nullable=False),
    sa.Column('name', sa.String(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_projects')),
    sa.UniqueConstraint('name', name=op.f('uq_projects_name'))
    )
    op.create_table('workers',
    sa.Column('id', sa.String(), nullable=False),
    sa.Column('device', sa.String(), nullable=False),
    sa.Column('pid', sa.Integer(), nullable=False),
    sa.Column('started_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('last_seen_at', sa.DateTime(timezone=True), nullable=False),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_workers'))
    )
    op.create_table('datasets',
    sa.Column('id', sa.String(), nullable=False),
    sa.Column('project_id', sa.String(), nullable=False),
    sa.Column('name', sa.String(), nullable=False),
    sa.Column('version', sa.String(), nullable=False),
    sa.Column('task', sa.String(), nullable=False),
    sa.Column('split', sa.String(), nullable=False),
    sa.Column('manifest', sa.JSON(none_as_null=True), nullable=False),
    sa.Column('digest', sa.String(), nullable=False),
    sa.Column('size_bytes', sa.BigInteger(), nullable=False),
    sa.Column('format', sa.String(), nullable=False),
    sa.Column('facts', sa.JSON(none_as_null=True), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['project_id'], ['projects.id'], name=op.f('fk_datasets_project_id_projects')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_datasets'))
    )
    with op.batch_alter_table('datasets', schema=None) as batch_op:
        batch_op.create_index('ix_datasets_project_id_id', ['project_id', 'id'], unique=False)
        batch_op.create_index('uq_datasets_project_name_version', ['project_id', 'name', 'version'], unique=True)

    op.create_table('idempotency',
    sa.Column('project_id', sa.String(), nullable=False),
    sa.Column('key', sa.String(), nullable=False),
    sa.Column('fingerprint', sa.String(), nullable=False),
    sa.Column('status', sa.Integer(), nullable=False),
    sa.Column('headers', sa.JSON(none_as_null=True), nullable=False),
    sa.Column('body', sa.JSON(none_as_null=True), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['project_id'], ['projects.id'], name=op.f('fk_idempotency_project_id_projects')),
    sa.PrimaryKeyConstraint('project_id', 'key', name=op.f('pk_idempotency'))
    )
    with op.batch_alter_table('idempotency', schema=None) as batch_op:
        batch_op.create_index('ix_idempotency_created_at', ['created_at'], unique=False)

    op.create_table('keys',
    sa.Column('id', sa.String(), nullable=False),
    sa.Column('project_id', sa.String(), nullable=False),
    sa.Column('name', sa.String(), nullable=False),
    sa.Column('prefix', sa.String(), nullable=False),
    sa.Column('digest', sa.String(), nullable=False),
    sa.Column('scope', sa.String(), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('revoked_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['project_id'], ['projects.id'], name=op.f('fk_keys_project_id_projects')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_keys')),
    sa.UniqueConstraint('digest', name=op.f('uq_keys_digest'))
    )
    with op.batch_alter_table('keys', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_keys_project_id'), ['project_id'], unique=False)

    op.create_table('models',
    sa.Column('id', sa.String(), nullable=False),
    sa.Column('project_id', sa.String(), nullable=False),
    sa.Column('name', sa.String(), nullable=False),
    sa.Column('version', sa.String(), nullable=False),
    sa.Column('task', sa.String(), nullable=False),
    sa.Column('manifest', sa.JSON(none_as_null=True), nullable=False),
    sa.Column('digest', sa.String(), nullable=False),
    sa.Column('size_bytes', sa.BigInteger(), nullable=False),
    sa.Column('format', sa.String(), nullable=False),
    sa.Column('state', sa.String(), nullable=False),
    sa.Column('problem', sa.JSON(none_as_null=True), nullable=True),
    sa.Column('facts', sa.JSON(none_as_null=True), nullable=True),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('token', sa.String(), nullable=True),
    sa.Column('lease_until', sa.Float(), nullable=True),
    sa.Column('attempts', sa.Integer(), server_default='0', nullable=False),
    sa.Column('worker', sa.String(), nullable=True),
    sa.ForeignKeyConstraint(['project_id'], ['projects.id'], name=op.f('fk_models_project_id_projects')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_models'))
    )
    with op.batch_alter_table('models', schema=None) as batch_op:
        batch_op.create_index('ix_models_project_id_id', ['project_id', 'id'], unique=False)
        batch_op.create_index('ix_models_state', ['state'], unique=False)
        batch_op.create_index('uq_models_project_name_version', ['project_id', 'name', 'version'], unique=True, sqlite_where=sa.text("state != 'rejected'"), postgresql_where=sa.text("state != 'rejected'"))

    op.create_table('audits',
    sa.Column('id', sa.String(), nullable=False),
    sa.Column('project_id', sa.String(), nullable=False),
    sa.Column('model_id', sa.String(), nullable=False),
    sa.Column('dataset_id', sa.String(), nullable=False),
    sa.Column('seed', sa.BigInteger(), nullable=False),
    sa.Column('samples', sa.Integer(), nullable=False),
    sa.Column('spec', sa.JSON(none_as_null=True), nullable=False),
    sa.Column('spec_digest', sa.String(), nullable=False),
    sa.Column('state', sa.String(), nullable=False),
    sa.Column('verdict', sa.String(), nullable=True),
    sa.Column('error', sa.JSON(none_as_null=True), nullable=True),
    sa.Column('estimated_s', sa.Float(), nullable=True),
    sa.Column('event_seq', sa.Integer(), server_default='0', nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.Column('started_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('finished_at', sa.DateTime(timezone=True), nullable=True),
    sa.ForeignKeyConstraint(['dataset_id'], ['datasets.id'], name=op.f('fk_audits_dataset_id_datasets')),
    sa.ForeignKeyConstraint(['model_id'], ['models.id'], name=op.f('fk_audits_model_id_models')),
    sa.ForeignKeyConstraint(['project_id'], ['projects.id'], name=op.f('fk_audits_project_id_projects')),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_audits'))
    )
    with op.batch_alter_table('audits', schema=None) as batch_op:
        batch_op.create_index('ix_audits_project_id_id', ['project_id', 'id'], unique=False)
        batch_op.create_index('ix_audits_project_id_model_id_id', ['project_id', 'model_id', 'id'], unique=False)
        batch_op.create_index('ix_audits_project_id_state_id', ['project_id', 'state', 'id'], unique=False)
        batch_op.create_index('ix_audits_state', ['state'], unique=False)

    op.create_table('checks',
    sa.Column('id', sa.String(), nullable=False),
    sa.Column('audit_id', sa.String(), nullable=False),
    sa.Column('ordinal', sa.Integer(), nullable=False),
    sa.Column('kind', sa.String(), nullable=False),
    sa.Column('params', sa.JSON(none_as_null=True), nullable=False),
    sa.Column('state', sa.String(), nullable=False),
    sa.Column('stage', sa.String(), nullable=True),
    sa.Column('open_shards', sa.Integer(), server_default='0', nullable=False),
    sa.Column('result', sa.JSON(none_as_null=True), nullable=True),
    sa.Column('figures', sa.JSON(none_as_null=True), nullable=True),
    sa.Column('error', sa.JSON(none_as_null=True), nullable=True),
    sa.Column('estimated_s', sa.Float(), nullable=True),
    sa.Column('started_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('finished_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('token', sa.String(), nullable=True),
    sa.Column('lease_until', sa.Float(), nullable=True),
    sa.Column('attempts', sa.Integer(), server_default='0', nullable=False),
    sa.Column('worker', sa.String(), nullable=True),
    sa.ForeignKeyConstraint(['audit_id'], ['audits.id'], name=op.f('fk_checks_audit_id_audits'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_checks'))
    )
    with op.batch_alter_table('checks', schema=None) as batch_op:
        batch_op.create_index(batch_op.f('ix_checks_audit_id'), ['audit_id'], unique=False)
        batch_op.create_index('ix_checks_state_open_shards', ['state', 'open_shards'], unique=False)

    op.create_table('events',
    sa.Column('audit_id', sa.String(), nullable=False),
    sa.Column('seq', sa.Integer(), nullable=False),
    sa.Column('kind', sa.String(), nullable=False),
    sa.Column('data', sa.JSON(none_as_null=True), nullable=False),
    sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
    sa.ForeignKeyConstraint(['audit_id'], ['audits.id'], name=op.f('fk_events_audit_id_audits'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('audit_id', 'seq', name=op.f('pk_events'))
    )
    op.create_table('shards',
    sa.Column('id', sa.String(), nullable=False),
    sa.Column('check_id', sa.String(), nullable=False),
    sa.Column('stage', sa.String(), nullable=False),
    sa.Column('ordinal', sa.Integer(), nullable=False),
    sa.Column('start', sa.Integer(), nullable=False),
    sa.Column('stop', sa.Integer(), nullable=False),
    sa.Column('state', sa.String(), nullable=False),
    sa.Column('done', sa.Integer(), server_default='0', nullable=False),
    sa.Column('records_digest', sa.String(), nullable=True),
    sa.Column('flags', sa.JSON(none_as_null=True), nullable=True),
    sa.Column('error', sa.JSON(none_as_null=True), nullable=True),
    sa.Column('seconds', sa.Float(), nullable=True),
    sa.Column('started_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('finished_at', sa.DateTime(timezone=True), nullable=True),
    sa.Column('token', sa.String(), nullable=True),
    sa.Column('lease_until', sa.Float(), nullable=True),
    sa.Column('attempts', sa.Integer(), server_default='0', nullable=False),
    sa.Column('worker', sa.String(), nullable=True),
    sa.ForeignKeyConstraint(['check_id'], ['checks.id'], name=op.f('fk_shards_check_id_checks'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('id', name=op.f('pk_shards')),
    sa.UniqueConstraint('check_id', 'stage', 'ordinal', name='uq_shards_check_id_stage_ordinal')
    )
    with op.batch_alter_table('shards', schema=None) as batch_op:
        batch_op.create_index('ix_shards_state_id', ['state', 'id'], unique=False)

    op.create_table('stages',
    sa.Column('check_id', sa.String(), nullable=False),
    sa.Column('name', sa.String(), nullable=False),
    sa.Column('ordinal', sa.Integer(), nullable=False),
    sa.Column('source', sa.String(), nullable=False),
    sa.Column('examples', sa.Integer(), nullable=False),
    sa.Column('shards', sa.Integer(), nullable=False),
    sa.ForeignKeyConstraint(['check_id'], ['checks.id'], name=op.f('fk_stages_check_id_checks'), ondelete='CASCADE'),
    sa.PrimaryKeyConstraint('check_id', 'name', name=op.f('pk_stages'))
    )


def downgrade() -> None:
    op.drop_table('stages')
    with op.batch_alter_table('shards', schema=None) as batch_op:
        batch_op.drop_index('ix_shards_state_id')

    op.drop_table('shards')
    op.drop_table('events')
    with op.batch_alter_table('checks', schema=None) as batch_op:
        batch_op.drop_index('ix_checks_state_open_shards')
        batch_op.drop_index(batch_op.f('ix_checks_audit_id'))

    op.drop_table('checks')
    with op.batch_alter_table('audits', schema=None) as batch_op:
        batch_op.drop_index('ix_audits_state')
        batch_op.drop_index('ix_audits_project_id_state_id')
        batch_op.drop_index('ix_audits_project_id_model_id_id')
        batch_op.drop_index('ix_audits_project_id_id')

    op.drop_table('audits')
    with op.batch_alter_table('models', schema=None) as batch_op:
        batch_op.drop_index('uq_models_project_name_version', sqlite_where=sa.text("state != 'rejected'"), postgresql_where=sa.text("state != 'rejected'"))
        batch_op.drop_index('ix_models_state')
        batch_op.drop_index('ix_models_project_id_id')

    op.drop_table('models')
    with op.batch_alter_table('keys', schema=None) as batch_op:
        batch_op.drop_index(batch_op.f('ix_keys_project_id'))

    op.drop_table('keys')
    with op.batch_alter_table('idempotency', schema=None) as batch_op:
        batch_op.drop_index('ix_idempotency_created_at')

    op.drop_table('idempotency')
    with op.batch_alter_table('datasets', schema=None) as batch_op:
        batch_op.drop_index('uq_datasets_project_name_version')
        batch_op.drop_index('ix_datasets_project_id_id')

    op.drop_table('datasets')
    op.drop_table('workers')
    op.drop_table('projects')
