"""work is chained"""

import sqlalchemy as sa
from alembic import op

revision = 'f3c4a86d1b95'
down_revision = 'e81b5f2c9d07'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        'plans',
        sa.Column('id', sa.String(), nullable=False),
        sa.Column('project_id', sa.String(), nullable=False),
        sa.Column('name', sa.String(), nullable=False),
        sa.Column('state', sa.String(), nullable=False),
        sa.Column('verdict', sa.String(), nullable=True),
        sa.Column('error', sa.JSON(none_as_null=True), nullable=True),
        sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
        sa.Column('started_at', sa.DateTime(timezone=True), nullable=True),
        sa.Column('finished_at', sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(['project_id'], ['projects.id'], name=op.f('fk_plans_project_id_projects')),
        sa.PrimaryKeyConstraint('id', name=op.f('pk_plans')),
    )
    op.create_index('ix_plans_project_id_id', 'plans', ['project_id', 'id'])
    op.create_table(
        'plan_steps',
        sa.Column('id', sa.String(), nullable=False),
        sa.Column('plan_id', sa.String(), nullable=False),
        sa.Column('ordinal', sa.Integer(), nullable=False),
        sa.Column('kind', sa.String(), nullable=False),
        sa.Column('params', sa.JSON(none_as_null=True), nullable=False),
        sa.Column('state', sa.String(), nullable=False),
        sa.Column('job', sa.String(), nullable=True),
        sa.Column('result', sa.JSON(none_as_null=True), nullable=True),
        sa.Column('error', sa.JSON(none_as_null=True), nullable=True),
        sa.Column('started_at', sa.DateTime(timezone=True), nullable=True),
        sa.Column('finished_at', sa.DateTime(timezone=True), nullable=True),
        sa.Column('token', sa.String(), nullable=True),
        sa.Column('lease_until', sa.Float(), nullable=True),
        sa.Column('attempts', sa.Integer(), server_default='0', nullable=False),
        sa.Column('worker', sa.String(), nullable=True),
        sa.ForeignKeyConstraint(['plan_id'], ['plans.id'], name=op.f('fk_plan_steps_plan_id_plans'), ondelete='CASCADE'),
        sa.PrimaryKeyConstraint('id', name=op.f('pk_plan_steps')),
        sa.UniqueConstraint('plan_id', 'ordinal', name='uq_plan_steps_plan_id_ordinal'),
    )
    op.create_index('ix_plan_steps_state', 'plan_steps', ['state'])


def downgrade() -> None:
    op.drop_index('ix_plan_steps_state', table_name='plan_steps')
    op.drop_table('plan_steps')
    op.drop_index('ix_plans_project_id_id', table_name='plans')
    op.drop_table('plans')
