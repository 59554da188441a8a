"""Back up the database into one file, and restore it.

Archives are in the object store, homes in volumes; everything else CodeHub knows is in the database, the installation's
id and secret included. Sessions are left out: a restored database must not know a person who signed out since.
"""
