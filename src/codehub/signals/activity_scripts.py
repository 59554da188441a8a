"""Lua scripts for activity. Redis runs each atomically and by its own clock.

Three keys for a workspace:

- ``ws_conn:{id}``     sorted set: lease → when it expires (ms, Redis TIME). Alive means: later than now. Each
                       is one WebSocket, or, with the prefix ``http:``, one proxy's requests in flight.
- ``idle_timer:{id}``  string with an expiry: exists while the workspace counts as busy.
- ``last_seen:{id}``   hash: ``at`` (ms) and ``kind`` of the last activity, for people to read; ``input`` (ms): when
                       a person last caused something, as far as proxies have seen it.

All scripts are idempotent: a client that does not know whether its call arrived repeats it. If a client dies
between two calls, its leases expire by themselves; that is why there is no counter.

TIME before a write is allowed because scripts are replicated by their effects (Redis 5 and later).
"""

REQUESTS = "http:"

_NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""

# age: milliseconds since the input, or '' for none. Reports may come late and in any order: the latest input counts.
_NOTE_INPUT = """
local function note_input(key, age)
  if age == '' then return end
  local at = now - age
  if at > tonumber(redis.call('HGET', key, 'input') or 0) then
    redis.call('HSET', key, 'input', at)
    redis.call('EXPIRE', key, 2592000)
  end
end
"""

# KEYS conn, timer, seen; ARGV lease, lease_ms, ttl_ms, kind, input_age_ms → living leases
TAKE = (
    _NOW
    + _NOTE_INPUT
    + """
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('SET', KEYS[2], ARGV[4], 'PX', ARGV[3] + ARGV[2])
redis.call('HSET', KEYS[3], 'at', now, 'kind', ARGV[4])
redis.call('EXPIRE', KEYS[3], 2592000)
note_input(KEYS[3], ARGV[5])
return redis.call('ZCARD', KEYS[1])
"""
)

# KEYS conn, timer, seen; ARGV lease, age_ms (how long ago it ended), ttl_ms, kind, input_age_ms → living leases
#
# The timer begins at the later of this end and the last reported activity: a delayed release must not shorten the
# timer of later activity. The kind stays that of the leases still open.
RELEASE = (
    _NOW
    + _NOTE_INPUT
    + """
note_input(KEYS[3], ARGV[5])
redis.call('ZREM', KEYS[1], ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local ended = now - ARGV[2]
local seen = tonumber(redis.call('HGET', KEYS[3], 'at') or 0)
local living = redis.call('ZCARD', KEYS[1])
if ended >= seen then
  redis.call('HSET', KEYS[3], 'at', ended)
  if living == 0 then
    redis.call('HSET', KEYS[3], 'kind', ARGV[4])
  end
  redis.call('EXPIRE', KEYS[3], 2592000)
end
if living == 0 then
  local left = math.max(ended, seen) + ARGV[3] - now
  if left > 0 then
    redis.call('SET', KEYS[2], ARGV[4], 'PX', left)
  else
    redis.call('DEL', KEYS[2])
  end
end
return living
"""
)

# KEYS timer, seen; ARGV age_ms, ttl_ms, kind, input_age_ms. Never shortens: an open lease has set more than ttl.
TOUCH = (
    _NOW
    + _NOTE_INPUT
    + """
note_input(KEYS[2], ARGV[4])
local at = now - ARGV[1]
local left = at + ARGV[2] - now
if left > redis.call('PTTL', KEYS[1]) and left > 0 then
  redis.call('SET', KEYS[1], ARGV[3], 'PX', left)
end
if at >= tonumber(redis.call('HGET', KEYS[2], 'at') or 0) then
  redis.call('HSET', KEYS[2], 'at', at, 'kind', ARGV[3])
  redis.call('EXPIRE', KEYS[2], 2592000)
end
return 1
"""
)

# KEYS conn, timer, seen; ARGV ttl_ms: the new idle period
#
# The period is counted from the end of the last open lease, otherwise from the last activity. Without any activity
# there is no timer to change.
RETIME = (
    _NOW
    + """
local from = tonumber(redis.call('HGET', KEYS[3], 'at') or 0)
local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')
if last[2] and tonumber(last[2]) > now then
  from = tonumber(last[2])
end
local left = from + ARGV[1] - now
if left > 0 then
  redis.call('SET', KEYS[2], 'retimed', 'PX', left)
else
  redis.call('DEL', KEYS[2])
end
return 1
"""
)

# KEYS epoch; ARGV new_token → {token, run_id, age_ms, now_ms}
#
# Redis lost data when the key is gone (flushed, restarted empty) or was written by another process (restarted from
# an older snapshot, failed over to a replica that lagged). Either way a new epoch begins; its age is for how long
# the data has been complete.
IDENTITY = (
    _NOW
    + """
local run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') or ''
local known = redis.call('HMGET', KEYS[1], 'token', 'run_id', 'born')
if not known[1] or known[2] ~= run_id then
  redis.call('HSET', KEYS[1], 'token', ARGV[1], 'run_id', run_id, 'born', now)
  return {ARGV[1], run_id, 0, now}
end
return {known[1], run_id, math.max(0, now - known[3]), now}
"""
)

# KEYS epoch; ARGV workspace ids → token, then for each id: WebSockets, requests, timer_ms, at, kind,
# input_age_ms (-1: none)
#
# The script computes key names, which Redis Cluster does not allow; CodeHub uses a single Redis.
READ = (
    _NOW
    + """
local answer = {redis.call('HGET', KEYS[1], 'token') or ''}
for _, id in ipairs(ARGV) do
  local seen = redis.call('HMGET', 'last_seen:' .. id, 'at', 'kind', 'input')
  local sockets, requests = 0, 0
  for _, lease in ipairs(redis.call('ZRANGEBYSCORE', 'ws_conn:' .. id, '(' .. now, '+inf')) do
    if string.sub(lease, 1, 5) == 'http:' then requests = requests + 1 else sockets = sockets + 1 end
  end
  answer[#answer + 1] = sockets
  answer[#answer + 1] = requests
  answer[#answer + 1] = redis.call('PTTL', 'idle_timer:' .. id)
  answer[#answer + 1] = seen[1] or ''
  answer[#answer + 1] = seen[2] or ''
  answer[#answer + 1] = seen[3] and math.max(0, now - seen[3]) or -1
end
return answer
"""
)
