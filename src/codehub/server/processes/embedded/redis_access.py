"""What the embedded Redis lets CodeHub do: exactly the commands it sends, for one user with a password.

The default user is off, so whoever reaches the socket without the password can do nothing. The list leaves
out everything that reads or writes files, loads code, changes settings or looks at others (CONFIG, MODULE,
DEBUG, SAVE, REPLICAOF, MONITOR, ACL, FUNCTION, SCRIPT FLUSH…): known holes of Redis need one of these, or a
script of the attacker's own. Scripts run with the same rights as whoever calls them.

The suite's Redis has the same rules, so a command that is missing here fails a test.
"""

import hashlib

USER = "codehub"

COMMANDS = (
    *("auth", "hello", "ping", "select", "client|setname", "info", "time"),
    *("get", "set", "del", "expire", "pexpire", "pttl"),
    *("hget", "hset", "hmget"),
    *(
        "zadd",
        "zcard",
        "zcount",
        "zpopmax",
        "zrange",
        "zrangebyscore",
        "zrem",
        "zremrangebyscore",
        "zrevrange",
    ),
    *("eval", "evalsha", "script|load"),
    *("publish", "subscribe", "unsubscribe", "multi", "exec", "discard"),
)


def rules(password: str) -> str:
    """The content of an ACL file. It holds the password's hash."""
    hashed = hashlib.sha256(password.encode()).hexdigest()
    allowed = " ".join(f"+{command}" for command in COMMANDS)
    return f"user default off -@all\nuser {USER} on #{hashed} ~* &* -@all {allowed}\n"
