"""files are found by digest"""

import sqlalchemy as sa
from alembic import op

revision = 'c81e6a27d5f4'
down_revision = 'b4d07c5e19a3'
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index('ix_models_digest', 'models', ['digest'])
    has_weights = sa.text('weights_digest IS NOT NULL')
    op.create_index(
        'ix_models_weights_digest',
        'models',
        ['weights_digest'],
        sqlite_where=has_weights,
        postgresql_where=has_weights,
    )
    op.create_index('ix_datasets_digest', 'datasets', ['digest'])


def downgrade() -> None:
    op.drop_index('ix_datasets_digest', table_name='datasets')
    op.drop_index('ix_models_weights_digest', table_name='models')
    op.drop_index('ix_models_digest', table_name='models')
