-- Acquire a mutex, or queue for it. Idempotent. The same call confirms a mutex that mutex_grant has granted.
-- USES  queue enqueue locked grant dequeue
-- KEYS  1 the lock
--       2 the queue: see lib/queue.lua
-- ARGV  1 lease time in ms
--       2 owner
--       3 1: the hold count afterwards
--       4 how many may queue, '' without a limit; 5 1 to check the rights: see lib/queue.lua
--       6 PUBLISH or SPUBLISH
-- RETURN  > 0  acquired; a token above those of all earlier grants
--         or a list: -1 - the remaining ms (0 if it never expires) of the owner that holds it; the place in the queue (0: not queued,
--         -1: it is full); the score of its entry, if it is queued
redis.call('hset', KEYS[1], ARGV[2], 1)
if ttl < tonumber(ARGV[1]) then
  redis.call('pexpire', KEYS[1], ARGV[1])
end
dequeue(ARGV[2], ARGV[1], ARGV[6])
local now = redis.call('time')
return now[1] * 1000000 + now[2]
