"""Storage reads for pages: fixed numbers of queries, and no query without its project."""
