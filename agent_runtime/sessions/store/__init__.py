"""The tables of sessions, and the SQL that reads and writes them."""
