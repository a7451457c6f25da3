"""quotas read what counts"""

from alembic import op

revision = 'b3d85e40f9a7'
down_revision = '6a1f93d0c7e2'
branch_labels = None
depends_on = None

INDEXES = (
    ('ix_audits_project_id_created_at', 'audits', ['project_id', 'created_at']),
    ('ix_hardenings_project_id_state', 'hardenings', ['project_id', 'state']),
    ('ix_hardenings_project_id_created_at', 'hardenings', ['project_id', 'created_at']),
)


def upgrade() -> None:
    for name, table, columns in INDEXES:
        op.create_index(name, table, columns)


def downgrade() -> None:
    for name, table, _ in reversed(INDEXES):
        op.drop_index(name, table_name=table)
