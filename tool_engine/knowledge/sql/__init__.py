"""How are records kept in a SQLite file or a PostgreSQL database?

`storage` takes records and answers queries; `writer` writes them behind the calls; only `sqlite`
and `postgres` differ between the two databases. Everything that needs a library of the extra is
loaded with the first use.
"""
