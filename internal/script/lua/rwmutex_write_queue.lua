-- Acquire a write lock, or queue for it. Idempotent. The same call confirms a lock that rwmutex_write_grant has granted.
-- USES  clock rwmutex readers enter queue enqueue grant dequeue
-- KEYS  1 the lock
--       2 the waiting writers that have priority
--       3 prefix of all readers' keys
--       4 the queue: see lib/queue.lua
-- ARGV  1 lease time in ms
--       2 the writer's field
--       3 1: the hold count afterwards
--       4 if the writer has to wait, for how many ms new readers are kept out; 0: they are not
--       5 how many may queue, '' without a limit; 6 1 to check the rights: see lib/queue.lua
--       7 PUBLISH or SPUBLISH
-- RETURN  > 0  acquired; a token above those of all earlier grants
--         or a list: -1 - the remaining ms (0 if it never expires) of those that hold it; the place in the queue (0: not queued,
--         -1: it is full); the score of its entry, if it is queued
local ms = enter()
if ms then return enqueue(ARGV[2], ARGV[1], ms, ARGV[5], ARGV[6]) end
dequeue(ARGV[2], ARGV[1], ARGV[7])
local now = redis.call('time')
return now[1] * 1000000 + now[2]
