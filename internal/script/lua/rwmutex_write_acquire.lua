-- Acquire a write lock, or reenter it. Idempotent.
-- USES  acquire_write held clock rwmutex readers enter
-- KEYS  1 the lock
--       2 the waiting writers that have priority
--       3 prefix of all readers' keys
-- ARGV  1 lease time in ms
--       2 the writer's field
--       3 hold count afterwards: 1, or more to reenter
--       4 if the writer has to wait, for how many ms new readers are kept out; 0: they are not
-- RETURN  > 0   acquired; a token above those of all earlier grants
--         <= 0  held by others, or, on reentry, no longer held:
--               -1 - the remaining ms, 0 if it never expires
local ms = enter()
if ms then return held(ms) end
local now = redis.call('time')
return now[1] * 1000000 + now[2]
