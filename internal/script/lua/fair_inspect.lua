-- Look at a fair lock without touching it.
-- KEYS  1 the lock
--       2 the queue
-- RETURN  two lists: the remaining ms (-1 never expires, -2 not held), then owner, count;
--         the first thousand in the queue
return {fields(KEYS[1]), redis.call('lrange', KEYS[2], 0, 999)}
