"""Homes as objects: the format, the object store, the storage job.

``keys`` and ``meta`` say what an archive is called and what is known about it, ``store`` speaks to object
storage, ``archive`` and ``restore`` are the two directions, ``job`` is the process that runs one of them.
``docs/understand/archives.md`` tells the whole story.
"""
