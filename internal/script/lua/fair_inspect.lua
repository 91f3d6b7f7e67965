-- Look at a fair lock without touching it.
-- KEYS  1 the lock
--       2 the queue
-- RETURN  two lists: the remaining ms (-1 never expires, -2 not held), then owner, count;
--         the first thousand in the queue
local seen = redis.call('hgetall', KEYS[1])
table.insert(seen, 1, redis.call('pttl', KEYS[1]))
return {seen, redis.call('lrange', KEYS[2], 0, 999)}
