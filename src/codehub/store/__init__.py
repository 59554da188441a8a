"""PostgreSQL: tables, one file of queries per aggregate, migrations, change feed."""
