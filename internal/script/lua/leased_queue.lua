-- Acquire permits, each with a lease, or queue for them and grant what is free to those behind. Idempotent. The same call confirms permits that leased_grant has granted.
-- USES  clock int64 leased permits queue enqueue grant dequeue listeners entries share
-- KEYS  1 the number of free permits
--       2 the leases: a sorted set of ids by their end
--       3 the channel of the waiters
--       4 the queue: see lib/queue.lua
-- ARGV  1 lease time in ms
--       2 the ids of the permits, 16 bytes each
--       3 PUBLISH or SPUBLISH
--       4 the entry in the queue
--       5 how many may queue, '' without a limit; 6 1 to check the rights: see lib/queue.lua
-- RETURN  > 0  acquired; a token above those of all earlier grants
--         or a list: -1 - the ms until the next lease ends (0 if none does); the place in the queue (0: not queued,
--         -1: it is full); the score of its entry, if it is queued
--         nothing, if there is no such semaphore
local reply = take(ARGV[1], ARGV[2], ARGV[3])
if not reply then return false end
if reply > 0 then
  dequeue(ARGV[4], ARGV[1], ARGV[3])
  return reply
end
local queued = enqueue(ARGV[4], ARGV[1], -1 - reply, ARGV[5], ARGV[6])
-- Permits that are too few for this owner may be enough for those behind it.
local free = whole(KEYS[1])
if queued[2] > 0 and free > 0 then share(free, queued[2], ARGV[3], 1) end
return queued
