"""Search: the query's terms, candidates, ranking, and the answer."""
