"""How are records kept in a SQLite file or a PostgreSQL database?

`storage` takes and answers; `writer` brings what was taken into the database, behind the calls;
`sqlite` and `postgres` are all that differs between the two databases. Everything that needs a
library of the extra is loaded with the first use.
"""
