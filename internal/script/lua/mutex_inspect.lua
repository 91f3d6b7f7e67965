-- Look at a mutex without touching it.
-- KEYS  1 the lock
-- RETURN  a list: the remaining ms (-1 never expires, -2 not held), then owner, count, ...
local seen = redis.call('hgetall', KEYS[1])
table.insert(seen, 1, redis.call('pttl', KEYS[1]))
return seen
