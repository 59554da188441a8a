"""PostgreSQL: tables, migrations, and one file of queries per aggregate.

Every function takes the session it works in and never commits: the caller that opened the transaction decides
what belongs together. Coordinators pass the session of their own fenced connection, the API one from the
pool.
"""
