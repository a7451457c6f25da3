"""What every room shares on the HTTP side: problems, bodies, pages, limits, documentation."""
