"""Archives of homes: the format, the object store, the storage job.

``keys`` and ``meta`` define names and content of an archive, ``store`` accesses object storage, ``archive``
and ``restore`` are the two directions, ``job`` is the process that runs one of them. See
``docs/understand/archives.md``.
"""
