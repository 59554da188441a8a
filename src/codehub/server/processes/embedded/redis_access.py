"""ACL of the embedded Redis: only the commands CodeHub sends, for one user.

The user has a password. The default user is off, so a client without the password can do nothing. The list leaves
out everything that reads or writes files, loads code, changes settings or reads other clients' data (CONFIG, MODULE,
DEBUG, SAVE, REPLICAOF, MONITOR, ACL, FUNCTION, SCRIPT FLUSH…): known vulnerabilities of Redis need one of these, or
a script of the attacker's own. Scripts run with the rights of their caller.

The tests' Redis has the same rules, so a command that is missing here fails a test.
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
    """Content of the ACL file, with the password's hash."""
    hashed = hashlib.sha256(password.encode()).hexdigest()
    allowed = " ".join(f"+{command}" for command in COMMANDS)
    return f"user default off -@all\nuser {USER} on #{hashed} ~* &* -@all {allowed}\n"
