-- Acquire a mutex with counted grants, or queue for it. Idempotent. The same call confirms a mutex that fenced_grant has granted.
-- USES  queue enqueue locked counter grant dequeue
-- KEYS  1 the lock
--       2 the counter, which outlives the lock
--       3 the queue: see lib/queue.lua
-- ARGV  1 lease time in ms
--       2 owner
--       3 1: the hold count afterwards
--       4 how many may queue, '' without a limit; 5 1 to check the rights: see lib/queue.lua
--       6 PUBLISH or SPUBLISH
-- RETURN  > 0  acquired; the token: one more than at the last grant
--         or a list: -1 - the remaining ms (0 if it never expires) of the owner that holds it; the place in the queue (0: not queued,
--         -1: it is full); the score of its entry, if it is queued
local token, err = count(KEYS[2], held)
if err then return err end
redis.call('hset', KEYS[1], ARGV[2], 1)
if ttl < tonumber(ARGV[1]) then
  redis.call('pexpire', KEYS[1], ARGV[1])
end
dequeue(ARGV[2] .. ':fenced', ARGV[1], ARGV[6])
return token
