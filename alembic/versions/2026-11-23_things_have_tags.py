"""things have tags"""

import sqlalchemy as sa
from alembic import op

revision = 'e81b5f2c9d07'
down_revision = 'd40a7f93be62'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        'tags',
        sa.Column('subject_id', sa.String(), nullable=False),
        sa.Column('tag', sa.String(), nullable=False),
        sa.Column('project_id', sa.String(), nullable=False),
        sa.Column('created_at', sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(['project_id'], ['projects.id'], name=op.f('fk_tags_project_id_projects')),
        sa.PrimaryKeyConstraint('subject_id', 'tag', name=op.f('pk_tags')),
    )
    op.create_index('ix_tags_project_id_tag_subject_id', 'tags', ['project_id', 'tag', 'subject_id'])


def downgrade() -> None:
    op.drop_index('ix_tags_project_id_tag_subject_id', table_name='tags')
    op.drop_table('tags')
