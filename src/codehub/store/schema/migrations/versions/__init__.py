"""The revisions, oldest first. One that has been released is never edited again."""
